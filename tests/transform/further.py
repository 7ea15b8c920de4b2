# SPDX-License-Identifier: Apache-2.0
"""More functions for compare_with_jax.py, written without regard to what meshlo does, to find what it does not do."""
import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec as P

from functions import BOTH, random
from library import FORWARD, NO_VMAP, many
from sharded import REVERSE, over


@jax.custom_jvp
def safe_sqrt(v):
    return jnp.sqrt(v)


safe_sqrt.defjvp(lambda p, t: (jnp.sqrt(p[0]), t[0] * 0.5 / jnp.maximum(jnp.sqrt(p[0]), 1e-3)))


@jax.custom_vjp
def straight_through(v):
    return jnp.round(v)


straight_through.defvjp(lambda v: (jnp.round(v), None), lambda _, t: (t,))


def policies():
    x, w = random((4, 6), 1), random((6, 6), 2, -.5, .5)
    names = jax.checkpoint_policies
    def block(v, m):
        from jax.ad_checkpoint import checkpoint_name
        return jnp.tanh(checkpoint_name(jnp.sin(checkpoint_name(v @ m, "product")), "wave") @ m)
    for name, policy in [("everything", names.everything_saveable), ("nothing", names.nothing_saveable), ("dots", names.dots_saveable),
                         ("dots_no_batch", names.dots_with_no_batch_dims_saveable), ("named", names.save_only_these_names("wave")),
                         ("any_but", names.save_anything_except_these_names("wave"))]:
        yield name, lambda v, m, policy=policy: jax.checkpoint(block, policy=policy)(v, m), [x, w], BOTH
        yield name + "_grad", lambda v, m, policy=policy: jax.grad(lambda p: jnp.sum(jax.checkpoint(block, policy=policy)(v, p) ** 2))(m), [x, w], BOTH
    yield "in_scan", lambda v, m: lax.scan(jax.checkpoint(lambda c, _: (block(c, m), None), policy=names.dots_saveable), v, None, length=3)[0], [x, w], BOTH
    yield "nested", lambda v, m: jax.checkpoint(lambda a: jax.checkpoint(lambda b: jnp.sin(b @ m))(jnp.cos(a)))(v), [x, w], BOTH


def rules():
    x, w = random((5,), 1, .3, 2), random((5, 5), 2, -.5, .5)
    yield from many(BOTH, [x], custom_jvp=lambda a: safe_sqrt(a) * a)
    # The rule of a lowered program is that of its values: what JAX replaces is in its own gradient only.
    yield "grad_of_straight_through", jax.grad(lambda a: jnp.sum(straight_through(3 * a) * jnp.sin(a))), [x], BOTH
    yield "vjp_pull", lambda a, t: jax.vjp(lambda q: jnp.tanh(w @ q), a)[1](t)[0], [x, x[::-1].copy()], BOTH
    yield "linear_transpose", lambda t: jax.linear_transpose(lambda q: w @ q, x)(t)[0], [x], BOTH
    yield "linearize", lambda a, t: jax.linearize(lambda q: jnp.sin(w @ q), a)[1](t), [x, x * 2], BOTH
    yield "hessian_diag", lambda a: jnp.diag(jax.hessian(lambda q: jnp.sum(jnp.tanh(w @ q) ** 3))(a)), [x], BOTH
    yield "hessian_cond", lambda a: jax.hessian(lambda q: lax.cond(q[0] > 0, lambda p: jnp.sum(jnp.sin(w @ p)), lambda p: jnp.sum(p ** 3), q))(a), [x], BOTH
    yield "hessian_switch", lambda a, m: jax.hessian(lambda q: lax.switch(1, [jnp.sum, lambda p: jnp.sum(jnp.tanh(m @ p)), lambda p: jnp.sum(p ** 3)], q))(a), [x, w], BOTH
    yield "jet", lambda a: jax.jvp(lambda q: jax.jvp(lambda p: jax.jvp(jnp.sin, (p,), (a,))[1], (q,), (a,))[1], (a,), (a,))[1], [x], BOTH
    yield "closure_convert", lambda a: jax.grad(lambda q: jnp.sum(jax.closure_convert(lambda v: jnp.sin(v * q), q)[0](q, *jax.closure_convert(lambda v: jnp.sin(v * q), q)[1])))(a), [x], BOTH
    yield "vmap_jvp", lambda r: jax.vmap(lambda a: jax.jvp(lambda q: jnp.exp(w @ q), (a,), (a,))[1])(r), [random((3, 5), 3)], BOTH
    yield "vmap_of_vmap_grad", lambda r: jax.vmap(jax.vmap(jax.grad(lambda a: jnp.sum(jnp.sin(a) ** 2))))(r), [random((2, 3, 5), 3)], BOTH
    yield "vmap_out_axes", lambda r: jax.vmap(lambda a: w @ a, out_axes=1)(r), [random((3, 5), 3)], BOTH
    yield "vmap_axis_size", lambda a: jax.vmap(lambda i: a * i)(jnp.arange(4.)), [x], BOTH
    yield "vmap_axis_index", lambda r: jax.vmap(lambda a: a * lax.axis_index("i"), axis_name="i")(r), [random((3, 5), 3)], BOTH
    yield "vmap_pmean_norm", lambda r: jax.vmap(lambda a: (a - lax.pmean(a, "i")) * lax.rsqrt(lax.pmean(a * a, "i") + 1), axis_name="i")(r), [random((3, 5), 3)], BOTH
    yield "implicit", lambda a: lax.custom_root(lambda z: z ** 3 - a, a, lambda f, z0: lax.fori_loop(0, 20, lambda i, z: z - (z ** 3 - a) / (3 * z ** 2), z0), lambda g, y: y / g(jnp.ones_like(y))), [x], FORWARD
    yield "linear_solve", lambda m, b: lax.custom_linear_solve(lambda v: (m + 3 * np.eye(5)) @ v, b, lambda f, v: jnp.linalg.solve(m + 3 * np.eye(5), v), lambda f, v: jnp.linalg.solve((m + 3 * np.eye(5)).T, v)), [w, x], BOTH


