# SPDX-License-Identifier: Apache-2.0
"""The functions of compare_with_jax.py: (name, function, arguments, modes)."""
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

BOTH = ("reverse", "forward", "vmap")


def random(shape, seed=0, low=-1.0, high=1.0, dtype=np.float64):
    generator = np.random.default_rng(seed)
    values = generator.uniform(low, high, shape)
    if np.issubdtype(dtype, np.complexfloating):
        values = values + 1j * generator.uniform(low, high, shape)
    return np.asarray(values).astype(dtype)


def unary():
    for name, low, high in [("acos", -.9, .9), ("acosh", 1.1, 3), ("asin", -.9, .9), ("asinh", -2, 2), ("atanh", -.9, .9), ("cbrt", .1, 2),
                            ("cos", -2, 2), ("cosh", -2, 2), ("erf", -2, 2), ("exp", -2, 2), ("expm1", -2, 2), ("log", .1, 3), ("log1p", -.5, 3),
                            ("logistic", -3, 3), ("rsqrt", .1, 3), ("sin", -2, 2), ("sinh", -2, 2), ("sqrt", .1, 3), ("tan", -1, 1),
                            ("tanh", -2, 2), ("abs", -2, 2), ("neg", -2, 2), ("sign", -2, 2), ("floor", -2, 2), ("ceil", -2, 2), ("round", -2, 2),
                            ("erf_inv", -.9, .9), ("erfc", -2, 2), ("square", -2, 2), ("exp2", -2, 2)]:
        yield name, getattr(lax, name), [random((3, 4), 1, low, high)], BOTH
        yield name + "_f32", getattr(lax, name), [random((5,), 2, low, high, np.float32)], BOTH
    for name in ["cos", "exp", "log", "sin", "tanh", "sqrt", "rsqrt", "logistic", "abs", "neg", "real", "imag", "conj", "expm1", "log1p", "asin",
                 "acosh", "atanh", "tan", "cosh", "sinh"]:
        yield name + "_complex", getattr(lax, name), [random((4,), 3, .2, .9, np.complex128)], BOTH
    yield "abs_at_0", lambda x: jnp.abs(x), [np.array([0.0, 1.0, -1.0])], BOTH
    yield "abs_complex_at_0", lambda x: jnp.abs(x), [np.array([0.0, 1.0, -1.0j])], BOTH
    # Where a formula chooses between two, the slope of the other is infinite: it must not become NaN.
    yield "erf_inv_ends", lax.erf_inv, [np.array([0.0, 1.0, -1.0, 0.5])], BOTH
    yield "erf_inv_ends_f32", lax.erf_inv, [np.array([0.0, 1.0, -1.0, 0.5], np.float32)], BOTH
    yield "erfc_at_0", lax.erfc, [np.array([0.0, 1.0, 3.0], np.float32)], BOTH
    yield "bessel_i1e_at_0", lax.bessel_i1e, [np.array([0.0, -0.5, 8.0, 20.0])], BOTH
    yield "lgamma_whole", lax.lgamma, [np.array([1.0, 2.0, 20.0, -0.5])], BOTH
    yield "digamma_whole", lax.digamma, [np.array([1.0, 2.0, 20.0, -0.5])], BOTH
    yield "integer_pow", lambda x: x**3 + x**-2, [random((4,), 4, .5, 2)], BOTH
    yield "convert", lambda x: (x.astype(jnp.float32) * 2).astype(jnp.float64), [random((4,), 5)], BOTH
    yield "convert_complex", lambda x: x.astype(jnp.complex128) * (1 + 2j), [random((4,), 5)], BOTH
    yield "reduce_precision", lambda x: lax.reduce_precision(x, 8, 7) * 1.0, [np.array([0.5, 0.25, 2.0])], BOTH


