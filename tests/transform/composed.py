# SPDX-License-Identifier: Apache-2.0
"""Functions of several kinds at once for compare_with_jax.py: nested transforms, models, solvers, and devices."""
import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec as P

from functions import BOTH, random
from library import FORWARD, NO_VMAP
from sharded import REVERSE, over


@jax.custom_vjp
def clipped(v):
    return v


clipped.defvjp(lambda v: (v, None), lambda _, t: (jnp.clip(t, -.1, .1),))


def functions():
    x, w, rows, g = random((4,), 1), random((4, 4), 2, -.5, .5), random((3, 4), 3), jax.grad
    def f(b, a):
        return jnp.sum(jnp.tanh(b @ jnp.sin(b @ a)))
    yield "jvp_of_vjp", lambda b, a: jax.jvp(lambda q: jax.vjp(lambda p: jnp.tanh(b @ p), q)[1](jnp.cos(q))[0], (a,), (a * a,)), [w, x], BOTH
    yield "hess_scan", lambda b, a: jax.hessian(lambda q: jnp.sum(lax.scan(lambda c, _: (jnp.tanh(b @ c), c.sum()), q, None, length=4)[0] ** 2))(a), [w, x], BOTH
    yield "grad_checkpoint_scan", lambda b, a: g(lambda q: jnp.sum(lax.scan(jax.checkpoint(lambda c, _: (jnp.tanh(q @ c), None)), a, None, length=4)[0]))(b), [w, x], BOTH
    yield "vmap_grad_scan", lambda b, r: jax.vmap(g(lambda a: jnp.sum(lax.scan(lambda c, _: (jnp.tanh(b @ c), c.sum()), a, None, length=3)[1])))(r), [w, rows], BOTH
    yield "vmap_cond_data", lambda b, r: jax.vmap(lambda a: lax.cond(a[0] > 0, lambda c: jnp.sin(b @ c), lambda c: c * 2, a))(r), [w, rows], BOTH
    yield "vmap_while", lambda b, r: jax.vmap(lambda a: lax.while_loop(lambda c: jnp.sum(c * c) < 9, lambda c: c * 1.3 + b[0], a))(r), [w, rows], FORWARD
    yield "hessian_det", lambda a: jnp.sin(jax.hessian(jnp.linalg.det)(a)), [random((4, 4), 9) + 3 * np.eye(4)], ("reverse",)
    yield "expm_thrice", lambda a: jnp.cos(g(lambda q: jnp.sum(jnp.sin(g(lambda p: jnp.sum(jsp.linalg.expm(p * .3) ** 2))(q))))(a)), [random((3, 3), 8)], ("reverse",)
    yield "vmap_hessian_cholesky", lambda b, r: jax.vmap(jax.hessian(lambda a: jnp.sum(jnp.log(jnp.diagonal(jnp.linalg.cholesky(b @ b.T + jnp.diag(a * a) + 2 * jnp.eye(4)))))))(r), [w, rows], BOTH
    yield "jacrev_jacfwd", lambda b, a: jax.jacrev(jax.jacfwd(lambda q: jnp.tanh(b @ q)))(a), [w, x], BOTH
    yield "hvp_fwdrev", lambda b, a: jax.jvp(g(lambda q: f(b, q)), (a,), (x,))[1], [w, x], BOTH
    yield "hvp_revfwd", lambda b, a: g(lambda q: jax.jvp(lambda p: f(b, p), (q,), (x,))[1])(a), [w, x], BOTH
    yield "per_example_clip", lambda b, r: (lambda G: (G * jnp.minimum(1, 0.5 / jnp.sqrt((G ** 2).sum((1, 2), keepdims=True) + 1e-09))).mean(0))(jax.vmap(g(f), (None, 0))(b, r)), [w, rows], BOTH
    yield "vmap_spmd", lambda b, r: jax.vmap(lambda a: jnp.tanh(b @ a), spmd_axis_name='i')(r), [w, rows], BOTH
    yield "vmap_psum_grad", lambda b, r: jax.vmap(g(lambda a: jnp.sum(jnp.tanh(b @ a) * lax.psum(a * a, 'i'))), axis_name='i')(r), [w, rows], BOTH
    yield "vmap_gather", lambda b, r: jax.vmap(lambda a: lax.all_gather(a, 'i').sum(0) * a, axis_name='i')(r), [w, rows], BOTH
    yield "vmap_ppermute", lambda b, r: jax.vmap(lambda a: lax.ppermute(a * a, 'i', [(0, 1), (1, 2), (2, 0)]) @ b, axis_name='i')(r), [w, rows], BOTH
    yield "vmap_all_to_all", lambda r: jax.vmap(lambda a: lax.all_to_all(a * a, 'i', 0, 0), axis_name='i')(r), [rows[:, :3]], BOTH
    yield "vmap_psum_scatter", lambda r: jax.vmap(lambda a: lax.psum_scatter(jnp.sin(a), 'i'), axis_name='i')(r), [rows[:, :3]], BOTH
    yield "vmap_pmax", lambda r: jax.vmap(lambda a: a * lax.pmax(a, 'i'), axis_name='i')(r), [rows], ('vmap',)
    yield "grad_custom_vjp_inside", lambda b, a: g(lambda q: jnp.sum(jnp.tanh(b @ clipped(q)) ** 2))(a), [w, x], BOTH
    yield "einsum_ellipsis", lambda a, b: jnp.einsum('...ij,kjl->...ikl', a, b), [random((2, 3, 4), 1), random((5, 4, 6), 2)], BOTH
    yield "einsum_diag_batch", lambda a, b: jnp.einsum('bii,bi->b', a, b), [random((3, 4, 4), 1), random((3, 4), 2)], BOTH
    yield "tucker", lambda c, a, b: jnp.einsum('ijk,ai,bj->abk', c, a, b), [random((2, 3, 2), 1), random((4, 2), 2), random((5, 3), 3)], BOTH
    yield "moe_capacity", lambda t, r, e: (lambda p, i: (lambda pos: (lambda disp: jnp.einsum('tec,ecd->td', disp * p.max(-1)[:, None, None], jnp.einsum('ecd,edf->ecf', jnp.einsum('tec,td->ecd', disp, t), e)))(jax.nn.one_hot(i, 3)[:, :, None] * jax.nn.one_hot(pos, 4)[:, None, :]))((jnp.cumsum(jax.nn.one_hot(i, 3, dtype=int), 0) * jax.nn.one_hot(i, 3, dtype=int)).sum(-1) - 1))(jax.nn.softmax(t @ r), jnp.argmax(t @ r, -1)), [random((8, 4), 1), random((4, 3), 2), random((3, 4, 4), 3)], BOTH
    yield "flash_like", lambda q, k, v: (lambda s: s[0] / s[1][:, None])(lax.fori_loop(0, 3, lambda i, s: (lambda l: (lambda m: (s[0] * jnp.exp(s[2] - m)[:, None] + jnp.exp(l - m[:, None]) @ lax.dynamic_slice_in_dim(v, i * 2, 2), s[1] * jnp.exp(s[2] - m) + jnp.exp(l - m[:, None]).sum(-1), m))(jnp.maximum(s[2], l.max(-1))))(q @ lax.dynamic_slice_in_dim(k, i * 2, 2).T), (jnp.zeros((6, 4)), jnp.zeros(6), jnp.full(6, -10.0)))), [random((6, 4), 1), random((6, 4), 2), random((6, 4), 3)], BOTH
    yield "linear_attention", lambda q, k, v: lax.scan(lambda S, t: (S + jnp.outer(t[1], t[2]), t[0] @ (S + jnp.outer(t[1], t[2]))), jnp.zeros((4, 3)), (jax.nn.elu(q) + 1, jax.nn.elu(k) + 1, v))[1], [random((6, 4), 1), random((6, 4), 2), random((6, 3), 3)], BOTH
    yield "s4_fft", lambda k, u: jnp.fft.irfft(jnp.fft.rfft(k, 16) * jnp.fft.rfft(u, 16), 16)[:, :8], [random((8,), 1), random((3, 8), 2)], BOTH
    yield "fno", lambda a, k: jax.nn.gelu(jnp.fft.irfft(jnp.einsum('ki,kio->ko', jnp.fft.rfft(a, axis=0), k), 8, axis=0)) + a, [random((8, 3), 1), random((5, 3, 3), 2, dtype=np.complex128)], NO_VMAP
    yield "complex_rnn", lambda a, u: lax.scan(lambda h, t: (h * jnp.exp(1j * a) + t, jnp.abs(h + 1)), jnp.zeros(3, complex), u)[1], [random((3,), 1, dtype=np.complex128), random((5, 3), 2, dtype=np.complex128)], BOTH
    yield "unet", lambda a, k, l: (lambda cv: (lambda d: cv(jnp.concatenate([a, jax.image.resize(d, (1, 8, 8, 4), 'nearest')], -1), l))(lax.reduce_window(jax.nn.relu(cv(a, k)), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), 'VALID')))(lambda p, q: lax.conv_general_dilated(p, q, (1, 1), 'SAME', dimension_numbers=('NHWC', 'HWIO', 'NHWC'))), [random((1, 8, 8, 2), 1), random((3, 3, 2, 4), 2), random((3, 3, 6, 2), 3)], BOTH
    yield "gan_gp", lambda b, v, r: jnp.mean((jnp.linalg.norm(jax.vmap(g(lambda a: v @ jnp.tanh(b @ a)))(r), axis=1) - 1) ** 2), [random((4, 4), 1), random((4,), 2), random((3, 4), 3)], BOTH
    yield "kalman", lambda A, y, H: lax.scan(lambda s, z: (lambda m, Pm: (lambda K: ((m + K @ (z - H @ m), Pm - K @ H @ Pm), z - H @ m))(jnp.linalg.solve(H @ Pm @ H.T + np.eye(2), H @ Pm).T))(A @ s[0], A @ s[1] @ A.T + np.eye(3)), (jnp.zeros(3), jnp.eye(3)), y)[1], [random((3, 3), 1, -0.4, 0.4), random((5, 2), 2), random((2, 3), 3)], BOTH
    yield "hmm", lambda T, e: lax.scan(lambda a, l: (jax.nn.logsumexp(a[:, None] + jax.nn.log_softmax(T), 0) + l, None), jnp.zeros(4), e)[0], [random((4, 4), 1), random((6, 4), 2)], BOTH
    yield "crf_viterbi", lambda T, e: lax.scan(lambda a, l: (jnp.max(a[:, None] + T, 0) + l, jnp.argmax(a[:, None] + T, 0)), jnp.zeros(4), e)[0], [random((4, 4), 1), random((6, 4), 2)], NO_VMAP
    yield "gat", lambda n, W, a: (lambda h, s, d: (lambda l: (lambda p: jax.ops.segment_sum(p[:, None] * h[s], d, 5))(jnp.exp(l - jax.ops.segment_max(l, d, 5)[d]) / (jax.ops.segment_sum(jnp.exp(l - jax.ops.segment_max(l, d, 5)[d]), d, 5)[d] + 1e-09)))(jax.nn.leaky_relu(jnp.concatenate([h[s], h[d]], -1) @ a)))(n @ W, np.array([0, 1, 2, 3, 4, 0, 2]), np.array([1, 2, 3, 4, 0, 2, 2])), [random((5, 3), 1), random((3, 3), 2), random((6,), 3)], BOTH
    yield "sinkhorn", lambda c: lax.fori_loop(0, 5, lambda i, l: l - jax.nn.logsumexp(l, 0, keepdims=True) - jax.nn.logsumexp(l - jax.nn.logsumexp(l, 0, keepdims=True), 1, keepdims=True), c), [random((4, 4), 1)], BOTH
    yield "newton", lambda b, a: lax.fori_loop(0, 3, lambda i, q: q - jnp.linalg.solve(jax.hessian(lambda p: f(b, p) + jnp.sum(p ** 2))(q), g(lambda p: f(b, p) + jnp.sum(p ** 2))(q)), a), [w, x], BOTH
    yield "adam_unrolled", lambda b, a: lax.scan(lambda s, _: (lambda G, m, v: ((s[0] - 0.1 * m / (jnp.sqrt(v) + 0.001), m, v), f(s[0], a)))(g(f)(s[0], a), 0.9 * s[1] + 0.1 * g(f)(s[0], a), 0.9 * s[2] + 0.1 * g(f)(s[0], a) ** 2), (b, jnp.zeros_like(b), jnp.zeros_like(b)), None, length=3)[1], [w, x], BOTH
    yield "lagrangian", lambda q, v: (lambda Lg: jnp.linalg.solve(jax.hessian(Lg, 1)(q, v), g(Lg, 0)(q, v) - jax.jacfwd(g(Lg, 1), 0)(q, v) @ v))(lambda q, v: 0.5 * jnp.sum(v * v * (2 + jnp.cos(q))) + 0.1 * v[0] * v[1] - jnp.sum(jnp.sin(q))), [x, x[::-1].copy()], BOTH
    yield "pinn", lambda t, W, V: jnp.mean((jax.vmap(g(g(lambda s: V @ jnp.tanh(W * s))))(t) + jax.vmap(lambda s: V @ jnp.tanh(W * s))(t)) ** 2), [random((5,), 1), random((8,), 2), random((8,), 3)], BOTH
    yield "score_matching", lambda b, r: jnp.mean(jax.vmap(lambda a: 0.5 * jnp.sum(jnp.tanh(b @ a) ** 2) + jnp.trace(jax.jacfwd(lambda q: jnp.tanh(b @ q))(a)))(r)), [w, rows], BOTH
    yield "realnvp", lambda r, W: (lambda s: jnp.concatenate([r[:, :2], r[:, 2:] * jnp.exp(s[:, :2]) + s[:, 2:]], -1).sum() + s[:, :2].sum())(jnp.tanh(r[:, :2] @ W)), [random((3, 4), 1), random((2, 4), 2)], BOTH
    yield "lstm_bidir", lambda u, W: (lambda run: jnp.concatenate([run(u, False), run(u, True)], -1))(lambda s, rev: lax.scan(lambda c, t: (lambda z: (lambda i, fo, o, gg: ((jax.nn.sigmoid(o) * jnp.tanh(jax.nn.sigmoid(fo) * c[1] + jax.nn.sigmoid(i) * jnp.tanh(gg)), jax.nn.sigmoid(fo) * c[1] + jax.nn.sigmoid(i) * jnp.tanh(gg)), c[0]))(*jnp.split(z, 4)))(jnp.concatenate([c[0], t]) @ W), (jnp.zeros(3), jnp.zeros(3)), s, reverse=rev)[1]), [random((5, 3), 1), random((6, 12), 2, -0.4, 0.4)], BOTH
    yield "scan_of_cond_of_scan", lambda a, ys: lax.scan(lambda c, y: (lax.cond(y[0] > 0, lambda d: lax.scan(lambda e, _: (jnp.sin(e * y), None), d, None, length=2)[0], lambda d: d * y, c), c.sum()), a, ys), [x, random((4, 4), 3)], BOTH
    yield "while_in_scan_fixed", lambda a: lax.scan(lambda c, _: (lax.fori_loop(0, 3, lambda i, d: jnp.sin(d) * (i + 1.0), c), None), a, None, length=2)[0], [x], BOTH
    yield "scan_multi_types", lambda a, ys: lax.scan(lambda c, y: ((jnp.sin(c[0] * np.float32(0.5)) + y.astype(jnp.float32), c[1] + 1), (c[0], c[1])), (a, 0), ys), [np.float32(x), random((5, 4), 2)], NO_VMAP
    yield "scan_unroll", lambda a, ys: lax.scan(lambda c, y: (jnp.sin(c * y), c), a, ys, unroll=3), [x, random((7, 4), 2)], BOTH
    yield "assoc_scan_matrix", lambda m: lax.associative_scan(jnp.matmul, m), [random((6, 3, 3), 1, -0.5, 0.5)], BOTH
    yield "cumsum_reverse_exp", lambda a: jnp.exp(lax.cumsum(a, 1, reverse=True)), [random((3, 5), 1)], BOTH
    yield "scatter_mul", lambda a, u: a.at[np.array([0, 2, 3, 5])].mul(u, unique_indices=True), [random((6, 3), 1), random((4, 3), 2)], BOTH
    yield "scatter_min_rows", lambda a, u: a.at[np.array([0, 2, 2, 5])].min(u), [random((6, 3), 1), random((4, 3), 2)], BOTH
    yield "nd_gather", lambda a, i: a[i[:, 0], :, i[:, 1]], [random((4, 5, 6), 1), np.array([[0, 1], [3, 4], [2, 2]])], BOTH
    yield "batched_gather", lambda a, i: jax.vmap(lambda p, q: p[q])(a, i), [random((3, 5, 2), 1), np.array([[0, 1], [3, 4], [2, 2]])], BOTH
    yield "batched_scatter", lambda a, i, u: jax.vmap(lambda p, q, r: p.at[q].add(r))(a, i, u), [random((3, 5), 1), np.array([[0, 1], [3, 4], [2, 2]]), random((3, 2), 2)], BOTH
    yield "dyn_update_loop", lambda a: lax.fori_loop(0, 5, lambda i, b: b.at[i].set(b[i - 1] * jnp.sin(b[i])), a), [random((5,), 1)], BOTH
    yield "c64_matmul_fft", lambda a: jnp.abs(jnp.fft.fft(a @ a.conj().T)) ** 2, [random((4, 4), 1, dtype=np.complex64)], BOTH
    yield "quaternion", lambda q, v: (lambda n: v + 2 * jnp.cross(n[1:], jnp.cross(n[1:], v) + n[0] * v))(q / jnp.linalg.norm(q)), [random((4,), 1), random((3,), 2)], BOTH
    yield "spline", lambda c, t: (lambda i, u: c[i] * (1 - u) + c[i + 1] * u + u * (1 - u) * (c[i + 1] - c[i]))(jnp.floor(t).astype(int), t - jnp.floor(t)), [random((6,), 1), random((5,), 2, 0.1, 4.9)], BOTH
    yield "map_coordinates", lambda a, c: jsp.ndimage.map_coordinates(a, c, order=1), [random((5, 5), 1), random((2, 7), 2, 0.2, 3.8)], BOTH
    yield "cg", lambda b, a: jsp.sparse.linalg.cg(b @ b.T + np.eye(4), a)[0], [w, x], FORWARD
    yield "lax_map", lambda r, b: lax.map(lambda a: jnp.tanh(b @ a), r), [rows, w], BOTH
    yield "lax_map_batched", lambda r, b: lax.map(lambda a: jnp.tanh(b @ a), r, batch_size=3), [random((7, 4), 3), w], BOTH
    yield "polygamma2", lambda a: jsp.special.polygamma(2, a), [random((4,), 1, 0.5, 3)], BOTH
    yield "digamma_neg", lambda a: jsp.special.digamma(a), [random((4,), 1, -3.6, -3.2)], BOTH
    yield "gammaln_sum", lambda a: jnp.sum(jsp.special.gammaln(a) * a), [random((4,), 1, 0.5, 9)], BOTH
    yield "betainc_f32", lambda a: jsp.special.betainc(np.float32(1.5), np.float32(2.5), a), [np.float32(random((4,), 1, 0.2, 0.8))], NO_VMAP
    yield "igamma_f32", lax.igamma, [np.float32(random((4,), 1, 0.2, 3)), np.float32(random((4,), 2, 0.2, 4))], NO_VMAP
    yield "t_logpdf", lambda a: jsp.stats.t.logpdf(a, 3.5), [random((4,), 1, 0.5, 3)], BOTH
    yield "expn", lambda a: jsp.special.expn(3, a), [random((4,), 1, 0.2, 0.9)], BOTH
    yield "hyp1f1", lambda a: jsp.special.hyp1f1(1.2, 2.3, a), [random((2,), 1, 0.2, 0.9)], FORWARD
    yield "sqrtm_newton", lambda m: lax.fori_loop(0, 6, lambda i, y: 0.5 * (y + jnp.linalg.inv(y) @ (m @ m.T + 2 * np.eye(3))), jnp.eye(3)), [random((3, 3), 1)], BOTH
    yield "schur_free_sylvester", lambda a, b: jnp.linalg.solve(jnp.kron(a + 3 * np.eye(3), np.eye(3)) + jnp.kron(np.eye(3), b.T), np.ones(9)), [random((3, 3), 1), random((3, 3), 2)], BOTH
    yield "svd_rank_loss", lambda m: jnp.sum(jnp.log1p(jnp.linalg.svd(m, compute_uv=False) ** 2)), [random((4, 3), 1)], BOTH
    yield "polar_decomp", lambda m: (lambda u, s, v: u @ v)(*jnp.linalg.svd(m)), [random((3, 3), 1)], BOTH