def laxes():
    x, m, v = random((4, 6), 1), random((6, 4), 2), random((6,), 3)
    yield from many(BOTH, [x], argmin=lambda a: a.min(1) * lax.argmin(a, 1, np.int32), broadcasted=lambda a: lax.broadcast(a, (2, 3)) ** 2, expand=lambda a: lax.expand_dims(a, (0, 3)) * 2,
                    rsqrt=lambda a: lax.rsqrt(a * a + 1), exp2=lax.exp2, cbrt=lambda a: lax.cbrt(a * a + .1), reduce_and_mask=lambda a: a * (a > 0).all(0), reduce_or_mask=lambda a: a * (a > .9).any(0),
                    reduce_generic=lambda a: lax.reduce(a, 0.0, lax.add, (0,)), reduce_max_generic=lambda a: lax.reduce(a, -np.inf, lax.max, (1,)), reduce_window_sum=lambda a: lax.reduce_window(a, 0.0, lax.add, (2, 3), (1, 2), "SAME"),
                    reduce_window_base=lambda a: lax.reduce_window(a, 0.0, lax.add, (2, 2), (1, 1), "VALID", base_dilation=(2, 2)),
                    cumlogsumexp=lambda a: lax.cumlogsumexp(a, 1, reverse=True), cummin=lambda a: lax.cummin(a, 0, reverse=True), top_k_3=lambda a: lax.top_k(a, 3)[0] ** 2, rev=lambda a: lax.rev(a, (0, 1)) * a,
                    square=lax.square, integer_pow=lambda a: lax.integer_pow(a, -3), tan=lax.tan, is_finite=lambda a: jnp.where(lax.is_finite(a), a, 0), sign=lambda a: lax.sign(a) * a, slice_stride=lambda a: lax.slice(a, (0, 1), (4, 6), (2, 3)),
                    nan_max=lambda a: lax.max(a, jnp.float64(.2)), clamp=lambda a: lax.clamp(-.3, a, .4), convert=lambda a: lax.convert_element_type(a, np.float32), reshape_order=lambda a: lax.reshape(a, (6, 4), (1, 0)), squeeze=lambda a: lax.squeeze(a[None], (0,)),
                    population=lambda a: a * lax.population_count(jnp.arange(6)), full_like=lambda a: a * lax.full_like(a, 2.5), select_n=lambda a: lax.select_n((a > 0).astype(np.int32), a * 2, jnp.sin(a)), sort_three=lambda a: lax.sort((a, a * 2, jnp.sin(a)), num_keys=2)[2],
                    dynamic_index_keep=lambda a: lax.dynamic_index_in_dim(a, 2, 1), dynamic_update_index=lambda a: lax.dynamic_update_index_in_dim(a, a[:, 0] ** 2, 3, 1), cumsum_1=lambda a: lax.cumsum(a, 1) ** 2)
    yield "dot_general_two", lambda a, b: lax.dot_general(a, b, (((1,), (0,)), ((), ()))), [x, m], BOTH
    yield "dot_general_batch", lambda a, b: lax.dot_general(a, b, (((2, 3), (1, 3)), ((0,), (2,)))), [random((2, 3, 4, 5), 1), random((6, 4, 2, 5), 2)], BOTH
    yield "batch_matmul", lax.batch_matmul, [random((2, 3, 4), 1), random((2, 4, 5), 2)], BOTH
    yield "reduce_pair", lambda a: lax.reduce((a, a * 2), (np.float64(0), np.float64(1)), lambda p, q: (p[0] + q[0], p[1] * q[1]), (1,)), [x], NO_VMAP
    yield "reduce_logaddexp", lambda a: lax.reduce(a, -np.inf, jnp.logaddexp, (0, 1)), [x], BOTH
    yield "reduce_by_where", lambda a: lax.reduce((a, a * a), (np.float64(-9), np.float64(0)), lambda p, q: (jnp.where(p[0] > q[0], p[0], q[0]), jnp.where(p[0] > q[0], p[1], q[1])), (0,)), [x], NO_VMAP
    yield "ragged", lambda a, b: lax.ragged_dot(a, b, np.array([3, 1], np.int32)), [x, random((2, 6, 3), 4)], REVERSE[:1]
    yield "conv_local", lambda a, k: lax.conv_general_dilated_local(a, k, (1,), "VALID", (3,), dimension_numbers=("NWC", "WIO", "NWC")), [random((2, 7, 3), 1), random((5, 9, 4), 2)], BOTH
    yield "conv_transposed_dilated", lambda a, k: lax.conv_transpose(a, k, (2,), "VALID", rhs_dilation=(2,), dimension_numbers=("NWC", "WIO", "NWC")), [random((2, 5, 3), 1), random((3, 3, 4), 2)], BOTH
    yield "gather_slices", lambda a, i: lax.gather(a, i, lax.GatherDimensionNumbers((1, 2), (), (0, 1)), (2, 3)), [x, np.array([[0, 1], [2, 3], [1, 2]])], BOTH
    yield "scatter_slices", lambda a, i, u: lax.scatter_add(a, i, u, lax.ScatterDimensionNumbers((1, 2), (), (0, 1))), [x, np.array([[0, 1], [2, 3], [1, 2]]), random((3, 2, 3), 5)], BOTH
    yield "scatter_sub", lambda a, u: lax.scatter_sub(a, np.array([[1], [2]]), u, lax.ScatterDimensionNumbers((), (0,), (0,))), [v, random((2,), 4)], BOTH
    yield "scatter_max", lambda a, u: a.at[np.array([1, 1, 4])].max(u), [v, random((3,), 4)], BOTH
    yield "dynamic_slices", lambda a, i: lax.dynamic_slice(a, (i, i + 1), (2, 3)) * lax.dynamic_slice(a, (i + 1, i), (2, 3)), [x, np.array(1)], BOTH
    yield "igamma_grad", lambda a: lax.igamma(1.7, a) + lax.igammac(2.3, a), [np.abs(v) + .1], BOTH
    yield "nextafter_mix", lambda a, b: jnp.fmax(a, b) + jnp.fmin(a, b * 2), [v, v[::-1].copy()], BOTH
    yield "reduce_precision", lambda a: lax.reduce_precision(a, 8, 7) * a, [x], BOTH
    yield "approx_min_k", lambda a: lax.approx_min_k(a, 2)[0], [x], NO_VMAP
    yield "complex_parts", lambda a, b: lax.imag(lax.complex(a, b) ** 2) * lax.real(lax.conj(lax.complex(b, a))), [x, x * .5], BOTH
    yield "rng_uniform", lambda a: a * jax.random.uniform(jax.random.key(3), a.shape), [x], BOTH


