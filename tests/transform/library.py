# SPDX-License-Identifier: Apache-2.0
"""More functions for compare_with_jax.py, as users write them with jax.numpy, jax.nn, jax.scipy and lax."""
import functools

import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
from jax import lax

from functions import BOTH, attention, mlp, random

FORWARD = ("forward", "vmap")
NO_VMAP = ("reverse", "forward")


def many(modes, arguments, **functions):
    for name, function in functions.items():
        yield name, function, arguments, modes


def special():
    x, y, n = random((3, 4), 1, .3, 2), random((3, 4), 2, .2, .9), random((3, 4), 3, -2, 2)
    s = jsp.special
    yield from many(BOTH, [x], lgamma=lax.lgamma, digamma=lax.digamma, i0=s.i0, i0e=s.i0e, i1=s.i1, i1e=s.i1e, logit=lambda a: s.logit(a / 3),
                    entr=s.entr, factorial=s.factorial, gamma=s.gamma, trigamma=lambda a: s.polygamma(1, a), exprel=lambda a: (jnp.exp(a) - 1) / a,
                    multigammaln=lambda a: s.multigammaln(a + 2, 2), log_softmax=lambda a: jax.nn.log_softmax(a, 0), zeta=lambda a: s.zeta(2.5, a))
    yield from many(BOTH, [n], ndtr=s.ndtr, log_ndtr=s.log_ndtr, sinc=jnp.sinc, expit=s.expit, softplus=jax.nn.softplus, log_sigmoid=jax.nn.log_sigmoid,
                    relu6=jax.nn.relu6, elu=jax.nn.elu, celu=jax.nn.celu, selu=jax.nn.selu, hard_tanh=jax.nn.hard_tanh, hard_swish=jax.nn.hard_swish,
                    hard_sigmoid=jax.nn.hard_sigmoid, mish=jax.nn.mish, leaky_relu=jax.nn.leaky_relu, glu=jax.nn.glu, squareplus=jax.nn.squareplus,
                    soft_sign=jax.nn.soft_sign, sparse_plus=jax.nn.sparse_plus, sparse_sigmoid=jax.nn.sparse_sigmoid, gelu_exact=lambda a: jax.nn.gelu(a, approximate=False),
                    standardize=jax.nn.standardize, logsumexp=jax.nn.logsumexp, erfcx=lambda a: jnp.exp(a * a) * s.erfc(a), log1mexp=lambda a: jnp.log1p(-jnp.exp(-jnp.abs(a))))
    yield from many(BOTH, [y], ndtri=s.ndtri, erfinv=s.erfinv, arctanh=jnp.arctanh, arccos=jnp.arccos)
    yield from many(BOTH, [x, y], xlogy=s.xlogy, xlog1py=s.xlog1py, hypot=jnp.hypot, betaln=s.betaln, beta=s.beta, kl_div=s.kl_div, rel_entr=s.rel_entr,
                    logaddexp=jnp.logaddexp, logaddexp2=jnp.logaddexp2, float_power=jnp.float_power, copysign=jnp.copysign, mod=jnp.mod, fmod=jnp.fmod,
                    floor_divide=jnp.floor_divide, heaviside=jnp.heaviside, nextafter=lambda a, b: a * b,
                    squared_difference=lambda a, b: (a - b)**2, divmod=lambda a, b: jnp.divmod(a, b)[1], arctan2=jnp.arctan2)
    yield from many(BOTH, [x, y], gammainc=lambda a, b: lax.igamma(a, b), gammaincc=lambda a, b: lax.igammac(a, b))
    yield from many(BOTH, [y], betainc=lambda a: s.betainc(1.5, 2.5, a), exp1=s.exp1, chi2_cdf=lambda a: jsp.stats.chi2.cdf(a, 3))
    yield from many(BOTH, [y], expi=s.expi)
    yield from many(BOTH, [x], bessel_jn=lambda a: s.bessel_jn(a, v=3))
    edge = np.array([0.0, 1.0, -1.0, 2.0])
    yield from many(BOTH, [edge], sinc_0=jnp.sinc, relu_0=jax.nn.relu, relu6_0=jax.nn.relu6, clip_edge=lambda a: jnp.clip(a, 0, 1), abs_0=jnp.abs, sign_0=jnp.sign,
                    where_safe=lambda a: jnp.where(a > 0, jnp.sqrt(jnp.where(a > 0, a, 1)), 0), max_0=lambda a: jnp.maximum(a, 0), square_0=lambda a: a**2,
                    power_0=lambda a: a**0, nan_to_num=lambda a: jnp.nan_to_num(a), logsumexp_inf=lambda a: jax.nn.logsumexp(jnp.where(a > 0, a, -jnp.inf)),
                    cube=lambda a: a**3, power_1=lambda a: a**1.0, log_sigmoid_0=jax.nn.log_sigmoid, softplus_0=jax.nn.softplus, logaddexp_tie=lambda a: jnp.logaddexp(a, a), logaddexp2_tie=lambda a: jnp.logaddexp2(a, a * 1.0), logaddexp_infinite=lambda a: jnp.logaddexp(a, jnp.where(a > 0, -jnp.inf, a)), logaddexp_reduce=lambda a: jnp.logaddexp.reduce(a), round_0=jnp.round, trunc=jnp.trunc, rint=jnp.rint)
    nan = np.array([1.0, np.nan, -2.0, np.inf])
    yield from many(BOTH, [nan], nansum=jnp.nansum, nanmean=lambda a: jnp.nanmean(jnp.where(jnp.isinf(a), 3.0, a)), isnan_where=lambda a: jnp.where(jnp.isfinite(a), a * a, 0.0),
                    nancumsum=lambda a: jnp.nancumsum(jnp.where(jnp.isinf(a), 0., a)))


