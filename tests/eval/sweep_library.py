# SPDX-License-Identifier: Apache-2.0
"""More programs of sweep.py: what jax.numpy, jax.scipy, jax.random and jax.nn lower to, by families of functions."""
import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
from jax import lax
from sweep_programs import complexes, normal, positive, program, whole

KEY = np.array([3, 14], np.uint32)


def key(data):
    return jax.random.wrap_key_data(data, impl="threefry2x32")


# Arrays


@program(normal(9, 13))
def order_statistics(x):
    return jnp.median(x, 1), jnp.percentile(x, 30., axis=0), jnp.quantile(x, jnp.array([.1, .9])), jnp.argsort(x)[:, ::2]


@program(normal(40), whole(0, 9, 40))
def tallies(x, i):
    return jnp.histogram(x, bins=7), jnp.bincount(i, length=9), jnp.digitize(x, jnp.array([-1., 0., 1.])), jnp.unique(i, size=9)


@program(normal(30), normal(12))
def searching(x, y):
    table = jnp.sort(x)
    return jnp.searchsorted(table, y), jnp.interp(y, table, x), jnp.nonzero(x > 0, size=20, fill_value=-1), jnp.argmax(x > .5)


@program(normal(5, 6), whole(0, 6, 5, 2))
def along_axis(x, i):
    taken = jnp.take_along_axis(x, i, 1)
    return taken, jnp.put_along_axis(x, i[:, :1], 0., 1, inplace=False), jnp.take(x, i[:, 0], axis=1, mode="wrap")


@program(normal(4, 5, 6))
def turning(x):
    return jnp.roll(x, (1, -2), (0, 2)), jnp.rot90(x, axes=(1, 2)), jnp.moveaxis(x, 0, 2), jnp.flip(x, 1), jnp.tril(x, 1), jnp.diagonal(x)


@program(normal(20), normal(5))
def filtering(x, k):
    return jnp.convolve(x, k, "same"), jnp.correlate(x, k), jnp.diff(x, 2), jnp.gradient(x), jnp.trapezoid(x)


@program(positive(6, 7))
def cumulative(x):
    return jnp.cumprod(x, 1), lax.cummax(x, 0), lax.cumlogsumexp(x, 1, reverse=True), lax.associative_scan(jnp.multiply, x, axis=1)


@program(normal(5, 40))
def moments(x):
    holes = jnp.where(x > 1, jnp.nan, x)
    return jnp.cov(x), jnp.corrcoef(x), jnp.nanmean(holes, 1), jnp.nanmax(holes, 0), jnp.std(x, 1, ddof=1), jnp.ptp(x, 0)


@program(whole(0, 2**31 - 1, 24), whole(1, 99, 24))
def number_theory(a, b):
    return jnp.gcd(a, b), jnp.lcm(a % 97 + 1, b), jnp.bitwise_count(a), a // b, a % -b, jnp.left_shift(a, b % 8), lax.clz(a)


@program(whole(0, 256, 6, 16, dtype=np.uint8))
def bits(x):
    return jnp.unpackbits(x, axis=1), jnp.packbits(x > 99, axis=1), lax.bitcast_convert_type(x.reshape(24, 4), jnp.float32) * 0


@program(normal(33), positive(33))
def representation(x, y):
    return (*jnp.frexp(x), jnp.ldexp(x, 3), jnp.nextafter(x, y), jnp.copysign(x, -y), jnp.signbit(x), *jnp.modf(3 * x), *jnp.divmod(x, y))


@program(positive(40))
def elementary(x):
    return (jnp.sinc(x), jnp.hypot(x, 2), jnp.cbrt(x), jnp.log1p(x), jnp.expm1(x), jnp.arcsinh(x), jnp.arctanh(x / 2), jnp.logaddexp2(x, 1),
            jnp.heaviside(x - 1, .5), jnp.float_power(x, .3), jnp.exp2(x), jnp.arctan2(x, -x), jnp.rad2deg(x), jnp.tan(x), jnp.i0(x))


@program(complexes(4, 8))
def spectra(x):
    real = x.real
    return (jnp.abs(jnp.fft.fft2(x)), jnp.fft.irfft(jnp.fft.rfft(real)), jnp.fft.fftshift(real, 1), jnp.abs(jnp.fft.ifftn(x)), jnp.angle(x),
            jnp.fft.rfftfreq(9))


# Linear algebra: what does not depend on the sign or order of vectors


@program(normal(7, 5))
def factors(x):
    u, s, v = jnp.linalg.svd(x, full_matrices=False)
    q, r = jnp.linalg.qr(x)
    return s, (u * s) @ v, q @ r, jnp.linalg.norm(x, 2), jnp.linalg.matrix_rank(x), jnp.linalg.pinv(x)


@program(normal(3, 6, 6))
def square_matrices(x):
    symmetric = x + x.mT
    return (jnp.linalg.det(x), *jnp.linalg.slogdet(x), jnp.linalg.inv(x), jnp.linalg.eigvalsh(symmetric), jnp.linalg.matrix_power(x / 4, 5),
            jsp.linalg.expm(x[0] / 4))