def numpies():
    x, m, v, z = random((4, 6), 1), random((6, 6), 2), random((6,), 3), random((4, 3), 4, dtype=np.complex128)
    yield from many(BOTH, [x], nanvar=jnp.nanvar, nanprod=jnp.nanprod, nancumprod=lambda a: jnp.nancumprod(a, 1), cumulative_prod=lambda a: jnp.cumulative_prod(a, axis=0), geometric=lambda a: jnp.exp(jnp.mean(jnp.log(jnp.abs(a)))), argpartition=lambda a: jnp.take_along_axis(a, jnp.argpartition(a, 2, 1), 1).sum(1),
                    pad_symmetric=lambda a: jnp.pad(a, ((1, 2), (3, 1)), "symmetric"), pad_constant=lambda a: jnp.pad(a, 1, constant_values=2.), pad_maximum=lambda a: jnp.pad(a, 1, "maximum"), pad_median=lambda a: jnp.pad(a, 1, "mean", stat_length=2),
                    fliplr=jnp.fliplr, rollaxis=lambda a: jnp.rollaxis(a, 1), dsplit=lambda a: jnp.dsplit(a.reshape(2, 3, 4), 2), vsplit=lambda a: jnp.vsplit(a, 2)[1], hstack=lambda a: jnp.hstack([a, a * 2]), dstack=lambda a: jnp.dstack([a, jnp.sin(a)]), tri_mul=lambda a: a * jnp.tri(4, 6),
                    fill_diagonal=lambda a: jnp.fill_diagonal(a, 0.0, inplace=False) ** 2, nonzero_sized=lambda a: a[jnp.nonzero(a > 0, size=5)], extract=lambda a: jnp.extract(a > 0, a, size=4), unique_sized=lambda a: jnp.unique(a, size=24), resize=lambda a: jnp.resize(a, (5, 7)), round_2=lambda a: jnp.round(a, 2) + a,
                    deg=lambda a: jnp.rad2deg(jnp.deg2rad(a) * 2), sinc=lambda a: jnp.sinc(a) ** 2, i0=jnp.i0, modf=lambda a: jnp.modf(a * 3)[0], spacing_free=lambda a: jnp.positive(a) * jnp.fabs(a), cbrt=lambda a: jnp.cbrt(a + 3), logcosh=lambda a: jnp.log(jnp.cosh(a)),
                    apply_over=lambda a: jnp.apply_over_axes(jnp.sum, a, [0, 1]), quantile_higher=lambda a: jnp.quantile(a, .3, axis=1, method="higher"), quantile_list=lambda a: jnp.quantile(a, jnp.array([.2, .5]), axis=0), nanquantile=lambda a: jnp.nanquantile(a, .7), histogram_weights=lambda a: jnp.histogram(np.arange(24.), bins=4, weights=a.ravel())[0],
                    take_wrap=lambda a: jnp.take(a, np.array([-1, 7, 2]), axis=1, mode="wrap"), rot=lambda a: jnp.rot90(a, 3), trapz=lambda a: jnp.trapezoid(a, np.array([0., 1, 3, 4, 7, 8])), logaddexp_at=lambda a: jnp.logaddexp(a[0], a[1]), matvec_vecdot=lambda a: jnp.vecdot(a, jnp.sin(a)), unravel=lambda a: a[jnp.unravel_index(np.array([3, 9]), (4, 6))],
                    cumsum_flat=lambda a: jnp.cumsum(a), mean_axis=lambda a: a.mean((0, 1), keepdims=True), all_where=lambda a: jnp.where(jnp.all(a > -2), a, 0), clip_array=lambda a: a.clip(a.mean() - .2, a.mean() + .2), astype_c=lambda a: jnp.abs(a.astype(complex) + 1j), isclose=lambda a: a * jnp.isclose(a, a), searchsorted_gather=lambda a: a[0][jnp.searchsorted(jnp.sort(a[0]), a[1])])
    yield from many(BOTH, [x, x * .7 + .1], maximum=jnp.maximum, remainder=jnp.remainder, true_divide=lambda a, b: a / (b + 3), arctan2=jnp.arctan2, hypot3=lambda a, b: jnp.hypot(a, jnp.hypot(b, 1)), outer=lambda a, b: jnp.outer(a[0], b[0]), ix=lambda a, b: a[jnp.ix_(np.array([0, 2]), np.array([1, 4]))] * b[1, 2], where_xy=lambda a, b: jnp.where(a > b, a * b, a - b), dot=lambda a, b: jnp.dot(a, b.T), inner=jnp.inner, einsum_path=lambda a, b: jnp.einsum("ij,kj,kl->il", a, b, b), concatenate_none=lambda a, b: jnp.concatenate([a, b], None), select=lambda a, b: jnp.select([a > 0, b > 0], [a * 2, b], a + b), logical=lambda a, b: a * jnp.logical_and(a > 0, b > 0))
    yield from many(BOTH, [m], diagonal_offset=lambda a: jnp.diagonal(a, 2) ** 2, trace_offset=lambda a: jnp.trace(a, -1), tril_inv=lambda a: jnp.linalg.inv(jnp.tril(a) + 3 * np.eye(6)), matrix_norm=lambda a: jnp.linalg.norm(a, "fro"), norm_axis=lambda a: jnp.linalg.norm(a, 3, axis=1), norm_1=lambda a: jnp.linalg.norm(a, 1), det_block=lambda a: jnp.linalg.det(a[:4, :4]), slogdet_solve=lambda a: jnp.linalg.slogdet(a)[1] * jnp.linalg.solve(a, np.ones(6)),
                    slogdet_inv=lambda a: jnp.linalg.slogdet(jnp.linalg.inv(a))[1], inv_trace=lambda a: jnp.trace(jnp.linalg.inv(a + 3 * np.eye(6))), lu_diag=lambda a: jnp.diagonal(jax.scipy.linalg.lu_factor(a)[0]), batch_slogdet=lambda a: jnp.linalg.slogdet(jnp.stack([a[:3, :3], a[3:, 3:]]))[1], grad_det=lambda a: jax.grad(lambda q: jnp.linalg.det(q))(a[:4, :4]), cholesky_logdet=lambda a: jnp.sum(jnp.log(jnp.diagonal(jnp.linalg.cholesky(a @ a.T + np.eye(6))))),
                    matrix_power_neg=lambda a: jnp.linalg.matrix_power(a + 3 * np.eye(6), -2), vander_solve=lambda a: jnp.linalg.solve(jnp.vander(a[0]), a[1]), expm_frechet=lambda a: jsp.linalg.expm(a * .1)[0], toeplitz_solve=lambda a: jnp.linalg.solve(jsp.linalg.toeplitz(a[0] + 3 * (np.arange(6) == 0)), a[1]), symmetric_eigh=lambda a: jnp.linalg.eigh(a + a.T)[0], svdvals=lambda a: jnp.linalg.svdvals(a), svd_tall_values=lambda a: jnp.linalg.svd(a[:, :3], full_matrices=False)[1] ** 2, svd_tall_right=lambda a: jnp.abs(jnp.linalg.svd(a[:, :3], full_matrices=False)[2]), svd_wide_left=lambda a: jnp.abs(jnp.linalg.svd(a[:3], full_matrices=False)[0]), outer_chol=lambda a: jnp.linalg.cholesky(a @ a.T + np.eye(6))[2], lstsq=lambda a: jnp.linalg.lstsq(a[:, :3], a[:, 4])[0])
    yield from many(BOTH, [z], abs_sum=lambda a: jnp.sum(jnp.abs(a) ** 3), conj_dot=lambda a: a.conj().T @ a, real_if=lambda a: jnp.real(a) * jnp.imag(a), angle_sum=lambda a: jnp.angle(a + 3), complex_exp=lambda a: jnp.exp(1j * a), complex_log=lambda a: jnp.log(a), complex_power=lambda a: a ** 2.5, complex_cumprod=lambda a: jnp.cumprod(a, 0), complex_sum_axis=lambda a: a.sum(0) / a.prod(1)[:3], complex_where=lambda a: jnp.where(a.real > 0, a, a.conj()), fft_shift=lambda a: jnp.fft.fftshift(jnp.fft.fft(a)), complex_scan=lambda a: lax.scan(lambda c, t: (c * t + 1, c), jnp.zeros(3, complex), a)[1], complex_gather=lambda a: a[np.array([0, 2, 2])] * a[np.array([1, 1, 3])], complex_norm=lambda a: jnp.linalg.norm(a), complex_sinh=lambda a: jnp.sinh(a) * jnp.cosh(a), complex_atan=lambda a: jnp.arctan(a * .3), complex_sort=lambda a: jnp.sort(a, 0))