def types():
    for dtype in (np.float16, jnp.bfloat16):
        name = np.dtype(dtype).name
        x, w = random((3, 4), 1, dtype=np.float32).astype(dtype), random((4, 5), 2, dtype=np.float32).astype(dtype)
        yield from many(NO_VMAP, [x], **{f"sum_{name}": lambda a: a.sum(), f"mul_{name}": lambda a: a * a, f"up_{name}": lambda a: a.astype(jnp.float32) * 2,
                                         f"max_{name}": lambda a: a.max(1), f"relu_{name}": jax.nn.relu, f"neg_{name}": lambda a: -a})
        yield from many(NO_VMAP, [x, w], **{f"dot_{name}_f32": lambda a, b: lax.dot(a, b, preferred_element_type=jnp.float32)})
    c = random((3, 4), 1, .2, 1, np.complex64)
    yield from many(BOTH, [c], sqrt_c64=jnp.sqrt, exp_c64=jnp.exp, abs_c64=jnp.abs, angle_c64=jnp.angle, square_c64=lambda a: a * a, sum_c64=jnp.sum)
    z, w = random((3, 4), 1, .2, 1, np.complex128), random((3, 4), 2, .2, 1, np.complex128)
    yield from many(BOTH, [z], angle=jnp.angle, reciprocal=lambda a: 1 / a, power_3=lambda a: a**3, power_half=lambda a: a**0.5, sinc_z=lambda a: jnp.sin(a) / a, abs2=lambda a: (a * a.conj()).real,
                    mean_z=jnp.mean, var_z=jnp.var, prod_z=lambda a: jnp.prod(a, 0), cumsum_z=lambda a: jnp.cumsum(a, 1), cumprod_z=lambda a: jnp.cumprod(a, 1), arctan_z=jnp.arctan,
                    arcsin_z=jnp.arcsin, arccos_z=jnp.arccos, arcsinh_z=jnp.arcsinh, tan_z=jnp.tan, tanh_z=jnp.tanh, log10_z=jnp.log10, log2_z=jnp.log2, exp2_z=jnp.exp2, expm1_z=jnp.expm1,
                    log1p_z=jnp.log1p, sign_z=lax.sign, norm_z=jnp.linalg.norm, sort_z=lambda a: jnp.sort(a, 1), real_only=lambda a: a.real * 2, imag_only=lambda a: a.imag * 2, rsqrt_z=lax.rsqrt,
                    where_z=lambda a: jnp.where(a.real > .5, a, a * 1j), take_z=lambda a: a[jnp.array([0, 2, 0])], logistic_z=lax.logistic)
    yield from many(BOTH, [z, w], matmul_z=lambda a, b: a @ b.T, vdot=jnp.vdot, inner_z=jnp.inner, div_z=lambda a, b: a / b, pow_z=lambda a, b: a**b, einsum_z=lambda a, b: jnp.einsum("ij,kj->ik", a, b.conj()))
    x = random((3, 4), 4, .2, 1)
    yield from many(BOTH, [x, z], mixed_mul=lambda a, b: a * b, mixed_dot=lambda a, b: a @ b.T, mixed_add=lambda a, b: a + b, polar=lambda a, b: a * jnp.exp(1j * b.real))
    k = np.array([3, 1, 2])
    yield from many(BOTH, [x, k], integer_power=lambda a, n: a[:, :3]**n, integer_scale=lambda a, n: a[:, :3] * n, integer_index=lambda a, n: a[n % 3], integer_result=lambda a, n: (a * 2, n + 1),
                    argmax_result=lambda a, n: (a.max(1), a.argmax(1)), compare_result=lambda a, n: (a, a > .5), float_of_int=lambda a, n: a[:, :3] + n.astype(float))
    yield from many(BOTH, [x], f32_inside=lambda a: jnp.sin(a.astype(jnp.float32) * 1).astype(jnp.float64) if False else a * 1, reduce_precision=lambda a: lax.reduce_precision(a, 11, 52) * a,
                    bitcast_none=lambda a: a * (lax.bitcast_convert_type(a, jnp.int64) > 0))