def binary():
    x, y = random((3, 4), 1, .2, 2), random((3, 4), 2, .2, 2)
    for name in ["add", "sub", "mul", "div", "max", "min", "pow", "atan2", "rem", "nextafter"][:9]:
        yield name, getattr(lax, name), [x, y], BOTH
        if name not in ("max", "min", "atan2", "rem"):
            yield name + "_complex", getattr(lax, name), [random((4,), 3, .2, 1, np.complex128), random((4,), 4, .2, 1, np.complex128)], BOTH
    tied = np.array([1.0, 2.0, 3.0])
    yield "max_tie", jnp.maximum, [tied, np.array([1.0, 1.0, 4.0])], BOTH
    yield "min_tie", jnp.minimum, [tied, np.array([1.0, 1.0, 4.0])], BOTH
    yield "relu", jax.nn.relu, [np.array([-1.0, 0.5, 2.0])], BOTH
    yield "gelu", jax.nn.gelu, [random((5,), 4)], BOTH
    yield "silu", jax.nn.silu, [random((5,), 4)], BOTH
    yield "pow_scalar", lambda a: a**2.5, [x], BOTH
    yield "pow_base_0", lambda a, b: jnp.power(a, b), [np.array([0.0, 0.0, 1.0]), np.array([2.0, 3.0, 0.0])], BOTH
    yield "pow_integers", lambda a, n: lax.pow(a, n), [np.array([0.0, 0.0, 2.0, 3.0]), np.array([0, 1, 3, 0])], BOTH
    yield "clamp", lambda a: jnp.clip(a, .5, 1.5), [x], BOTH
    yield "clamp_bounds", lambda l, a, h: lax.clamp(jnp.broadcast_to(l, a.shape), a, jnp.broadcast_to(h, a.shape)), [np.array(.5), x, np.array(1.5)], BOTH
    yield "clamp_arrays", lax.clamp, [random((3, 4), 8, .2, .8), x, random((3, 4), 9, 1, 2)], BOTH
    yield "select", lambda a, b: jnp.where(a > b, a * b, jnp.sin(b)), [x, y], BOTH
    yield "complex", lax.complex, [x, y], BOTH
    yield "shared", lambda a: a * jnp.sin(a) + a, [x], BOTH
    yield "no_dependence", lambda a, b: jnp.sum(a), [x, y], BOTH
    yield "integers", lambda a, n: a * n, [x, np.arange(12).reshape(3, 4)], BOTH
    yield "logaddexp", jnp.logaddexp, [x, y], BOTH


def movement():
    x, v = random((3, 4, 5), 1), random((6, 4), 2)
    yield "broadcast", lambda a: jnp.broadcast_to(a[:, None], (3, 2, 4, 5)), [x], BOTH
    yield "broadcast_in_dim", lambda a: lax.broadcast_in_dim(a, (2, 6, 3, 4), (1, 3)), [v], BOTH
    yield "add_bias", lambda a, b: a + b, [v, random((4,), 3)], BOTH
    yield "reshape", lambda a: a.reshape(4, 15) * 2, [x], BOTH
    yield "transpose", lambda a: a.transpose(2, 0, 1), [x], BOTH
    yield "reverse", lambda a: a[::-1, :, ::-1], [x], BOTH
    yield "slice", lambda a: a[1:3, ::2, 1:5:3], [x], BOTH
    yield "slice_empty", lambda a: a[1:1], [x], BOTH
    yield "pad", lambda a: lax.pad(a, 0.5, [(1, 2, 0), (0, 1, 2)]), [v], BOTH
    yield "pad_negative", lambda a: lax.pad(a, 0.5, [(-1, 2, 1), (3, -2, 2)]), [v], BOTH
    yield "pad_value", lambda a, p: lax.pad(a, p, [(-1, 2, 1), (3, -2, 2)]), [v, np.array(2.0)], BOTH
    yield "concatenate", lambda a, b: jnp.concatenate([a, b * 2, a], axis=0), [v, random((2, 4), 3)], BOTH
    yield "dynamic_slice", lambda a, i: lax.dynamic_slice(a, (i, 1), (2, 3)), [v, np.array(3)], BOTH
    yield "dynamic_slice_clamped", lambda a, i: lax.dynamic_slice(a, (i, 1), (2, 3)), [v, np.array(30)], BOTH
    yield "dynamic_update_slice", lambda a, b, i: lax.dynamic_update_slice(a, b, (i, 1)), [v, random((2, 3), 3), np.array(3)], BOTH
    yield "stack", lambda a, b: jnp.stack([a, b, a * b]), [v, random((6, 4), 3)], BOTH
    yield "tile", lambda a: jnp.tile(a, (2, 3)), [v], BOTH
    yield "roll", lambda a: jnp.roll(a, 2, axis=0), [v], BOTH
    yield "diagonal", lambda a: jnp.diagonal(a) * 2, [random((4, 4), 3)], BOTH
    yield "triu", jnp.triu, [random((4, 4), 3)], BOTH
    yield "barrier", lambda a, b: lax.optimization_barrier((a, b))[0] * a, [v, v], BOTH