def networks():
    n, x, w = jax.nn, random((4, 6), 1), random((6, 6), 2, -.5, .5)
    yield from many(BOTH, [x], identity=n.identity, relu=n.relu, silu=n.silu, swish_beta=lambda a: a * n.sigmoid(1.7 * a), gelu_tanh=n.gelu, log_sigmoid=n.log_sigmoid, softmax_where=lambda a: n.softmax(a, where=a > -.5, axis=1), logsumexp_b=lambda a: n.logsumexp(a, b=np.arange(6.), axis=1), logmeanexp=lambda a: n.logsumexp(a, 0) - np.log(4), standardize=lambda a: n.standardize(a, axis=0), hard_silu=n.hard_silu, softmax_temperature=lambda a: n.softmax(a / .3, 0),
                    entropy=lambda a: -(n.softmax(a) * n.log_softmax(a)).sum(-1), focal=lambda a: ((1 - n.softmax(a)) ** 2 * -n.log_softmax(a))[:, 0].mean(), label_smoothing=lambda a: -(n.log_softmax(a) * (n.one_hot(np.array([0, 1, 2, 3]), 6) * .9 + .1 / 6)).mean(), bce=lambda a: jnp.mean(jnp.maximum(a, 0) - a * (a > .2) + jnp.log1p(jnp.exp(-jnp.abs(a)))), hinge=lambda a: n.relu(1 - a).mean(), triplet=lambda a: n.relu(((a[0] - a[1]) ** 2).sum() - ((a[0] - a[2]) ** 2).sum() + .2),
                    sparsemax=lambda a: (lambda s: (lambda c: jnp.maximum(a - ((jnp.take_along_axis(c, (s * jnp.arange(1, 7) > c).sum(-1, keepdims=True) - 1, -1)) / (s * jnp.arange(1, 7) > c).sum(-1, keepdims=True)), 0))(jnp.cumsum(s, -1) - 1))(-jnp.sort(-a, -1)), group_norm=lambda a: (lambda g: ((g - g.mean((1, 2), keepdims=True)) / jnp.sqrt(g.var((1, 2), keepdims=True) + 1e-5)).reshape(a.shape))(a.reshape(2, 2, 6)), maxout=lambda a: a.reshape(4, 3, 2).max(-1), glu=lambda a: n.glu(a, 1), lrn=lambda a: a / (1 + lax.reduce_window(a * a, 0.0, lax.add, (1, 3), (1, 1), "SAME")) ** .75)
    yield "logistic_saturated", lambda a: n.sigmoid(a) + n.silu(a), [np.array([-2000., -100, 0, 100, 2000], np.float32)], BOTH
    yield "dot_product_attention", lambda q, k, v: n.dot_product_attention(q, k, v, is_causal=True), [random((2, 5, 4, 8), i) for i in (1, 2, 3)], BOTH
    yield "dot_product_attention_gqa", lambda q, k, v: n.dot_product_attention(q, k, v), [random((2, 5, 4, 8), 1), random((2, 5, 2, 8), 2), random((2, 5, 2, 8), 3)], BOTH
    yield "dot_product_attention_window", lambda q, k, v, b: n.dot_product_attention(q, k, v, bias=b, local_window_size=(2, 0)), [*(random((2, 5, 4, 8), i) for i in (1, 2, 3)), random((1, 4, 5, 5), 4)], BOTH
    yield "alibi", lambda q, k, v: n.softmax(q @ k.T - .1 * jnp.abs(jnp.arange(4)[:, None] - jnp.arange(4))) @ v, [x, x * .3, x - 1], BOTH
    yield "topk_gating", lambda a, b: (lambda t, i: jnp.einsum("tk,tkd->td", n.softmax(t), jnp.asarray(b)[i] * a[:, None, :]))(*lax.top_k(a @ w, 2)), [x, w], BOTH
    yield "vq", lambda a, b: (lambda q: a + lax.stop_gradient(q - a))(jnp.asarray(b)[jnp.argmin(((a[:, None] - b) ** 2).sum(-1), -1)]), [x, w], ("vmap",)
    yield "mamba", lambda a, d, b: lax.associative_scan(lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1]), (jnp.exp(-n.softplus(d)), a * b))[1], [x, x * .3, x + 1], BOTH
    yield "retention", lambda q, k, v: ((q @ k.T) * jnp.tril(.9 ** (jnp.arange(4)[:, None] - jnp.arange(4)))) @ v, [x, x * .3, x - 1], BOTH
    yield "mlp_mixer", lambda a, b, c: (lambda h: h + n.gelu(h @ b))(a + (n.gelu(a.T @ c)).T), [x, w, random((4, 4), 5)], BOTH
    yield "squeeze_excite", lambda a, b: a * n.sigmoid(n.relu(a.mean((1, 2)) @ b) @ b.T)[:, None, None], [random((2, 4, 4, 6), 1), w], BOTH
    yield "deformable", lambda a, o: jax.vmap(lambda c: jsp.ndimage.map_coordinates(c, [np.arange(4.)[:, None] + o[0], np.arange(4.) + o[1]], 1), -1, -1)(a), [random((4, 4, 2), 1), random((2, 4, 4), 2, .1, .4)], BOTH
    yield "weight_norm", lambda a, b, g: a @ (b * (g / jnp.linalg.norm(b, axis=0))), [x, w, random((6,), 3)], BOTH
    yield "spectral_norm", lambda a, b: a @ (b / (lambda u: u @ b @ (b.T @ u) / jnp.linalg.norm(b.T @ u))(lax.fori_loop(0, 3, lambda i, u: (lambda t: t / jnp.linalg.norm(t))(b @ (b.T @ u)), np.ones(6) / 6))), [x, w], BOTH
    yield "pixel_shuffle", lambda a: a.reshape(2, 3, 3, 2, 2, 2).transpose(0, 1, 3, 2, 4, 5).reshape(2, 6, 6, 2) ** 2, [random((2, 3, 3, 8), 1)], BOTH
    yield "decoder_steps", lambda e, b: lax.scan(lambda c, i: (lambda h, p: (h, n.log_softmax(h @ e.T)[i]))(jnp.tanh(c @ b + e[i]), None), jnp.zeros(6), np.array([1, 3, 0, 2]))[1].sum(), [x, w], BOTH
    yield "beam_free_rnnt", lambda a: lax.scan(lambda c, t: (lambda d: (d, d))(jnp.logaddexp(c + t, jnp.pad(c[:-1], (1, 0), constant_values=-1e9) + t)), jnp.where(np.arange(6) == 0, 0., -1e9), a)[0], [x], BOTH
    yield "ode_rk4", lambda a: lax.fori_loop(0, 4, lambda i, y: (lambda f: (lambda k1: (lambda k2: (lambda k3: y + .1 / 6 * (k1 + 2 * k2 + 2 * k3 + f(y + .1 * k3)))(f(y + .05 * k2)))(f(y + .05 * k1)))(f(y)))(lambda q: jnp.sin(q @ w)), a), [x], BOTH
    yield "fourier_features", lambda a, b: jnp.concatenate([jnp.sin(a @ b), jnp.cos(a @ b)], -1), [x, w], BOTH
    yield "hypernetwork", lambda a, c: jax.vmap(lambda v, u: jnp.tanh(jnp.outer(u, u) @ v))(a, c), [x, x + .5], BOTH
    yield "lora", lambda a, p, q: a @ (w + p @ q) , [x, random((6, 2), 3), random((2, 6), 4)], BOTH
    yield "softmoe", lambda a, p: (lambda d, c: c @ jnp.tanh(d.T @ a))(n.softmax(a @ p, 0), n.softmax(a @ p, 1)), [x, w], BOTH