def numpy():
    x, m, v = random((3, 4, 5), 1, .3, 2), random((4, 6), 2), random((7,), 3)
    sq = random((4, 4), 5)
    yield from many(BOTH, [x], ptp=lambda a: jnp.ptp(a, 1), average=lambda a: jnp.average(a, 1, weights=np.arange(1., 5)), sum_where=lambda a: jnp.sum(a, where=a > 1), max_where=lambda a: jnp.max(a, where=a > .1, initial=0.0, axis=0),
                    mean_where=lambda a: jnp.mean(a, where=a > .5), prod_axis=lambda a: jnp.prod(a, (0, 1)), std_ddof=lambda a: jnp.std(a, ddof=1), flip=lambda a: jnp.flip(a, 1), rot90=lambda a: jnp.rot90(a),
                    moveaxis=lambda a: jnp.moveaxis(a, 0, 2), swapaxes=lambda a: jnp.swapaxes(a, 0, 2), squeeze=lambda a: jnp.squeeze(a[:1], 0), expand=lambda a: a[:, None, ..., None], ravel=jnp.ravel,
                    split=lambda a: jnp.split(a, [1, 3], 1), array_split=lambda a: jnp.array_split(a, 2, axis=2), repeat=lambda a: jnp.repeat(a, 3, axis=1), repeat_counts=lambda a: jnp.repeat(a, np.array([1, 0, 2, 1]), axis=1, total_repeat_length=4),
                    diff=lambda a: jnp.diff(a, axis=1), diff2=lambda a: jnp.diff(a, 2), gradient=lambda a: jnp.gradient(a, axis=1), cumulative=lambda a: jnp.cumulative_sum(a, axis=1), trapezoid=lambda a: jnp.trapezoid(a, axis=2),
                    pad_reflect=lambda a: jnp.pad(a, 1, mode="reflect"), pad_edge=lambda a: jnp.pad(a, 1, mode="edge"), pad_wrap=lambda a: jnp.pad(a, 1, mode="wrap"), pad_mean=lambda a: jnp.pad(a, ((0, 0), (1, 1), (0, 0)), mode="mean"),
                    pad_linear=lambda a: jnp.pad(a, 1, mode="linear_ramp"), partition=lambda a: jnp.partition(a, 2, axis=1), quantile=lambda a: jnp.quantile(a, 0.3, axis=1), percentile=lambda a: jnp.percentile(a, 70.0, axis=2),
                    quantile_nearest=lambda a: jnp.quantile(a, .4, method="nearest"), nanmax=lambda a: jnp.nanmax(a, 0), nanstd=lambda a: jnp.nanstd(a, 0), count=lambda a: a.sum() * jnp.count_nonzero(a > 1), roll2=lambda a: jnp.roll(a, (1, 2), (0, 1)),
                    mask_index=lambda a: a.at[:, 1].set(0) + 1, multiply_at=lambda a: a.at[0, 1].multiply(3.0), min_at=lambda a: a.at[0].min(.7), max_at=lambda a: a.at[0].max(.7), power_at=lambda a: a.at[0].power(2.0), get_at=lambda a: a.at[5].get(mode="fill", fill_value=0.0),
                    select_n=lambda a: lax.select_n((a > 1).astype(np.int32), a, a * a), apply_along=lambda a: jnp.apply_along_axis(lambda r: jnp.sort(r) * r, 1, a), vectorize=lambda a: jnp.vectorize(lambda r: r @ r, signature="(n)->()")(a),
                    top_k_both=lambda a: lax.top_k(a, 3), argsort_take=lambda a: jnp.take_along_axis(a, jnp.argsort(a, 1), 1), sort_descending=lambda a: jnp.sort(a, axis=1, descending=True), lexsort=lambda a: a[0, 0][jnp.lexsort((a[0, 0], a[1, 1]))],
                    approx_max=lambda a: lax.approx_max_k(a, 2)[0], cumsum_0=lambda a: jnp.cumsum(a, 0), cumprod_all=jnp.cumprod, cummax_2=lambda a: lax.cummax(a, 2), associative=lambda a: lax.associative_scan(jnp.multiply, a, axis=1),
                    associative_tuple=lambda a: lax.associative_scan(lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1]), (a, a * a), axis=2), associative_reverse=lambda a: lax.associative_scan(jnp.add, a, reverse=True), select_lists=lambda a: jnp.select([a < .5, a < 1], [a, a * a], 0.0),
                    piecewise=lambda a: jnp.piecewise(a, [a < 1, a >= 1], [jnp.sin, jnp.cos]), reduce_mul=lambda a: lax.reduce(a, 1.0, lax.mul, (1,)), reduce_max=lambda a: lax.reduce(a, -np.inf, lax.max, (1,)), dynamic_index=lambda a: lax.dynamic_index_in_dim(a, 2, 1),
                    dynamic_index_out=lambda a: lax.dynamic_index_in_dim(a, 20, 1), slice_in_dim=lambda a: lax.slice_in_dim(a, 1, 4, 2, 2), collapse=lambda a: lax.collapse(a, 0, 2), rev=lambda a: lax.rev(a, (0, 2)), negative_step=lambda a: a[:, ::-2], ellipsis=lambda a: a[..., 1:-1],
                    boolean_mask=lambda a: a * (a > 1), newaxis_index=lambda a: a[jnp.array([0, 2])][:, jnp.array([1, 1])], advanced_mix=lambda a: a[jnp.array([0, 2]), :, jnp.array([1, 3])], advanced_pairs=lambda a: a[jnp.array([0, 2, 0]), jnp.array([1, 3, 1])])
    yield from many(BOTH, [m], tril=jnp.tril, triu_k=lambda a: jnp.triu(a, 1), diag_of=lambda a: jnp.diag(a, 1), trace=jnp.trace, cov=jnp.cov, corrcoef=jnp.corrcoef, gram=lambda a: a.T @ a, pairwise=lambda a: ((a[:, None] - a[None])**2).sum(-1),
                    vander=lambda a: jnp.vander(a[0], 3), block=lambda a: jnp.block([[a, a], [a, 2 * a]]), compress=lambda a: jnp.asarray(a)[np.array([0, 2, 3])], delete=lambda a: jnp.delete(a, 1, axis=0), insert=lambda a: jnp.insert(a, 1, 3.0, axis=0),
                    append=lambda a: jnp.append(a, a, axis=0), column_stack=lambda a: jnp.column_stack([a, a]), meshgrid=lambda a: jnp.meshgrid(a[0], a[1]), safe_norm=lambda a: jnp.sqrt(jnp.sum(a * a, 1) + 1e-6), normalize=lambda a: a / jnp.linalg.norm(a, axis=1, keepdims=True))
    yield from many(BOTH, [v], polyval=lambda a: jnp.polyval(a, 0.7), convolve=lambda a: jnp.convolve(a, np.array([1., 2, 3])), convolve_same=lambda a: jnp.convolve(a, a[:3], mode="same"), correlate=lambda a: jnp.correlate(a, a[:4]), interp=lambda a: jnp.interp(a, np.linspace(-1, 1, 5), np.arange(5.)**2),
                    interp_points=lambda a: jnp.interp(np.array([.1, .5]), np.linspace(0, 1, 7), a), unwrap=jnp.unwrap, searchsorted=lambda a: a * jnp.searchsorted(np.linspace(-1, 1, 9), a), digitize=lambda a: a * jnp.digitize(a, np.linspace(-1, 1, 4)), histogram=lambda a: a.sum() + jnp.histogram(a, bins=4, range=(-1, 1))[0],
                    bincount=lambda a: jnp.bincount(np.array([0, 1, 1, 3, 2, 0, 3]), weights=a, length=4), diag_make=jnp.diag, outer_self=lambda a: jnp.outer(a, a), toeplitz=lambda a: jsp.linalg.toeplitz(a), median=jnp.median, nanmedian=jnp.nanmedian, cumsum_loop=lambda a: jnp.cumsum(a)[::-1], iota_mix=lambda a: a * jnp.arange(7),
                    polyfit_like=lambda a: jnp.polyint(a), polyder=jnp.polyder, polymul=lambda a: jnp.polymul(a, a), roots_none=lambda a: jnp.dot(a, a), choose=lambda a: jnp.choose(np.array([0, 1, 1, 0, 1, 0, 0]), [a, a * a], mode="clip"), ediff=jnp.ediff1d, softmax_t=lambda a: jax.nn.softmax(a / .5), one_hot_mix=lambda a: jax.nn.one_hot(np.arange(7) % 3, 3).T @ a)
    yield from many(BOTH, [sq, random((4, 4), 6)], kron=jnp.kron, tensordot=lambda a, b: jnp.tensordot(a, b, 1), tensordot_axes=lambda a, b: jnp.tensordot(a, b, ((0, 1), (1, 0))), cross=lambda a, b: jnp.cross(a[:, :3], b[:, :3]), einsum_trace=lambda a, b: jnp.einsum("ij,ji->", a, b), einsum_diag=lambda a, b: jnp.einsum("ii,ij->j", a, b),
                    einsum_three=lambda a, b: jnp.einsum("ij,jk,kl->il", a, b, a), einsum_outer=lambda a, b: jnp.einsum("ij,kl->ikjl", a, b), multi_dot=lambda a, b: jnp.linalg.multi_dot([a, b, a]), matrix_power=lambda a, b: jnp.linalg.matrix_power(a, 3) @ b, where_two=lambda a, b: jnp.where(a > b, a, b * b), lerp=lambda a, b: a + .3 * (b - a),
                    minmax=lambda a, b: jnp.minimum(a, b) + jnp.maximum(a, 2 * b), bilinear=lambda a, b: jnp.einsum("i,ij,j->", a[0], b, a[1]), mse=lambda a, b: jnp.mean((a - b)**2), cosine=lambda a, b: (a * b).sum(1) / (jnp.linalg.norm(a, axis=1) * jnp.linalg.norm(b, axis=1)), huber=lambda a, b: jnp.where(jnp.abs(a - b) < .5, (a - b)**2 / 2, jnp.abs(a - b)),
                    put_along=lambda a, b: jnp.put_along_axis(a, jnp.array([[1], [0], [3], [2]]), b[:, :1], 1, inplace=False), segment_max=lambda a, b: jax.ops.segment_max(a, np.array([0, 1, 0, 1]), 2) + b[:2], multiply_unique=lambda a, b: jnp.asarray(a).at[np.array([2, 0])].multiply(b[:2], unique_indices=True), segment_min=lambda a, b: jax.ops.segment_min(a, np.array([0, 1, 0, 1]), 2))