@program(normal(6, 6, dtype=np.float64), normal(6, 3, dtype=np.float64))
def systems(x, b):
    spd = x @ x.T + 6 * jnp.eye(6)
    return (jsp.linalg.cho_solve(jsp.linalg.cho_factor(spd), b), jsp.linalg.lu_solve(jsp.linalg.lu_factor(x + 6 * jnp.eye(6)), b),
            jnp.linalg.lstsq(spd, b)[0], jsp.linalg.solve_triangular(jnp.tril(spd), b, lower=True, trans=1))


@program(normal(5, dtype=np.float64), normal(5, 5, dtype=np.float64))
def linear_gradient(b, x):
    spd = x @ x.T + 5 * jnp.eye(5)
    return jax.grad(lambda b, m: jnp.linalg.solve(m, b) @ b + jnp.linalg.slogdet(m)[1], (0, 1))(b, spd)


# Special functions


@program(positive(30), positive(30))
def gamma_family(x, y):
    return (jsp.special.gammaln(3 * x), jsp.special.digamma(x), jsp.special.betainc(x, y, .4), jsp.special.gammainc(2 * x, y),
            jsp.special.polygamma(1, x + 1), jsp.special.zeta(x + 1.5, y), jsp.special.betaln(x, y))


@program(positive(30))
def error_family(x):
    inside = x / 2 - .5
    return (jsp.special.erf(x), jsp.special.erfc(x), lax.erf_inv(inside), jsp.special.ndtri(x / 1.2), jsp.special.i0e(x), jsp.special.i1e(x),
            jsp.special.entr(x), jsp.special.xlogy(x, x), jsp.special.logit(x / 1.2), jsp.special.log_ndtr(-x))


@program(normal(25))
def densities(x):
    return jsp.stats.norm.logpdf(x), jsp.stats.laplace.cdf(x), jsp.stats.t.logpdf(x, 3.), jsp.stats.beta.pdf(jax.nn.sigmoid(x), 2., 3.)


# Random numbers


@program(KEY)
def draws(data):
    k = jax.random.split(key(data), 8)
    return (jax.random.uniform(k[0], (5,)), jax.random.normal(k[1], (5,)), jax.random.randint(k[2], (5,), 0, 99), jax.random.permutation(k[3], 20),
            jax.random.truncated_normal(k[4], -1., 1., (5,)), jax.random.bernoulli(k[5], .3, (9,)), jax.random.bits(k[6], (3,), "uint8"))


@program(KEY, positive(4, 6))
def draws_by_loops(data, weights):
    k = jax.random.split(key(data), 5)
    return (jax.random.gamma(k[0], 2.5, (6,)), jax.random.poisson(k[1], 3., (6,)), jax.random.categorical(k[2], jnp.log(weights)),
            jax.random.choice(k[3], 10, (4,), replace=False), jax.random.dirichlet(k[4], weights[0]))


# Layers


@program(normal(2, 9, 9, 4), normal(3, 3, 4, 6), normal(3, 3, 1, 8), normal(3, 3, 4, 5))
def convolution_forms(x, k, depthwise, transposed):
    numbers = ("NHWC", "HWIO", "NHWC")
    return (lax.conv_general_dilated(x, k, (2, 1), [(2, 0), (-1, 3)], rhs_dilation=(1, 2), dimension_numbers=numbers),
            lax.conv_general_dilated(x, depthwise, (1, 1), "SAME", dimension_numbers=numbers, feature_group_count=4),
            lax.conv_transpose(x, transposed, (2, 2), "SAME", dimension_numbers=numbers))


@program(normal(2, 8, 8, 3), normal(3, 3, 3, 4))
def pooled_convolution_gradients(x, k):
    def loss(x, k):
        y = lax.conv_general_dilated(x, k, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return jnp.sum(jnp.tanh(lax.reduce_window(y, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 1, 1, 1), "SAME")))
    return jax.grad(loss, (0, 1))(x, k)