def scientific():
    s, st = jsp.special, jsp.stats
    x, v, p = random((5,), 1, .2, .8), random((5,), 2, -1.5, 1.5), random((5,), 3, .5, 4)
    yield from many(BOTH, [v], norm_cdf=st.norm.cdf, norm_logsf=st.norm.logsf, cauchy=st.cauchy.logpdf, laplace=lambda a: st.laplace.cdf(a) + st.laplace.logpdf(a), logistic=lambda a: st.logistic.logpdf(a), gennorm=lambda a: st.gennorm.logpdf(a, 1.5), truncnorm=lambda a: st.truncnorm.logpdf(a, -2, 2), spence=lambda a: s.spence(jnp.abs(a) + .1), erfc=s.erfc, erf=lambda a: s.erf(a) ** 2, softmax=lambda a: s.softmax(a), log_expit=lambda a: jnp.log(s.expit(a)), multivariate=lambda a: st.multivariate_normal.logpdf(a, np.zeros(5), np.eye(5) * 2), sph=lambda a: s.i1e(a) * s.i0e(a), rankdata=lambda a: a * st.rankdata(a), sem=lambda a: st.sem(a), gaussian_kde=lambda a: st.gaussian_kde(a).evaluate(np.array([.1, .2])))
    yield from many(BOTH, [x], norm_ppf=st.norm.ppf, beta_logpdf=lambda a: st.beta.logpdf(a, 2., 3.), bernoulli=lambda a: st.bernoulli.logpmf(1, a), binom=lambda a: st.binom.logpmf(3, 7, a), geom=lambda a: st.geom.logpmf(3, a), nbinom=lambda a: st.nbinom.logpmf(3, 2., a), logit=s.logit, ndtri=s.ndtri, betainc_x=lambda a: s.betainc(2., 3., a), dirichlet=lambda a: st.dirichlet.logpdf(a / a.sum(), np.arange(1., 6)), uniform=lambda a: st.uniform.logpdf(a), entr=s.entr, zeta=lambda a: s.zeta(a + 2, 1.5), logistic_sf=lambda a: st.logistic.isf(a))
    yield from many(BOTH, [p], gamma_logpdf=lambda a: st.gamma.logpdf(a, 2.), expon=st.expon.logpdf, chi2=lambda a: st.chi2.logpdf(a, 3), pareto=lambda a: st.pareto.logpdf(a + 1, 2.), poisson=lambda a: st.poisson.logpmf(3, a), poisson_cdf=lambda a: st.poisson.cdf(3, a), lognormal=lambda a: st.norm.logpdf(jnp.log(a)) - jnp.log(a), gamma_cdf=lambda a: st.gamma.cdf(a, 2.), wrapcauchy=lambda a: st.wrapcauchy.logpdf(a, .3), vonmises=lambda a: st.vonmises.logpdf(a, 2.), gammasgn=lambda a: s.gammasgn(a) * s.gammaln(a), gamma=s.gamma, rgamma=lambda a: 1 / s.gamma(a), poch=lambda a: s.poch(a, 2.), comb=lambda a: jnp.exp(s.gammaln(a + 1) - s.gammaln(2.) - s.gammaln(a)), digamma=s.digamma, expi=s.expi, exp1=s.exp1, polygamma=lambda a: s.polygamma(1, a), log_ndtr=lambda a: s.log_ndtr(-a), betaln=lambda a: s.betaln(a, 2.), lambertw=lambda a: lax.fori_loop(0, 6, lambda i, w: w - (w * jnp.exp(w) - a) / (jnp.exp(w) * (w + 1)), a))
    yield "expi_negative", s.expi, [-p], BOTH
    yield "expi_wide", s.expi, [np.array([-40., -3, -.2, .2, 5., 40.])], BOTH
    yield "exp1_wide", s.exp1, [np.array([.01, .9, 1.1, 5., 40., 300.])], BOTH
    yield "savgol", lambda a: jsp.signal.convolve(a, np.array([-3., 12, 17, 12, -3]) / 35, "same"), [v], BOTH
    yield "welch", lambda a: jsp.signal.welch(a, nperseg=8)[1], [random((16,), 4)], BOTH
    yield "istft", lambda a: jsp.signal.istft(jsp.signal.stft(a, nperseg=8)[2], nperseg=8)[1], [random((16,), 4)], BOTH
    yield "minimise_quadratic", lambda a: lax.fori_loop(0, 5, lambda i, q: q - .1 * jax.grad(lambda r: jnp.sum((r - a) ** 4))(q), jnp.zeros(5)), [v], BOTH
    yield "cg_fixed", lambda a: lax.fori_loop(0, 4, lambda i, c: (lambda A, x0, r, q: (lambda Aq, al: (lambda r2: (x0 + al * q, r2, r2 + (r2 @ r2) / (r @ r) * q))(r - al * Aq))(A @ q, (r @ r) / (q @ A @ q)))(jnp.diag(p) + .1, *c), (jnp.zeros(5), a, a))[0], [v], BOTH
    yield "solve_banded", lambda d: lax.linalg.tridiagonal_solve(np.r_[0, np.ones(4)], d + 3, np.r_[np.ones(4), 0], np.ones((5, 2))), [v], BOTH
    yield "interp_grid", lambda a: jsp.interpolate.RegularGridInterpolator((np.arange(4.), np.arange(3.)), a)(np.array([[.5, 1.2], [2.2, .3]])), [random((4, 3), 5)], BOTH
    yield "barycentric", lambda a: (lambda q: (a / (q - np.arange(5.))).sum() / (1 / (q - np.arange(5.))).sum())(2.3), [v], BOTH
    yield "kabsch", lambda a: (lambda u, s, vt: jnp.abs(u) @ jnp.abs(vt))(*jnp.linalg.svd(a.T @ np.arange(12.).reshape(4, 3) + 2 * np.diag([1., 2, 3]))), [random((4, 3), 6)], BOTH
    yield "betainc_parameters", lambda a: s.betainc(a, 2.0, .4), [x], ("vmap",)