def linear():
    a, b = random((4, 4), 1), random((4, 2), 2)
    positive, tall, wide = a @ a.T + 4 * np.eye(4), random((5, 3), 6), random((3, 5), 7)
    z = random((4, 4), 8, dtype=np.complex128)
    la = jsp.linalg
    for name, m in ("square", a), ("tall", tall), ("batch", random((2, 4, 3), 9)), ("complex", z), ("complex_tall", random((5, 2), 3, dtype=np.complex128)), ("f32", random((4, 3), 4, dtype=np.float32)):
        yield "qr_" + name, jnp.linalg.qr, [m], BOTH
        yield "qr_r_" + name, lambda q: jnp.linalg.qr(q, mode="r"), [m], BOTH
    yield "qr_wide_r_forward", lambda q: jnp.linalg.qr(q, mode="r")[:, :3] if False else jnp.linalg.qr(q[:, :3]), [wide], BOTH
    yield "qr_complete_tall", lambda q: jnp.linalg.qr(q, mode="complete"), [tall], BOTH
    yield "qr_complete_batch", lambda q: jnp.linalg.qr(q, mode="complete")[0], [random((2, 4, 2), 5, dtype=np.complex128)], BOTH
    yield "qr_wide", jnp.linalg.qr, [wide], BOTH
    yield "qr_pivoted", lambda q: lax.linalg.qr(q, pivoting=True, full_matrices=False)[:2], [tall], NO_VMAP
    yield "qr_twice", jax.grad(lambda q: jnp.sum(jnp.sin(jnp.linalg.qr(q)[0]))), [tall], BOTH
    yield "qr_of_triangle", jnp.linalg.qr, [np.triu(a) + 3 * np.eye(4)], BOTH
    yield "qr_complete_square", lambda q: jnp.linalg.qr(q, mode="complete"), [a], BOTH
    yield "qr_of_product", lambda q: jnp.linalg.qr(q @ q.T + np.eye(5))[1], [tall], BOTH
    yield "orthogonal_loss", lambda q: jnp.linalg.qr(q)[0] @ np.arange(3.), [tall], BOTH
    yield from many(BOTH, [a, b], solve=jnp.linalg.solve, lu_solve=lambda m, r: la.lu_solve(la.lu_factor(m), r), lstsq=lambda m, r: jnp.linalg.lstsq(m, r)[0], solve_t=lambda m, r: la.solve(m.T, r),
                    triangular=lambda m, r: la.solve_triangular(m + 3 * np.eye(4), r), lu=lambda m, r: la.lu(m)[1:], tensorsolve=lambda m, r: jnp.linalg.tensorsolve(m.reshape(4, 2, 2), r[:, 0]), solve_vector=lambda m, r: jnp.linalg.solve(m, r[:, 0]))
    yield from many(BOTH, [positive, b], cho=lambda m, r: la.cho_solve(la.cho_factor(m), r), cho_lower=lambda m, r: la.cho_solve(la.cho_factor(m, lower=True), r), mahalanobis=lambda m, r: (r * jnp.linalg.solve(m, r)).sum(),
                    cholesky_upper=lambda m, r: jnp.linalg.cholesky(m, upper=True), logpdf=lambda m, r: jsp.stats.multivariate_normal.logpdf(r[:, 0], r[:, 1], m), logdet=lambda m, r: 2 * jnp.log(jnp.diagonal(jnp.linalg.cholesky(m))).sum(), eigh_function=lambda m, r: (lambda w, v: (v * jnp.sqrt(w)) @ v.T)(*jnp.linalg.eigh(m)),
                    eigh_upper=lambda m, r: jnp.linalg.eigvalsh(m, UPLO="U"), eigh_unsymmetrised=lambda m, r: lax.linalg.eigh(m, symmetrize_input=False)[1], inv_pos=lambda m, r: jnp.linalg.inv(m) @ r, power_minus=lambda m, r: jnp.linalg.matrix_power(m, -2))
    yield from many(BOTH, [a], expm=la.expm, slogdet_whole=lambda m: jnp.linalg.slogdet(m), det=jnp.linalg.det, norm_2=lambda m: jnp.linalg.norm(m, ord=2), norm_1=lambda m: jnp.linalg.norm(m, ord=1), norm_inf=lambda m: jnp.linalg.norm(m, ord=np.inf), norm_nuc=lambda m: jnp.linalg.norm(m, ord="nuc"), cond=jnp.linalg.cond,
                    matrix_exp_norm=lambda m: jnp.linalg.norm(la.expm(m / 2)), block_diag=lambda m: la.block_diag(m, m * 2), tensorinv=lambda m: jnp.linalg.tensorinv(m.reshape(4, 2, 2), 1), inverse_twice=lambda m: jnp.linalg.inv(jnp.linalg.inv(m)), adjugate=lambda m: jnp.linalg.det(m) * jnp.linalg.inv(m), det_3=lambda m: jnp.linalg.det(m[:3, :3]), cholesky_of_gram=lambda m: jnp.linalg.cholesky(m @ m.T + np.eye(4)))
    yield from many(BOTH, [z], cholesky_z=lambda m: jnp.linalg.cholesky(m @ m.conj().T + 4 * np.eye(4)), inv_z=jnp.linalg.inv, det_z=jnp.linalg.det, svd_z=lambda m: jnp.linalg.svd(m, compute_uv=False), eigvalsh_z=lambda m: jnp.linalg.eigvalsh(m + m.conj().T), expm_z=lambda m: la.expm(m / 4))
    yield from many(BOTH, [tall], pinv_tall=jnp.linalg.pinv, svd_full=lambda m: jnp.linalg.svd(m, compute_uv=False), lstsq_tall=lambda m: jnp.linalg.lstsq(m, np.arange(5.))[0], householder=lambda m: lax.linalg.householder_product(*lax.linalg.geqrf(m)) if hasattr(lax.linalg, "geqrf") else m)
    yield from many(BOTH, [positive], eigvals=jnp.linalg.eigvals, sqrtm_eigh=lambda m: (lambda w, v: (v / w) @ v.T)(*jnp.linalg.eigh(m)))
    d = random((5,), 3, 2, 3)
    yield from many(BOTH, [d, random((5,), 4), random((5,), 5), random((5, 2), 6)], tridiagonal=lambda d, l, u, r: lax.linalg.tridiagonal_solve(l * np.array([0, 1, 1, 1, 1]), d, u * np.array([1, 1, 1, 1, 0]), r))