def reductions():
    x = random((3, 4, 5), 1, .3, 2)
    for name in ["sum", "prod", "max", "min", "mean", "var", "std"]:
        yield "reduce_" + name, lambda a, f=getattr(jnp, name): f(a, axis=(0, 2)), [x], BOTH
        yield "reduce_all_" + name, lambda a, f=getattr(jnp, name): f(a), [x], BOTH
    yield "prod_with_zeros", lambda a: jnp.prod(a, axis=1), [np.array([[0.0, 1, 2], [0, 0, 3], [4, 5, 6]])], BOTH
    yield "max_tied", lambda a: jnp.max(a, axis=1), [np.array([[1.0, 1, 0], [2, 3, 3]])], BOTH
    yield "logsumexp", lambda a: jax.nn.logsumexp(a, axis=1), [x], BOTH
    yield "softmax", lambda a: jax.nn.softmax(a, axis=1), [x], BOTH
    yield "norm", jnp.linalg.norm, [x[0]], BOTH
    yield "argmax_aside", lambda a: (jnp.max(a * a), jnp.argmax(a)), [x], BOTH
    for name in ["cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"]:
        yield name, lambda a, f=getattr(lax, name): f(a, axis=1), [x], BOTH
        yield name + "_reverse", lambda a, f=getattr(lax, name): f(a, axis=1, reverse=True), [x], BOTH
    w = random((2, 8, 9, 3), 2)
    for padding in ["SAME", "VALID"]:
        yield "max_pool_" + padding, lambda a, p=padding: lax.reduce_window(a, -np.inf, lax.max, (1, 3, 2, 1), (1, 2, 2, 1), p), [w], BOTH
        yield "min_pool_" + padding, lambda a, p=padding: lax.reduce_window(a, np.inf, lax.min, (1, 3, 2, 1), (1, 2, 2, 1), p), [w], BOTH
        yield "sum_pool_" + padding, lambda a, p=padding: lax.reduce_window(a, 0.0, lax.add, (1, 3, 2, 1), (1, 2, 2, 1), p), [w], BOTH
    yield "sum_pool_dilated", lambda a: lax.reduce_window(a, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 1, 1), ((0, 0), (1, 2), (2, 0), (0, 0)),
                                                           (1, 2, 1, 1), (1, 2, 3, 1)), [w], BOTH
    yield "max_pool_twice", jax.grad(lambda a: jnp.sum(jnp.sin(lax.reduce_window(a, -np.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")))), [w], BOTH


def products():
    yield "matmul", jnp.matmul, [random((3, 4), 1), random((4, 5), 2)], BOTH
    yield "matmul_f32", jnp.matmul, [random((3, 4), 1, dtype=np.float32), random((4, 5), 2, dtype=np.float32)], BOTH
    yield "matvec", jnp.matmul, [random((3, 4), 1), random((4,), 2)], BOTH
    yield "outer", jnp.outer, [random((3,), 1), random((4,), 2)], BOTH
    yield "inner", jnp.dot, [random((4,), 1), random((4,), 2)], BOTH
    yield "batched", lambda a, b: jnp.einsum("bij,bkj->bik", a, b), [random((2, 3, 4), 1), random((2, 5, 4), 2)], BOTH
    yield "dot_general", lambda a, b: lax.dot_general(a, b, (((3, 1), (0, 2)), ((2,), (3,)))), [random((2, 3, 4, 5), 1), random((5, 6, 3, 4), 2)], BOTH
    yield "dot_complex", jnp.matmul, [random((3, 4), 1, dtype=np.complex128), random((4, 5), 2, dtype=np.complex128)], BOTH
    yield "dot_square", lambda a: a @ a, [random((4, 4), 1)], BOTH
    yield "attention", attention, [random((2, 5, 3, 4), 1), random((2, 5, 3, 4), 2), random((2, 5, 3, 4), 3)], BOTH
    yield "mlp", mlp, [random((4, 8), 1), random((8, 6), 2), random((6,), 3), random((6, 5), 4), random((5,), 5)], BOTH
    yield "mlp_f32", mlp, [random(s, i, dtype=np.float32) for i, s in enumerate([(4, 8), (8, 6), (6,), (6, 5), (5,)])], BOTH
    numbers = [("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW")]
    for i, (strides, padding, lhs, rhs, groups) in enumerate([((1, 1), "SAME", None, None, 1), ((2, 3), "VALID", None, None, 1), ((2, 1), [(1, 2), (3, 0)], None, (2, 3), 1),
                                                              ((1, 1), [(2, 1), (0, 3)], (2, 3), None, 1), ((1, 2), [(1, 1), (2, 1)], (2, 1), (1, 2), 2),
                                                              ((1, 1), [(-1, 2), (1, -1)], None, None, 4)]):
        def convolve(a, k, strides=strides, padding=padding, lhs=lhs, rhs=rhs, groups=groups):
            return lax.conv_general_dilated(a, k, strides, padding, lhs, rhs, ("NHWC", "HWIO", "NHWC"), feature_group_count=groups)
        yield f"convolution_{i}", convolve, [random((2, 9, 8, 4), 1), random((3, 2, 4 // groups, 8), 2)], BOTH
    yield "convolution_nchw", lambda a, k: lax.conv_general_dilated(a, k, (1, 2), "SAME", dimension_numbers=numbers[1]), [random((2, 3, 7, 6), 1), random((4, 3, 3, 3), 2)], BOTH
    yield "convolution_batch_groups", lambda a, k: lax.conv_general_dilated(a, k, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC"), batch_group_count=2), \
        [random((4, 7, 3), 1), random((3, 3, 6), 2)], BOTH
    yield "convolution_transpose", lambda a, k: lax.conv_transpose(a, k, (2, 2), "SAME"), [random((2, 4, 5, 3), 1), random((3, 3, 3, 4), 2)], BOTH
    for name in ["fft", "ifft", "fft2"]:
        yield name, getattr(jnp.fft, name), [random((3, 6), 1, dtype=np.complex128)], BOTH
    for n in (6, 7):
        yield f"rfft_{n}", jnp.fft.rfft, [random((3, n), 1)], BOTH
        yield f"irfft_{n}", lambda a, n=n: jnp.fft.irfft(a, n), [random((3, n // 2 + 1), 1, dtype=np.complex128)], BOTH
    yield "rfft2", jnp.fft.rfft2, [random((5, 6), 1)], BOTH
    yield "irfft2", jnp.fft.irfft2, [random((5, 4), 1, dtype=np.complex128)], BOTH


def attention(q, k, v):
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
    mask = np.tril(np.ones((q.shape[1], q.shape[1]), bool))
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(jnp.where(mask, scores, -1e30), axis=-1), v)


def mlp(x, w1, b1, w2, b2):
    hidden = jnp.tanh(x @ w1 + b1)
    logits = hidden @ w2 + b2
    return -jnp.mean(jax.nn.log_softmax(logits)[:, 2])


def indexed():
    x, v = random((6, 5), 1), random((7,), 2)
    rows = np.array([1, 3, 3, 0])
    yield "take", lambda a, i: a[i], [x, rows], BOTH
    yield "take_columns", lambda a, i: a[:, i], [x, rows], BOTH
    yield "take_clip", lambda a, i: jnp.take(a, i, axis=0, mode="clip"), [x, np.array([0, 9, -3])], BOTH
    yield "take_fill", lambda a, i: jnp.take(a, i, axis=0, mode="fill", fill_value=0.0), [x, np.array([0, 9, 3])], BOTH
    yield "take_along_axis", lambda a, i: jnp.take_along_axis(a, i, axis=1), [x, np.array([[0, 4], [1, 1], [2, 0], [3, 3], [4, 4], [0, 1]])], BOTH
    yield "embedding", lambda a, i: jnp.tanh(a[i]).sum(1), [x, np.array([[1, 2, 3], [0, 0, 5]])], BOTH
    yield "scatter_add", lambda a, u, i: a.at[i].add(u), [x, random((4, 5), 3), rows], BOTH
    yield "scatter_add_out", lambda a, u, i: a.at[i].add(u), [x, random((4, 5), 3), np.array([0, 7, 5, 100])], BOTH
    yield "scatter_set", lambda a, u, i: a.at[i].set(u), [x, random((4, 5), 3), rows], BOTH
    yield "scatter_set_unique", lambda a, u, i: a.at[i].set(u, unique_indices=True), [x, random((3, 5), 3), np.array([1, 0, 4])], BOTH
    yield "scatter_element", lambda a: a.at[2, 3].set(7.0) * a, [x], BOTH
    yield "sort", lambda a: jnp.sort(a, axis=0), [x], BOTH
    yield "sort_columns", lambda a: jnp.sort(a, axis=1)[:, ::-1], [x], BOTH
    yield "sort_pair", lambda a, b: lax.sort((a, b), dimension=1, num_keys=1), [x, random((6, 5), 4)], BOTH
    yield "sort_key_index", lambda a: a[jnp.argsort(a)] * jnp.arange(7), [v], BOTH
    yield "median", jnp.median, [v], BOTH
    yield "top_k", lambda a: lax.top_k(a, 2)[0], [x], BOTH
    yield "segment_sum", lambda a, i: jax.ops.segment_sum(a, i, 3), [x, np.array([0, 1, 0, 2, 2, 1])], BOTH
    yield "one_hot", lambda a: a @ jax.nn.one_hot(np.array([1, 2]), 5).T, [x], BOTH
    yield "cross_entropy", lambda a, i: -jnp.take_along_axis(jax.nn.log_softmax(a), i[:, None], 1).mean(), [x, np.array([0, 1, 2, 3, 4, 0])], BOTH


def control():
    x, w = random((4,), 1), random((4, 4), 2)
    yield "scan", lambda a, b: lax.scan(lambda c, y: (jnp.tanh(b @ c + y), jnp.sum(c)), a, random((6, 4), 3)), [x, w], BOTH
    yield "scan_inputs", lambda a, ys: lax.scan(lambda c, y: (jnp.sin(c * y), c * c), a, ys), [x, random((6, 4), 3)], BOTH
    yield "scan_reverse", lambda a, ys: lax.scan(lambda c, y: (jnp.sin(c * y), c * c), a, ys, reverse=True), [x, random((6, 4), 3)], BOTH
    yield "scan_of_scan", lambda a, ys: lax.scan(lambda c, y: lax.scan(lambda d, z: (jnp.sin(d * z), d), c, jnp.stack([y, 2 * y])), a, ys), [x, random((3, 4), 3)], BOTH
    yield "scan_zero", lambda a: lax.scan(lambda c, _: (jnp.sin(c), None), a, None, length=0)[0] * 2, [x], BOTH
    yield "fori", lambda a: lax.fori_loop(0, 5, lambda i, c: jnp.sin(c) * (i + 1.0), a), [x], BOTH
    yield "fori_from_2", lambda a: lax.fori_loop(2, 5, lambda i, c: c.at[i - 1].multiply(2.0) if False else c * i, a), [x], BOTH
    yield "while", lambda a: lax.while_loop(lambda c: jnp.sum(c) < 100, lambda c: c * 1.5 + 1, a), [x], ("forward", "vmap")
    yield "cond", lambda a, p: lax.cond(p, lambda c: jnp.sin(c) * c, lambda c: c * 2, a), [x, np.array(True)], BOTH
    yield "cond_false", lambda a, p: lax.cond(p, lambda c: jnp.sin(c) * c, lambda c: c * 2, a), [x, np.array(False)], BOTH
    yield "cond_two", lambda a, b, p: lax.cond(p, lambda c, d: (jnp.sin(c), 2 * d), lambda c, d: (d * 2, c * d), a, b), [x, x * 2, np.array(True)], BOTH
    yield "switch", lambda a, i: lax.switch(i, [jnp.sin, jnp.cos, lambda c: c**3], a), [x, np.array(2)], BOTH
    yield "switch_in_scan", lambda a: lax.scan(lambda c, i: (lax.switch(i % 2, [jnp.sin, lambda z: z * z], c), c), a, np.arange(4)), [x], BOTH
    yield "call", lambda a: jax.jit(lambda b: jnp.sin(b) * b)(a) + jax.jit(lambda b: jnp.sin(b) * b)(2 * a), [x], BOTH
    yield "checkpoint", lambda a, b: jax.checkpoint(lambda c: jnp.sin(b @ jnp.sin(c)))(a), [x, w], BOTH
    yield "hessian_vector", lambda a: jax.jvp(jax.grad(lambda c: jnp.sum(jnp.sin(c) ** 3)), (a,), (a,))[1], [x], BOTH
    yield "hessian", lambda a: jax.hessian(lambda c: jnp.sum(jnp.sin(w @ c) ** 3))(a), [x], BOTH
    yield "grad_of_scan", jax.grad(lambda a: jnp.sum(lax.scan(lambda c, y: (jnp.sin(c * y), c * c), a, random((6, 4), 3))[1])), [x], BOTH
    yield "stop_gradient_none", lambda a: jnp.sum(a) * jnp.where(jnp.isfinite(a), a, 0), [x], BOTH


def algebra():
    a = random((4, 4), 1)
    positive = a @ a.T + 4 * np.eye(4)
    b = random((4, 2), 2)
    yield "triangular_solve", lambda m, r: jax.scipy.linalg.solve_triangular(m, r, lower=True), [np.tril(a) + 3 * np.eye(4), b], BOTH
    yield "triangular_solve_upper_t", lambda m, r: jax.scipy.linalg.solve_triangular(m, r, trans="T"), [np.triu(a) + 3 * np.eye(4), b], BOTH
    yield "triangular_solve_unit", lambda m, r: jax.scipy.linalg.solve_triangular(m, r, lower=True, unit_diagonal=True), [a, b], BOTH
    yield "triangular_solve_complex", lambda m, r: lax.linalg.triangular_solve(m, r, left_side=True, lower=True, transpose_a=True, conjugate_a=True), \
        [np.tril(random((4, 4), 1, dtype=np.complex128)) + 3 * np.eye(4), random((4, 2), 2, dtype=np.complex128)], BOTH
    yield "cholesky", jnp.linalg.cholesky, [positive], BOTH
    yield "cho_solve", lambda m, r: jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(m, lower=True), r), [positive, b], BOTH
    yield "eigh_values", jnp.linalg.eigvalsh, [positive], BOTH
    yield "eigh", lambda m: (lambda w, v: (w, jnp.abs(v)))(*jnp.linalg.eigh(m)), [positive], BOTH
    tall, wide, complex_matrix = random((5, 3), 6), random((3, 5), 7), random((4, 4), 8, dtype=np.complex128)
    for name, m in ("square", a), ("tall", tall), ("wide", wide), ("complex", complex_matrix), ("batch", random((2, 3, 3), 9)):
        yield "lu_" + name, lambda m: lax.linalg.lu(m)[0], [m], BOTH
    for name, m in ("square", a), ("batch", random((2, 3, 3), 9)):
        yield "det_" + name, jnp.linalg.det, [m], BOTH
        yield "inv_" + name, jnp.linalg.inv, [m], BOTH
    yield "slogdet", lambda m: jnp.linalg.slogdet(m)[1], [a], BOTH
    yield "solve", jnp.linalg.solve, [a, b], BOTH
    yield "solve_complex", jnp.linalg.solve, [complex_matrix, random((4, 2), 2, dtype=np.complex128)], BOTH
    for name, m in ("square", a), ("tall", tall), ("wide", wide), ("batch", random((2, 4, 3), 9)):
        yield "singular_values_" + name, lambda m: jnp.linalg.svd(m, compute_uv=False), [m], BOTH
        yield "svd_" + name, lambda m: tuple(jnp.abs(x) for x in jnp.linalg.svd(m, full_matrices=False)), [m], BOTH
    yield "svd_complex", lambda m: tuple(jnp.abs(x) for x in jnp.linalg.svd(m, full_matrices=False)), [complex_matrix], BOTH
    yield "pinv", jnp.linalg.pinv, [tall], BOTH
    yield "nuclear_norm", lambda m: jnp.linalg.norm(m, ord="nuc"), [wide], BOTH
    h = random((3, 3), 5, dtype=np.complex128)
    yield "eigh_complex", lambda m: (lambda w, v: (w, jnp.abs(v)))(*jnp.linalg.eigh(m)), [h + h.conj().T], BOTH


def all_functions():
    for group in (unary, binary, movement, reductions, products, indexed, control, algebra):
        for name, *rest in group():
            yield (f"{group.__name__}.{name}", *rest)