def devices():
    ring = jax.make_mesh((8,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    grid = jax.make_mesh((4, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    x, w = random((16, 8), 1), random((8, 8), 2, -.5, .5)
    turn = [(i, (i + 3) % 8) for i in range(8)]
    rows = over(ring, (P("x"),), P("x"))
    yield "gather_scan", rows(lambda a: lax.scan(lambda c, _: (jnp.sin(lax.all_gather(c, "x", tiled=True).mean(0)) * c, None), a, None, length=3)[0]), [x], REVERSE
    yield "fsdp_layer", over(ring, (P("x"), P("x")), P("x"))(lambda a, b: jnp.tanh(a @ lax.all_gather(b, "x", tiled=True))), [x, w], REVERSE
    yield "fsdp_two_remat", over(ring, (P("x"), P("x"), P("x")), P("x"))(jax.checkpoint(lambda a, b, c: jnp.tanh(a @ lax.all_gather(b, "x", tiled=True)) @ lax.all_gather(c, "x", tiled=True))), [x, w, w * .5], REVERSE
    yield "sequence_parallel", over(grid, (P("x", "y"), P(None, "y"), P("y")), P("x", "y"))(lambda a, b, c: lax.psum_scatter(jnp.tanh(lax.all_gather(a, "y", axis=1, tiled=True) @ b) @ c, "y", scatter_dimension=1, tiled=True)), [x, w, w * .5], REVERSE
    yield "softmax_parallel", over(grid, (P("x", "y"),), P("x", "y"))(lambda a: (lambda e: e / lax.psum(e.sum(1, keepdims=True), "y"))(jnp.exp(a - lax.pmax(lax.stop_gradient(a.max(1, keepdims=True)), "y")))), [x], REVERSE
    yield "sync_batch_norm", rows(lambda a: (a - lax.pmean(a.mean(0), "x")) * lax.rsqrt(lax.pmean((a ** 2).mean(0), "x") - lax.pmean(a.mean(0), "x") ** 2 + 1e-5)), [x], REVERSE
    yield "permute_far", rows(lambda a: a * lax.ppermute(jnp.cos(a), "x", turn) + lax.ppermute(a, "x", [(0, 5), (5, 0)])), [x], REVERSE
    yield "halo", rows(lambda a: jnp.concatenate([lax.ppermute(a[-1:], "x", [(i, i + 1) for i in range(7)]), a, lax.ppermute(a[:1], "x", [(i + 1, i) for i in range(7)])]) [1:-1] * 2 + lax.ppermute(a[-1:], "x", [(i, (i + 1) % 8) for i in range(8)])), [x], REVERSE
    yield "all_to_all_heads", over(ring, (P("x"),), P("x"))(lambda a: lax.all_to_all(jnp.sin(lax.all_to_all(a, "x", 1, 0, tiled=True)) ** 2, "x", 0, 1, tiled=True)), [x], REVERSE
    yield "psum_of_squares", rows(lambda a: a * lax.psum(a ** 2, "x")), [x], REVERSE
    yield "switch_by_index", rows(lambda a: lax.switch(lax.axis_index("x") % 3, [jnp.sin, jnp.cos, lambda v: v ** 2], a)), [x], REVERSE
    yield "cond_collective", over(ring, (P("x"), P()), P("x"))(lambda a, q: lax.cond(q[0, 0] > 0, lambda v: v * lax.psum(v.sum(), "x"), lambda v: v, a)), [x, w], REVERSE
    yield "nested_region", over(grid, (P("x"), P()), P("x"), axis_names={"x"})(lambda a, b: jax.nn.relu(a @ b) + lax.pmean(a, "x")), [x, w], REVERSE
    yield "grad_inside_loop", over(ring, (P("x"), P()), P())(lambda a, b: lax.fori_loop(0, 3, lambda i, q: q - .1 * lax.pmean(jax.grad(lambda r: jnp.mean(jnp.tanh(a @ r) ** 2))(q), "x"), b)), [x, w], REVERSE
    yield "pvary", over(ring, (P(), P("x")), P("x"))(lambda b, a: lax.scan(lambda c, r: (jnp.tanh(c @ r), c.sum()), lax.pcast(b, ("x",), to="varying"), jnp.stack([a.T @ a] * 2))[0]), [w, x], REVERSE


def all_functions():
    for group in (policies, rules, laxes, numpies, networks, scientific, devices):
        for name, *rest in group():
            yield (f"{group.__name__}.{name}", *rest)