def signal():
    x, z = random((3, 8), 1), random((3, 8), 2, dtype=np.complex128)
    yield from many(BOTH, [z], fftn=jnp.fft.fftn, ifftn=jnp.fft.ifftn, fft_ortho=lambda a: jnp.fft.fft(a, norm="ortho"), fft_n=lambda a: jnp.fft.fft(a, 5), fft_pad=lambda a: jnp.fft.fft(a, 11), fft_axis=lambda a: jnp.fft.fft(a, axis=0), irfftn=lambda a: jnp.fft.irfftn(a, (3, 14)), hfft=jnp.fft.hfft, ifft2=jnp.fft.ifft2, fftshift=jnp.fft.fftshift, irfft_odd=lambda a: jnp.fft.irfft(a, 13), power_spectrum=lambda a: jnp.abs(jnp.fft.fft(a))**2)
    yield from many(BOTH, [x], rfftn=jnp.fft.rfftn, ihfft=jnp.fft.ihfft, rfft_ortho=lambda a: jnp.fft.rfft(a, norm="ortho"), fft_real=lambda a: jnp.fft.fft(a), filter=lambda a: jnp.fft.irfft(jnp.fft.rfft(a) * np.linspace(1, 0, 5)), dct=lambda a: jsp.fft.dct(a), idct=lambda a: jsp.fft.idct(a), fftconvolve=lambda a: jsp.signal.fftconvolve(a, a[:, :3], axes=1), stft=lambda a: jnp.abs(jsp.signal.stft(a[0], nperseg=4)[2]), convolve2d=lambda a: jsp.signal.convolve2d(a, a[:2, :2]), detrend=lambda a: jsp.signal.detrend(a), rfft3=lambda a: jnp.fft.rfftn(a.reshape(2, 3, 4)), fft_f32=lambda a: jnp.fft.rfft(a.astype(np.float32)).real.astype(np.float64) if False else jnp.fft.rfft(a).real)
    i1, k1 = random((2, 9, 3), 1), random((3, 3, 4), 2)
    def conv1(**options):
        return lambda a, k: lax.conv_general_dilated(a, k, dimension_numbers=("NWC", "WIO", "NWC"), **{"window_strides": (1,), "padding": "SAME", **options})
    yield from many(BOTH, [i1, k1], conv1=conv1(), conv1_valid=conv1(padding="VALID"), conv1_lower=conv1(padding="SAME_LOWER"), conv1_stride=conv1(window_strides=(3,)), conv1_atrous=conv1(rhs_dilation=(2,)), conv1_lhs=conv1(lhs_dilation=(3,), padding=[(2, 1)]), conv1_negative=conv1(padding=[(-2, 1)]), conv1_far=conv1(padding=[(5, 6)]), conv1_highest=conv1(precision="highest"), conv1_causal=conv1(padding=[(2, 0)]))
    yield from many(BOTH, [random((2, 7, 6, 4), 1), random((3, 3, 1, 8), 2)], depthwise=lambda a, k: lax.conv_general_dilated(a, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=4), depthwise_stride=lambda a, k: lax.conv_general_dilated(a, k, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=4))
    yield from many(BOTH, [random((1, 4, 5, 3, 2), 1), random((2, 2, 2, 2, 3), 2)], conv3=lambda a, k: lax.conv_general_dilated(a, k, (1, 2, 1), "SAME", dimension_numbers=("NDHWC", "DHWIO", "NDHWC")))
    yield from many(BOTH, [random((2, 3, 3), 1, dtype=np.complex128), random((2, 3, 2), 2, dtype=np.complex128)], conv_complex=lambda a, k: lax.conv_general_dilated(a, k, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC")))
    yield from many(BOTH, [random((2, 3, 7, 7), 1)], patches=lambda a: lax.conv_general_dilated_patches(a, (3, 3), (2, 2), "SAME"), avg_pool=lambda a: lax.reduce_window(a, 0.0, lax.add, (1, 1, 2, 2), (1, 1, 2, 2), "VALID") / 4, max_pool=lambda a: lax.reduce_window(a, -jnp.inf, lax.max, (1, 1, 3, 3), (1, 1, 2, 2), "SAME"), upsample=lambda a: jax.image.resize(a, (2, 3, 14, 14), "nearest"), bilinear=lambda a: jax.image.resize(a, (2, 3, 10, 5), "bilinear"), cubic=lambda a: jax.image.resize(a, (2, 3, 9, 9), "cubic"), lanczos=lambda a: jax.image.resize(a, (2, 3, 5, 9), "lanczos3"))
    yield from many(BOTH, [random((2, 5, 5, 3), 1), random((3, 3, 3, 2), 2)], transpose_valid=lambda a, k: lax.conv_transpose(a, k, (2, 2), "VALID"), transpose_kernel=lambda a, k: lax.conv_transpose(a, k.transpose(0, 1, 3, 2), (2, 1), "SAME", transpose_kernel=True), conv_chain=lambda a, k: lax.conv_general_dilated(jnp.tanh(lax.conv_general_dilated(a, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))), jnp.swapaxes(k, 2, 3), (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")))
    yield from many(BOTH, [random((7, 7), 1), random((2, 3), 2, 1, 5)], map_coordinates=lambda a, c: jsp.ndimage.map_coordinates(a, list(c), 1))


def loops():
    x, w = random((4,), 1), random((4, 4), 2, -.5, .5)
    ys = random((6, 4), 3)
    scan = lax.scan
    tanh = lambda b: (lambda c, y: (jnp.tanh(b @ c + y), c))
    yield from many(BOTH, [x, w, ys], rnn=lambda a, b, s: scan(tanh(b), a, s), rnn_final=lambda a, b, s: scan(tanh(b), a, s)[0], rnn_outputs=lambda a, b, s: scan(tanh(b), a, s)[1], rnn_reverse=lambda a, b, s: scan(tanh(b), a, s, reverse=True), rnn_unroll=lambda a, b, s: scan(tanh(b), a, s, unroll=2), rnn_unroll_all=lambda a, b, s: scan(tanh(b), a, s, unroll=True),
                    rnn_checkpoint=lambda a, b, s: scan(jax.checkpoint(tanh(b)), a, s), rnn_two=lambda a, b, s: scan(tanh(b), scan(tanh(b), a, s)[0], scan(tanh(b), a, s)[1]), rnn_integer=lambda a, b, s: scan(lambda c, y: ((jnp.tanh(b @ c[0] + y) * c[1], c[1] + 1), c[1]), (a, 0), s), rnn_index=lambda a, b, s: scan(lambda c, i: (jnp.tanh(b @ c + jnp.asarray(s)[i]), c), a, jnp.arange(6)),
                    rnn_tree=lambda a, b, s: scan(lambda c, y: ({"h": jnp.tanh(b @ c["h"] + y["u"]), "n": c["n"] + y["v"].sum()}, c["h"]), {"h": a, "n": 0.0}, {"u": s, "v": s * s}), rnn_condition=lambda a, b, s: scan(lambda c, y: (lax.cond(y[0] > 0, lambda d: jnp.tanh(b @ d), lambda d: d * y, c), c), a, s), rnn_switch=lambda a, b, s: scan(lambda c, i: (lax.switch(i % 3, [lambda d: jnp.sin(b @ d), lambda d: d * s[0], lambda d: d], c), None), a, jnp.arange(5))[0],
                    nested=lambda a, b, s: scan(lambda c, y: (scan(lambda d, z: (jnp.tanh(b @ d + z), d.sum()), c, jnp.stack([y, -y]))), a, s), nested_three=lambda a, b, s: scan(lambda c, y: (scan(lambda d, z: (scan(lambda e, q: (jnp.sin(e * q), None), d, jnp.stack([z, z]))[0], None), c, jnp.stack([y, b[0]]))[0], None), a, s)[0], fori=lambda a, b, s: lax.fori_loop(0, 6, lambda i, c: jnp.tanh(b @ c + jnp.asarray(s)[i]), a), fori_down=lambda a, b, s: lax.fori_loop(0, 6, lambda i, c: jnp.tanh(b @ c + jnp.asarray(s)[5 - i]), a),
                    fori_update=lambda a, b, s: lax.fori_loop(0, 6, lambda i, c: c.at[i].set(jnp.sin(c[i] + a)), s), fori_nested=lambda a, b, s: lax.fori_loop(0, 3, lambda i, c: lax.fori_loop(0, 2, lambda k, d: jnp.tanh(b @ d) + jnp.asarray(s)[i + k], c), a), map=lambda a, b, s: lax.map(lambda y: jnp.tanh(b @ y), s), map_batched=lambda a, b, s: lax.map(lambda y: jnp.tanh(b @ y) * a, s, batch_size=2), map_batched_uneven=lambda a, b, s: lax.map(lambda y: jnp.tanh(b @ y) * a, s, batch_size=4),
                    map_of_scan=lambda a, b, s: lax.map(lambda y: scan(tanh(b), y, s[:2])[0], s), vmap_of_scan=lambda a, b, s: jax.vmap(lambda y: scan(tanh(b), y, s)[0])(s), lstm=lstm, gru=gru, scan_zero=lambda a, b, s: scan(tanh(b), a, s[:0]), scan_one=lambda a, b, s: scan(tanh(b), a, s[:1]),
                    newton=lambda a, b, s: lax.fori_loop(0, 4, lambda i, c: c - (c**3 - jnp.exp(a)) / (3 * c**2 + .1), jnp.ones(4)), power_iteration=lambda a, b, s: lax.fori_loop(0, 5, lambda i, c: (b @ c) / jnp.linalg.norm(b @ c), a), cumulative=lambda a, b, s: scan(lambda c, y: (c + y, c * y), a, s), pass_through=lambda a, b, s: scan(lambda c, y: (c, y * 2), a, s), swap=lambda a, b, s: scan(lambda c, y: ((c[1], c[0] * y), None), (a, b[0]), s)[0], kalman=lambda a, b, s: scan(lambda c, y: (c + .1 * (y - c), ((y - c)**2).sum()), a, s),
                    scan_output_only=lambda a, b, s: scan(lambda c, y: (c, jnp.sin(y * a)), 0, s)[1], scan_shared_constant=lambda a, b, s: scan(lambda c, y: (c @ b + b[0] * y, None), a, s)[0], linear_recurrence=lambda a, b, s: scan(lambda c, y: (c * .9 + y, c), a, s), scan_of_matrices=lambda a, b, s: scan(lambda c, y: (jnp.outer(y, a) @ c, None), b, s)[0], while_counted=lambda a, b, s: lax.fori_loop(0, 3, lambda i, c: (c[0] * a, c[1] + 1), (a, 0))[0], optimise=lambda a, b, s: lax.fori_loop(0, 4, lambda i, p: p - .1 * jax.grad(lambda q: jnp.sum((b @ q - a)**2))(p), a))
    yield from many(FORWARD, [x, w], while_sum=lambda a, b: lax.while_loop(lambda c: jnp.sum(jnp.abs(c)) < 100, lambda c: c * 1.5 + jnp.sign(c), a), while_tuple=lambda a, b: lax.while_loop(lambda c: c[1] < 5, lambda c: (jnp.tanh(b @ c[0]), c[1] + 1), (a, 0)), while_bound=lambda a, b: lax.fori_loop(0, jnp.sum(jnp.abs(a) < 2), lambda i, c: jnp.sin(c * a), a), while_nested=lambda a, b: lax.while_loop(lambda c: jnp.sum(c * c) > .01, lambda c: lax.while_loop(lambda d: jnp.max(jnp.abs(d)) > .5, lambda d: d / 2, c) * .8, a))
    yield from many(BOTH, [x, np.array(2)], cond_none=lambda a, i: lax.cond(i > 5, lambda c: c, lambda c: c * c, a), cond_constant=lambda a, i: lax.cond(i > 1, lambda c: jnp.zeros_like(c), lambda c: c * c, a), cond_closed=lambda a, i: lax.cond(i > 1, lambda: jnp.sin(a), lambda: a), switch_closed=lambda a, i: lax.switch(i, [lambda: a, lambda: a * 2, lambda: jnp.exp(a)]), switch_clamped=lambda a, i: lax.switch(i + 7, [jnp.sin, jnp.cos], a), cond_data=lambda a, i: lax.cond(a[0] > 0, jnp.sin, jnp.cos, a), cond_nested=lambda a, i: lax.cond(i > 1, lambda c: lax.cond(i > 2, jnp.sin, jnp.cos, c), jnp.tan, a), cond_integers=lambda a, i: lax.cond(i > 1, lambda c: (c * 2, i), lambda c: (c, i + 1), a), platform=lambda a, i: lax.platform_dependent(a, cpu=jnp.sin, default=jnp.sin))


def lstm(a, b, s):
    def cell(state, y):
        h, c = state
        i, f, g, o = jnp.split(jnp.concatenate([b @ h, b.T @ y, b @ y, b.T @ h]), 4)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        return (jax.nn.sigmoid(o) * jnp.tanh(c), c), h
    return lax.scan(cell, (a, a), s)


def gru(a, b, s):
    def cell(h, y):
        z, r = jax.nn.sigmoid(b @ h + y), jax.nn.sigmoid(b.T @ h - y)
        return (1 - z) * h + z * jnp.tanh(b @ (r * h) + y), h
    return lax.scan(cell, a, s)[1]


def nested():
    x, w = random((4,), 1), random((4, 4), 2, -.5, .5)
    rows = random((3, 4), 3)
    def f(b, a):
        return jnp.sum(jnp.tanh(b @ jnp.sin(b @ a)))
    g = jax.grad
    yield from many(BOTH, [w, x], hessian=lambda b, a: jax.hessian(f, 1)(b, a), jacfwd=lambda b, a: jax.jacfwd(lambda q: jnp.tanh(b @ q))(a), jacrev=lambda b, a: jax.jacrev(lambda q: jnp.tanh(b @ q))(a), grad_grad=lambda b, a: g(lambda q: jnp.sum(g(f, 1)(b, q)**2))(a), third=lambda b, a: g(lambda q: g(lambda p: jnp.sum(g(f, 1)(b, p)))(q).sum())(a), jvp_grad=lambda b, a: jax.jvp(lambda q: g(f)(q, a), (b,), (b,))[1],
                    grad_jvp=lambda b, a: g(lambda q: jax.jvp(lambda p: f(p, a), (q,), (b,))[1])(b), linearize=lambda b, a: jax.linearize(lambda q: jnp.tanh(b @ q), a)[1](a), vjp=lambda b, a: jax.vjp(lambda q: jnp.tanh(b @ q), a)[1](a)[0], laplacian=lambda b, a: jnp.trace(jax.hessian(f, 1)(b, a)), divergence=lambda b, a: jnp.trace(jax.jacfwd(lambda q: jnp.tanh(b @ q))(a)), gauss_newton=lambda b, a: (lambda j: j.T @ j)(jax.jacrev(lambda q: jnp.tanh(b @ q))(a)), input_penalty=lambda b, a: f(b, a) + jnp.sum(g(f, 1)(b, a)**2),
                    checkpointed=lambda b, a: jax.checkpoint(f)(b, a), checkpoint_dots=lambda b, a: jax.checkpoint(f, policy=jax.checkpoint_policies.dots_saveable)(b, a), checkpoint_nothing=lambda b, a: jax.checkpoint(f, policy=jax.checkpoint_policies.nothing_saveable)(b, a), checkpoint_grad=lambda b, a: g(jax.checkpoint(f), 1)(b, a))
    yield from many(BOTH, [w, rows], per_example=lambda b, r: jax.vmap(g(f), (None, 0))(b, r), grad_vmap_grad=lambda b, r: g(lambda q: jnp.sum(jax.vmap(g(f, 1), (None, 0))(q, r)**2))(b), vmap_hessian=lambda b, r: jax.vmap(jax.hessian(f, 1), (None, 0))(b, r), vmap_vmap=lambda b, r: jax.vmap(lambda p: jax.vmap(lambda q: p @ b @ q)(r))(r), maml=lambda b, r: jnp.mean(jax.vmap(lambda a: f(b - .1 * g(f)(b, a), a))(r)), influence=lambda b, r: jax.vmap(g(f), (None, 0))(b, r).std(0), vmap_axes=lambda b, r: jax.vmap(lambda p, q: p * q.sum(), (0, 1), 1)(r.T, b), vmap_collective=lambda b, r: jax.vmap(lambda p: p / lax.psum(p, "i"), axis_name="i")(r * r + 1))


def models():
    dense = [random(s, i) for i, s in enumerate([(5, 8), (8, 6), (6,), (6, 5), (5,)])]
    yield "mlp", mlp, dense, BOTH
    x = random((2, 6, 8), 1)
    block = [random(s, i, -.4, .4) for i, s in enumerate([(8, 24), (8, 8), (8, 16), (16, 8), (8,), (8,)], 2)]
    yield "transformer", transformer, [x, *block], BOTH
    yield "transformer_f32", transformer, [np.float32(a) for a in [x, *block]], NO_VMAP
    yield "transformer_scan", lambda a, *p: lax.scan(lambda h, q: (transformer(h, *q), None), a, p)[0], [x, *[np.stack([p, p * .9, p * 1.1]) for p in block]], NO_VMAP
    yield "transformer_scan_remat", lambda a, *p: lax.scan(jax.checkpoint(lambda h, q: (transformer(h, *q), None)), a, p)[0], [x, *[np.stack([p, p * .9, p * 1.1]) for p in block]], ("reverse",)
    yield "decoder_loss", lambda i, e, *p: decoder_loss(jnp.asarray(i), jnp.asarray(e), *p), [np.arange(12).reshape(2, 6) % 10, random((10, 8), 1), *block], BOTH
    yield "experts", experts, [random((6, 8), 1), random((8, 3), 2), random((3, 8, 4), 3), random((3, 4, 8), 4)], BOTH
    yield "rope", rope, [random((2, 6, 2, 8), 1)], BOTH
    yield "layer_norm", lambda a, g, b: (a - a.mean(-1, keepdims=True)) * lax.rsqrt(a.var(-1, keepdims=True) + 1e-5) * g + b, [x, random((8,), 2), random((8,), 3)], BOTH
    yield "rms_norm", lambda a, g: a * lax.rsqrt((a * a).mean(-1, keepdims=True) + 1e-6) * g, [x, random((8,), 2)], BOTH
    yield "batch_norm", lambda a, g: ((a - a.mean((0, 1))) / jnp.sqrt(a.var((0, 1)) + 1e-5) * g, a.mean((0, 1))), [x, random((8,), 2)], BOTH
    yield "attention_causal", lambda q: jax.nn.dot_product_attention(q, q * .5, q * 2, is_causal=True), [random((2, 5, 2, 4), 1)], BOTH
    yield "attention_groups", lambda q, k: jax.nn.dot_product_attention(q, k, k * 2), [random((2, 5, 4, 4), 1), random((2, 5, 2, 4), 2)], BOTH
    yield "dropout", lambda a: jnp.where(jax.random.bernoulli(jax.random.key(0), .5, a.shape), a / .5, 0), [x], NO_VMAP
    yield "reparameterised", lambda m, s: m + jnp.exp(s) * jax.random.normal(jax.random.key(1), m.shape), [random((4,), 1), random((4,), 2)], NO_VMAP
    yield "gumbel", lambda a: jax.nn.softmax((a + jax.random.gumbel(jax.random.key(2), a.shape)) / .7), [random((4, 5), 1)], NO_VMAP
    yield "vae", vae, [random((3, 6), 1), random((6, 4), 2), random((2, 6), 3)], NO_VMAP
    yield "cnn", cnn, [random((2, 8, 8, 3), 1), random((3, 3, 3, 4), 2), random((3, 3, 4, 6), 3), random((6, 5), 4)], BOTH
    yield "resnet", lambda a, k: lax.scan(lambda h, q: (h + jax.nn.relu(lax.conv_general_dilated(h, q, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))), None), a, k)[0], [random((1, 5, 5, 3), 1), random((3, 3, 3, 3, 3), 2)], BOTH
    yield "gnn", lambda a, w: jnp.tanh(jax.ops.segment_sum(a[np.array([0, 1, 2, 3, 0])] @ w, np.array([1, 2, 3, 0, 2]), 4)), [random((4, 5), 1), random((5, 5), 2)], BOTH
    yield "gaussian_process", gaussian_process, [random((5, 2), 1), random((5,), 2), np.array(.7)], BOTH
    yield "ctc_like", lambda a: lax.scan(lambda c, y: (jnp.logaddexp(c, jnp.roll(c, 1)) + y, None), jnp.zeros(5), jax.nn.log_softmax(a))[0], [random((6, 5), 1)], BOTH
    yield "neural_ode", lambda a, w: lax.fori_loop(0, 8, lambda i, h: rk4(lambda q: jnp.tanh(w @ q), h, .1), a), [random((4,), 1), random((4, 4), 2)], BOTH
    yield "state_space", lambda u, a: lax.associative_scan(lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1]), (jnp.broadcast_to(jnp.exp(-a), u.shape), u))[1], [random((8, 4), 1), random((4,), 2, .1, 1)], BOTH
    yield "moments", lambda p, g, m: p - .1 * (m * .9 + .1 * g) / (jnp.sqrt(g * g) + 1e-8), [random((4,), 1), random((4,), 2, .1, 1), random((4,), 3)], BOTH
    yield "contrastive", lambda a, b: -jnp.mean(jnp.diagonal(jax.nn.log_softmax(a @ b.T))), [random((4, 6), 1), random((4, 6), 2)], BOTH
    yield "ragged_dot", lax.ragged_dot, [random((6, 4), 1), random((3, 4, 5), 2), np.array([2, 1, 3], np.int32)], (*BOTH, "leading")
    yield "loss_scale", lambda a: jnp.sum(a * 1024) / 1024, [x], BOTH


def transformer(x, qkv, out, up, down, g1, g2):
    def norm(a, g):
        return a * lax.rsqrt(jnp.mean(a * a, -1, keepdims=True) + 1e-6) * (1 + g)
    b, t, d = x.shape
    q, k, v = jnp.split((norm(x, g1) @ qkv).reshape(b, t, 2, 3 * d // 2), 3, axis=-1)
    x = x + attention(q, k, v).reshape(b, t, d) @ out
    return x + jax.nn.gelu(norm(x, g2) @ up) @ down


def decoder_loss(tokens, embedding, *block):
    logits = transformer(embedding[tokens], *block) @ embedding.T
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits[:, :-1]), tokens[:, 1:, None], -1))


