# SPDX-License-Identifier: Apache-2.0
"""Functions for compare_with_jax.py to which JAX gives a derivative of their own (custom_jvp, or a primitive that is
lowered to a graph): programs have lost these rules, and what is differentiated is the graph, or a function that is
recognised by its name or form. At common points and at those where a formula changes or divides by zero."""
import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np

from functions import BOTH
from library import NO_VMAP, many

s = jsp.special


def points():
    wide = np.array([-20, -7.5, -3.2, -1.1, -.4, -1e-3, 1e-3, .3, .9, 1.7, 4.4, 8.5, 12.3, 33.])
    positive = np.array([1e-3, .05, .3, .8, 1.2, 2.7, 5.5, 9.1, 14., 40.])
    unit = np.array([1e-6, .02, .2, .45, .55, .8, .97])
    yield from many(BOTH, [wide], i0=s.i0, i0e=s.i0e, i1=s.i1, erfc=s.erfc, erfcx=s.erfcx, dawsn=s.dawsn, ndtr=s.ndtr, np_i0=jnp.i0, frexp=lambda a: jnp.frexp(a)[0],
                    ldexp=lambda a: jnp.ldexp(a, 3), sici=s.sici, wofz=lambda a: s.wofz(a + 1j), modf=jnp.modf, hyp1f1=lambda a: s.hyp1f1(1.5, 2.5, a / 4))
    yield from many(BOTH, [positive], entr=s.entr, zeta=lambda a: s.zeta(a + 1.01, 1.7), polygamma=lambda a: s.polygamma(2, a), expn=lambda a: s.expn(3, a), poch=lambda a: s.poch(a, 2.3),
                    log1mexp=lambda a: jax.nn.log1mexp(-a), spence=s.spence, fresnel=s.fresnel)
    yield from many(BOTH, [unit], logit=s.logit, ndtri=s.ndtri, erfinv=s.erfinv)


def integrals():
    h, a = np.array([0., 0., 1., -1., 2., -.5, 3., 1.]), np.array([0., 1., 1., 1., -2., .5, 0., -1.])
    rows = np.array([[.7, 1.4, 2.2], [.3, .9, 1.9]])
    yield from many(BOTH, [h, a], owens_t=s.owens_t)
    yield from many(BOTH, [np.float32(h), np.float32(a)], owens_t_f32=s.owens_t)
    for dtype in (np.float16, jnp.bfloat16):  # JAX's result is wider, but no more precise
        yield from many(BOTH, [h.astype(dtype), a.astype(dtype)], **{f"owens_t_{np.dtype(dtype)}": lambda h, a: s.owens_t(h, a).astype(h.dtype)})
    yield from many(BOTH, [rows], owens_t_half=lambda x: s.owens_t(x, .5), owens_t_mapped=lambda x: jax.vmap(lambda r: s.owens_t(r, .3 * x[0]))(x), owens_t_twice=jax.grad(lambda x: s.owens_t(x, x * x).sum()))


def zeros():
    x, y = np.array([0., 0., 1., 2., 3.]), np.array([2., .25, 1., 2., .5])
    z = np.array([0., -0., 1., -1.])
    yield from many(BOTH, [x, y], xlogy=s.xlogy, xlog1py=s.xlog1py, kl_div=s.kl_div, rel_entr=s.rel_entr)
    yield from many(BOTH, [z], np_i0=jnp.i0, sinc=jnp.sinc, frexp=lambda a: jnp.frexp(a)[0], ldexp=lambda a: jnp.ldexp(a, 2), sici=lambda a: s.sici(a)[0])
    yield from many(BOTH, [np.array([0., .3, 1.])], entr=s.entr)


def samples():
    key, a = jax.random.PRNGKey(3), np.array([.3, .8, 1.5, 4., 11.])
    yield from many(BOTH, [a], gamma=lambda p: jax.random.gamma(key, p), gamma_rows=lambda p: jax.random.gamma(key, p, (2, 5)), dirichlet=lambda p: jax.random.dirichlet(key, p))
    yield from many(NO_VMAP, [a], loggamma=lambda p: jax.random.loggamma(key, p), beta=lambda p: jax.random.beta(key, p, p + .5), t=lambda p: jax.random.t(key, p, p.shape),
                    chisquare=lambda p: jax.random.chisquare(key, p), f=lambda p: jax.random.f(key, p, p + 1))
    yield from many(NO_VMAP, [a.astype(np.float32)], gamma_f32=lambda p: jax.random.gamma(key, p, dtype=jnp.float32), loggamma_mixed=lambda p: jax.random.loggamma(key, p))
    yield from many(BOTH, [a], pareto=lambda p: jax.random.pareto(key, p), weibull=lambda p: jax.random.weibull_min(key, p, 1.5, p.shape), truncated=lambda p: jax.random.truncated_normal(key, -p, p, p.shape),
                    wald=lambda p: jax.random.wald(key, p), triangular=lambda p: jax.random.triangular(key, 0., p / 2, p), multivariate=lambda p: jax.random.multivariate_normal(key, p, jnp.diag(p)))


def all_functions():
    for group in (points, integrals, zeros, samples):
        for name, *rest in group():
            yield (f"{group.__name__}.{name}", *rest)