def devices():
    g, X, W = jax.grad, random((16, 4), 1), random((4, 8), 2)
    ring = jax.make_mesh((8,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    grid = jax.make_mesh((4, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    yield "ring_attention", over(ring, (P('x'),) * 3, P('x'))(lambda q, k, v: (lambda s: s[0] / s[1][:, None])(lax.fori_loop(0, 8, lambda i, s: (lambda p: (s[0] + p @ s[3], s[1] + p.sum(-1), lax.ppermute(s[2], 'x', [(i, (i + 1) % 8) for i in range(8)]), lax.ppermute(s[3], 'x', [(i, (i + 1) % 8) for i in range(8)])))(jnp.exp(q @ s[2].T)), (q * 0, q[:, 0] * 0, k, v)))), [random((16, 4), 1), random((16, 4), 2), random((16, 4), 3)], REVERSE
    yield "moe_all_to_all", over(ring, (P('x'), P('x')), P('x'))(lambda t, e: lax.all_to_all(jnp.tanh(lax.all_to_all(t, 'x', 0, 0, tiled=True) @ e[0]), 'x', 0, 0, tiled=True)), [random((64, 4), 1), random((8, 4, 4), 2)], REVERSE
    yield "pipeline", over(ring, (P('x'), P()), P(), check_vma=False)(lambda Wl, u: lax.psum(lax.fori_loop(0, 8, lambda i, h: lax.ppermute(jnp.tanh(h @ Wl[0]), 'x', [(i, (i + 1) % 8) for i in range(8)]), u) * (lax.axis_index('x') == 0), 'x')), [random((8, 4, 4), 1), random((3, 4), 2)], REVERSE
    yield "shard_remat", over(ring, (P('x'), P()), P('x'))(lambda a, b: jax.checkpoint(lambda c: jnp.tanh(c @ b) @ b.T)(a)), [X, W], REVERSE
    yield "shard_cond", over(ring, (P('x'), P()), P('x'))(lambda a, b: lax.cond(lax.axis_index('x') % 2 == 0, lambda c: jnp.sin(c @ b), lambda c: c @ b * 2, a)), [X, W], REVERSE
    yield "shard_grad_inside", over(ring, (P('x'), P()), P())(lambda a, b: lax.pmean(g(lambda q: jnp.mean(jnp.tanh(a @ q) ** 2))(b), 'x')), [X, W], REVERSE
    yield "vmap_shard", jax.vmap(over(ring, (P('x'),), P('x'))(lambda a: a * lax.psum(jnp.sin(a), 'x'))), [random((3, 16, 4), 1)], ("reverse",)
    yield "vmap_shard_spmd", jax.vmap(over(grid, (P('y'),), P('y'))(lambda a: a * lax.psum(jnp.sin(a), 'y')), spmd_axis_name='x'), [random((8, 4, 4), 1)], ("reverse",)
    yield "two_regions", lambda a, b: over(ring, (P('x'), P()), P('x'))(lambda p, q: jnp.sin(p @ q))(over(ring, (P('x'),), P('x'))(lambda p: p * lax.psum(p, 'x'))(a), b), [X, W], REVERSE


def all_functions():
    for group in (functions, devices):
        for name, *rest in group():
            yield (f"composed.{name}", *rest)