def experts(x, router, up, down):
    weights, chosen = lax.top_k(jax.nn.softmax(x @ router), 2)
    mask = jax.nn.one_hot(chosen, 3) * (weights / weights.sum(-1, keepdims=True))[..., None]
    return jnp.einsum("tke,tef->tf", mask, jnp.einsum("teh,ehd->ted", jax.nn.silu(jnp.einsum("td,edh->teh", x, up)), down))


def rope(x):
    angle = np.arange(x.shape[1])[:, None] / 100.0 ** (np.arange(x.shape[-1] // 2) / 4)
    a, b = jnp.split(x, 2, -1)
    c, s = jnp.cos(angle)[:, None], jnp.sin(angle)[:, None]
    return jnp.concatenate([a * c - b * s, a * s + b * c], -1)


def vae(x, encode, decode):
    mean, scale = jnp.split(x @ encode, 2, -1)
    z = mean + jnp.exp(scale) * jax.random.normal(jax.random.key(0), mean.shape)
    return jnp.mean((jnp.tanh(z @ decode) - x)**2) - .5 * jnp.mean(1 + 2 * scale - mean**2 - jnp.exp(2 * scale))


def cnn(x, k1, k2, w):
    convolve = functools.partial(lax.conv_general_dilated, padding="SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    x = jax.nn.relu(convolve(x, k1, (1, 1)))
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = jax.nn.relu(convolve(x, k2, (2, 2))).mean((1, 2))
    return -jax.nn.log_softmax(x @ w)[:, 1].mean()


def gaussian_process(x, y, length):
    k = jnp.exp(-((x[:, None] - x[None])**2).sum(-1) / (2 * length**2)) + .1 * np.eye(5)
    factor = jnp.linalg.cholesky(k)
    alpha = jsp.linalg.cho_solve((factor, True), y)
    return .5 * y @ alpha + jnp.log(jnp.diagonal(factor)).sum()


def rk4(f, h, step):
    k1 = f(h)
    k2 = f(h + step / 2 * k1)
    k3 = f(h + step / 2 * k2)
    return h + step / 6 * (k1 + 2 * k2 + 2 * k3 + f(h + step * k3))


def all_functions():
    for group in (special, types, numpy, linear, signal, loops, nested, models):
        for name, *rest in group():
            yield (f"{group.__name__}.{name}", *rest)