@program(normal(2, 6, 7, 3))
def averages(x):
    ones = lax.reduce_window(jnp.ones_like(x), 0., lax.add, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
    return lax.reduce_window(x, 0., lax.add, (1, 3, 3, 1), (1, 2, 2, 1), "SAME") / ones, jax.image.resize(x, (2, 9, 5, 3), "linear")


@program(normal(6, 20))
def activations(x):
    return (jax.nn.glu(x), jax.nn.hard_swish(x), jax.nn.celu(x), jax.nn.selu(x), jax.nn.softplus(x), jax.nn.silu(x), jax.nn.log_softmax(x),
            jax.nn.standardize(x), jax.nn.logsumexp(x, 1, b=jnp.abs(x)), jax.nn.squareplus(x), jax.nn.mish(x), jax.nn.relu6(x))


@program(normal(7, 3, 5), normal(5, 32), normal(8, 32), normal(32))
def lstm(x, w, u, b):
    def step(state, x):
        h, c = state
        i, f, g, o = jnp.split(x @ w + h @ u + b, 4, 1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h
    zero = jnp.zeros((3, 8))
    return jax.value_and_grad(lambda x: lax.scan(step, (zero, zero), x)[1].sum())(x)


@program(normal(2, 6, 4, 8))
def rotary(x):
    angle = jnp.arange(6)[:, None] / 100**(jnp.arange(4) / 4)
    a, b = jnp.split(x, 2, -1)
    c, s = jnp.cos(angle)[:, None], jnp.sin(angle)[:, None]
    return jnp.concatenate([a * c - b * s, a * s + b * c], -1)


@program(normal(12, 8), normal(8, 4), normal(4, 8, 16), normal(4, 16, 8))
def experts(x, router, up, down):
    weight, expert = lax.top_k(jax.nn.softmax(x @ router), 2)
    order = jnp.argsort(expert.ravel(), stable=True)
    sizes = jnp.bincount(expert.ravel(), length=4)
    rows = x[order // 2]
    out = lax.ragged_dot(jax.nn.gelu(lax.ragged_dot(rows, up, sizes)), down, sizes)
    return jnp.zeros_like(x).at[order // 2].add(out * weight.ravel()[order][:, None])


@program(normal(10, 6), normal(6, 3), normal(6, 3), positive(6, 3), np.int32(4))
def adam(x, w, m, v, step):
    g = jax.grad(lambda w: jnp.mean(jnp.square(jnp.tanh(x @ w))))(w)
    m, v, step = .9 * m + .1 * g, .999 * v + .001 * g * g, step + 1
    return w - 1e-3 * (m / (1 - .9**step)) / (jnp.sqrt(v / (1 - .999**step)) + 1e-8), m, v, step


# Control and derivatives


@program(normal(8), np.int32(2))
def switches(x, i):
    taken = lax.switch(i, [jnp.sin, jnp.cos, lambda x: x**2, jnp.cumsum], x)
    return taken, jax.grad(lambda x: lax.cond(x[0] > 0, lambda x: (x**2).sum(), lambda x: jnp.sin(x).sum(), x))(x)


@program(positive(6))
def loops_of_loops(x):
    batched = jax.vmap(lambda x: lax.while_loop(lambda s: s[0] < 20, lambda s: (s[0] * 1.7, s[1] + 1), (x, 0)))(x)
    nested = lax.fori_loop(0, 4, lambda i, c: lax.fori_loop(0, i, lambda j, c: c + x * j, c), jnp.zeros_like(x))
    return batched, nested, lax.map(lambda x: x**2 + 1, x)


@program(normal(5), normal(5, 5))
def derivatives(x, m):
    f = jax.checkpoint(lambda x: jnp.tanh(m @ jnp.sin(m @ x)))
    return jax.jacfwd(f)(x), jax.jacrev(f)(x), jax.jvp(f, (x,), (jnp.ones_like(x),)), jax.hessian(lambda x: f(x).sum())(x)


@program(normal(9, 4), whole(0, 9, 7), normal(7, 4))
def scatter_forms(x, i, u):
    return (x.at[i].min(u), x.at[i].multiply(u), x.at[i].apply(jnp.sin), x.at[i, 0].set(1.), x.at[i + 5].add(u, mode="drop"),
            x.at[i + 5].get(mode="fill", fill_value=7.), x.at[2:7:2, ::-1].set(0.))


@program(normal(4, 3, 11), whole(0, 99, 4, 11))
def sort_keys(x, i):
    return (lax.sort((i, x[:, 0]), dimension=1, num_keys=1), jnp.lexsort((x[:, 0], i % 5)), lax.top_k(x, 4),
            lax.approx_max_k(x[:, 0], 3, reduction_input_size_override=-1)[0], jnp.partition(i, 4))


# Narrow types


@program(whole(-100, 100, 6, 16, dtype=np.int8), whole(-100, 100, 16, 5, dtype=np.int8))
def quantised(a, b):
    total = lax.dot(a, b, preferred_element_type=jnp.int32)
    scale = jnp.max(jnp.abs(total)) / 127.
    return total, jnp.clip(jnp.round(total / scale), -128, 127).astype(jnp.int8)


@program(normal(8, 16), normal(16, 8))
def eight_bit_floats(a, b):
    low = a.astype(jnp.float8_e4m3fn), b.astype(jnp.float8_e5m2)
    return lax.dot(*low, preferred_element_type=jnp.float32), a.astype(jnp.float8_e4m3fn).astype(jnp.float32)


@program(normal(8, 16), normal(16, 8))
def half_precision(a, b):
    x, w = a.astype(jnp.bfloat16), b.astype(jnp.bfloat16)
    return (x @ w, jnp.sum(x, 1), jax.nn.softmax(a.astype(jnp.float16) * 2),  # as f32 XLA would not round them
            lax.reduce_precision(a, 5, 7), a.astype(jnp.int4).astype(jnp.int32))
