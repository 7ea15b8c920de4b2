# SPDX-License-Identifier: Apache-2.0
"""The programs of sweep.py: name -> (function, inputs) or (function, inputs, True) for those on a mesh of eight devices."""
import functools

import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

RANDOM = np.random.default_rng(7)
PROGRAMS = {}


def normal(*shape, dtype=np.float32):
    return RANDOM.standard_normal(shape).astype(dtype)


def positive(*shape, dtype=np.float32):
    return (RANDOM.random(shape) + 0.1).astype(dtype)


def whole(low, high, *shape, dtype=np.int32):
    return RANDOM.integers(low, high, shape).astype(dtype)


def complexes(*shape):
    return (normal(*shape) + 1j * normal(*shape)).astype(np.complex64)


def program(*inputs, sharded=False):
    def add(function):
        assert function.__name__ not in PROGRAMS, function.__name__
        PROGRAMS[function.__name__] = (function, list(inputs), sharded)
        return function
    return add


# Dense


@program(normal(16, 32), normal(32, 64), normal(64), normal(64, 8))
def dense_network(x, w, b, v):
    return jax.nn.softmax(jax.nn.gelu(x @ w + b) @ v)


@program(normal(4, 12, 32), normal(32, 3, 4, 8), normal(4, 8, 32))
def attention(x, project, out):
    q, k, v = jnp.einsum("bsd,dthk->tbshk", x, project)
    scores = jnp.einsum("bshk,bthk->bhst", q, k) / 8**0.5
    scores = jnp.where(jnp.tril(jnp.ones((12, 12), bool)), scores, -1e9)
    return jnp.einsum("bhst,bthk,hkd->bsd", jax.nn.softmax(scores), v, out)


@program(normal(16, 32), normal(32, 8))
def gradient(x, w):
    return jax.value_and_grad(lambda w: jnp.mean(jnp.logaddexp(0., x @ w)**2))(w)


@program(normal(6), normal(6, 6))
def hessian(x, a):
    return jax.hessian(lambda x: jnp.sin(x @ a @ x) + jnp.sum(x**4))(x)


@program(normal(5, 8), normal(8, 3))
def jacobians(x, w):
    f = lambda x: jnp.tanh(x @ w)
    return jax.jacfwd(f)(x), jax.jacrev(f)(x), jax.vmap(lambda r: jax.jvp(f, (r,), (r,))[1])(x)


@program(normal(3, 4, 5), normal(5, 4, 2), normal(3))
def einsums(a, b, c):
    return jnp.einsum("abc,cbd,a->d", a, b, c), jnp.einsum("abc,abc->b", a, a), jnp.tensordot(a, b, ((1, 2), (1, 0)))


@program(normal(64, 32), normal(32), normal(32))
def normalisations(x, g, b):
    layer = (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * g + b
    return layer, x / jnp.linalg.norm(x, axis=0), jax.nn.standardize(x, axis=0), jax.nn.log_softmax(x)


# Convolutions and windows


def convolve(x, k, **options):
    return lax.conv_general_dilated(x, k, dimension_numbers=("NHWC", "HWIO", "NHWC"), **options)


@program(normal(2, 9, 9, 4), normal(3, 3, 4, 6))
def convolutions(x, k):
    return (convolve(x, k, window_strides=(2, 1), padding="SAME"), convolve(x, k, window_strides=(1, 1), padding="VALID", rhs_dilation=(2, 2)),
            convolve(x, k, window_strides=(1, 1), padding=((1, 2), (-1, 3)), lhs_dilation=(2, 1)))


@program(normal(2, 8, 8, 6), normal(3, 3, 1, 12))
def depthwise(x, k):
    return convolve(x, k, window_strides=(1, 1), padding="SAME", feature_group_count=6)


@program(normal(2, 8, 8, 3), normal(3, 3, 3, 4))
def convolution_gradients(x, k):
    return jax.grad(lambda x, k: (convolve(x, k, window_strides=(2, 2), padding="SAME")**2).sum(), (0, 1))(x, k)


@program(normal(2, 6, 6, 4), normal(3, 3, 4, 5))
def transposed_convolution(x, k):
    return lax.conv_transpose(x, k, (2, 2), "SAME")


@program(normal(2, 10, 3), normal(4, 3, 5), normal(1, 4, 5, 6, 2), normal(2, 2, 2, 2, 3))
def convolutions_of_other_ranks(x, k, y, m):
    return (lax.conv_general_dilated(x, k, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC")),
            lax.conv_general_dilated(y, m, (1, 1, 1), "VALID", dimension_numbers=("NDHWC", "DHWIO", "NDHWC")))


@program(normal(2, 8, 8, 3))
def pooling(x):
    most = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
    mean = lax.reduce_window(x, 0., lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4
    return most, mean, jax.grad(lambda x: (lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")**2).sum())(x)


@program(normal(6, 20))
def running(x):
    return jnp.cumsum(x, 1), jnp.cumprod(x, 0), lax.cummax(x, 1, reverse=True), lax.cumlogsumexp(x, 1)


@program(normal(1, 5, 7, 2))
def image_resizes(x):
    return jax.image.resize(x, (1, 10, 14, 2), "bilinear"), jax.image.resize(x, (1, 3, 4, 2), "cubic"), jax.image.resize(x, (1, 9, 9, 2), "nearest")


# Loops and branches


@program(normal(10, 4, 8), normal(8, 8), normal(8, 8))
def recurrent(x, w, u):
    def step(h, x):
        h = jnp.tanh(x @ w + h @ u)
        return h, h
    return lax.scan(step, jnp.zeros((4, 8)).astype(x.dtype), x)


@program(normal(12, 3, 6), normal(6, 16), normal(4, 16))
def lstm_gradient(x, w, u):
    def loss(w, u):
        def step(carry, x):
            h, c = carry
            i, f, g, o = jnp.split(x @ w + h @ u, 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h
        zero = jnp.zeros((3, 4), x.dtype)
        return (lax.scan(step, (zero, zero), x)[1]**2).sum()
    return jax.grad(loss, (0, 1))(w, u)


@program(np.float32(2.0), np.int32(7))
def loops(x, n):
    newton = lax.while_loop(lambda y: jnp.abs(y * y - x) > 1e-6, lambda y: (y + x / y) / 2, x)
    return newton, lax.fori_loop(0, n, lambda i, s: s * 2 + i, 1), lax.fori_loop(0, 5, lambda i, s: s + x, 0.)


@program(np.int32(2), normal(6), np.bool_(True))
def branches(i, x, p):
    return lax.switch(i, [jnp.sin, jnp.cos, lambda x: x[::-1], jnp.cumsum], x), lax.cond(p, lambda x: x.sum(), lambda x: x.max(), x)


@program(normal(4, 9))
def associative_scan(x):
    return lax.associative_scan(lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (x, x + 1), axis=1)


@program(normal(5, 6))
def mapped_branches(x):
    return jax.vmap(lambda r: lax.cond(r[0] > 0, lambda r: r * 2, lambda r: r - 1, r))(x), lax.map(jnp.sort, x)


@program(normal(8))
def custom_rules(x):
    @jax.custom_vjp
    def clip(x):
        return x
    clip.defvjp(lambda x: (x, ()), lambda _, g: (jnp.clip(g, -1, 1),))
    return jax.grad(lambda x: (clip(x)**3).sum())(x), jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)))(x)


# Linear algebra


SQUARE = normal(3, 6, 6)


@program(SQUARE @ SQUARE.transpose(0, 2, 1) + 6 * np.eye(6, dtype=np.float32), normal(3, 6, 2))
def positive_definite(a, b):
    factor = jnp.linalg.cholesky(a)
    return factor, jsp.linalg.solve_triangular(factor, b, lower=True), jnp.linalg.inv(a), jnp.linalg.slogdet(a)


@program(normal(7, 7) + 3 * np.eye(7, dtype=np.float32), normal(7, 2))
def solving(a, b):
    return jnp.linalg.solve(a, b), jnp.linalg.det(a), jsp.linalg.lu_solve(jsp.linalg.lu_factor(a), b), jnp.linalg.matrix_power(a, 3)


@program(normal(8, 5), normal(6, 6))
def decompositions(a, s):
    q, r = jnp.linalg.qr(a)
    values, vectors = jnp.linalg.eigh(s + s.T)
    u, d, v = jnp.linalg.svd(a, full_matrices=False)
    return q @ r, jnp.abs(jnp.diag(r)), values, vectors * values @ vectors.T, d, u * d @ v


@program(normal(5, 5), normal(9, 4), normal(9))
def matrix_functions(a, m, y):
    return jsp.linalg.expm(a), jnp.linalg.pinv(m), jnp.linalg.lstsq(m, y)[0], jnp.kron(a, a), jnp.trace(a), jnp.linalg.cond(m)


# Sorting, gathering, scattering


@program(normal(7, 11), whole(0, 5, 40))
def sorting(x, n):
    return jnp.sort(x, 0), jnp.argsort(x, 1), jnp.sort(n, descending=True), jnp.lexsort((n, n[::-1])), jnp.median(x, 1), jnp.searchsorted(jnp.sort(n), n)


@program(normal(5, 50), whole(-20, 20, 3, 30))
def extremes(x, n):
    return lax.top_k(x, 4), lax.top_k(n, 5), jnp.argmax(x, 1), jnp.argmin(n, 0), lax.approx_max_k(x, 3), jnp.percentile(x, 30., axis=1)


@program(normal(20, 6), whole(-25, 25, 4, 3), whole(0, 6, 20, 1))
def gathering(x, i, j):
    return x[i], jnp.take(x, i, axis=0, mode="clip"), jnp.take(x, i, axis=0, mode="fill"), jnp.take_along_axis(x, j, 1), x[2:15:3, ::-2], x[jnp.arange(3), 1:4]


@program(normal(10, 4), whole(0, 12, 6), normal(6, 4), whole(0, 4, 6))
def scattering(x, i, u, j):
    return (x.at[i].add(u), x.at[i].set(u[0]), x.at[i].max(u), x.at[i].multiply(u), x.at[i, j].add(1.), x.at[:, 1].set(0), x.at[i].min(u, mode="drop"))


@program(whole(0, 9, 50), normal(50), whole(0, 4, 50))
def counting(n, x, k):
    return jnp.bincount(n, length=9), jnp.histogram(x, 6)[0], jax.ops.segment_sum(x, k, 4), jax.ops.segment_max(x, k, 4), jnp.unique(n, size=10, fill_value=-1)


@program(normal(6, 8), np.int32(2), np.int32(7))
def dynamic_slices(x, i, j):
    return lax.dynamic_slice(x, (i, j), (3, 4)), lax.dynamic_update_slice(x, x[:2, :2], (i, j)), jnp.roll(x, i, 1), lax.dynamic_index_in_dim(x, j, 1)


@program(normal(3, 4), normal(2, 4))
def rearranging(x, y):
    return (jnp.concatenate([x, y]), jnp.pad(x, ((1, 2), (0, 3)), mode="reflect"), lax.pad(x, np.float32(0.5), ((1, -1, 2), (-2, 1, 0))), jnp.stack([x, x * 2], 1),
            jnp.flip(x, 0), jnp.repeat(x, 3, 1), jnp.tile(x, (2, 2)), x.reshape(2, 6).T, jnp.triu(x), jnp.diag(x[0]), jnp.nonzero(x > 0, size=5))


# Numbers


@program(normal(50, dtype=np.float64) * 3, positive(50, dtype=np.float64))
def elementary_f64(x, y):
    return (jnp.exp(x), jnp.log(y), jnp.sin(x), jnp.tan(x), jnp.arctan2(x, y), jnp.sinh(x), jnp.arccosh(y + 1), jnp.cbrt(x), jnp.power(y, x), jnp.expm1(x),
            jnp.log1p(y), jnp.hypot(x, y), jnp.fmod(x, y), jnp.nextafter(x, y), jnp.round(x), jnp.copysign(y, x))


@program(normal(60) * 4, positive(60) * 5)
def special_functions(x, y):
    return (jsp.special.erf(x), jsp.special.erfc(x), jsp.special.erfinv(jnp.sin(x) * 0.9), jsp.special.gammaln(y), jsp.special.digamma(y), jsp.special.gammainc(y, y[::-1]),
            jsp.special.betainc(y, y[::-1], jax.nn.sigmoid(x)), jsp.special.i0e(x), jsp.special.i1(x), jsp.special.ndtri(jax.nn.sigmoid(x)), jsp.special.zeta(y + 1.5, y),
            jsp.special.polygamma(1, y), jsp.special.logit(jax.nn.sigmoid(x)), jsp.special.xlogy(y, y), jsp.stats.norm.logcdf(x), jnp.sinc(x))


@program(complexes(20), complexes(4, 4), complexes(4, 3))
def complex_numbers(z, a, b):
    return jnp.exp(z), jnp.log(z), jnp.sqrt(z), jnp.abs(z), jnp.angle(z), z**2.5, jnp.tanh(z), jnp.sin(z), a @ b, jnp.linalg.solve(a, b), jnp.conj(z).sum(), jnp.prod(z)


@program(normal(3, 30), complexes(4, 15), normal(6, 8))
def fourier(x, z, y):
    return jnp.fft.rfft(x), jnp.fft.fft(z), jnp.fft.ifft2(z), jnp.fft.irfft(z, 28), jnp.fft.rfft2(y), jnp.fft.fftshift(jnp.fft.fftn(y)), jnp.convolve(x[0], x[1], mode="same")


@program(whole(-100, 100, 30), whole(1, 30, 30), whole(0, 2**32, 30, dtype=np.uint32))
def integers(a, b, u):
    return (a // b, a % b, lax.div(a, b), lax.rem(a, b), a << (b % 32), a >> 2, lax.shift_right_logical(a, b % 32), lax.population_count(u), lax.clz(u), u * u, ~a,
            jnp.gcd(a, b), a & b, a ^ b, jnp.bitwise_count(a), jnp.isin(a, b), a.astype(np.int8), u.astype(np.float32), lax.bitcast_convert_type(a.astype(np.float32), np.int32))


@program(normal(32, 64).astype(jnp.bfloat16), normal(64, 16).astype(jnp.bfloat16), normal(16).astype(np.float16))
def halves(x, w, b):
    return x @ w, jnp.dot(x, w, preferred_element_type=np.float32), jax.nn.silu((x @ w).astype(np.float16) + b), x.sum(0), jnp.exp(b), jnp.sort(b)


@program(normal(16, 32), normal(32, 8))
def narrow_floats(x, w):
    kinds = (jnp.float8_e4m3fn, jnp.float8_e5m2, jnp.float8_e4m3b11fnuz, jnp.float8_e4m3fnuz, jnp.float8_e5m2fnuz)
    return [x.astype(k).astype(np.float32) for k in kinds], jnp.dot(x.astype(kinds[0]), w.astype(kinds[0]), preferred_element_type=np.float32)


@program(normal(16, 32), whole(-8, 8, 32, 8))
def narrow_integers(x, w):
    small = jnp.clip(x * 3, -7, 7).astype(jnp.int4)
    return (lax.dot(small.astype(np.int8), w.astype(jnp.int4).astype(np.int8), preferred_element_type=np.int32), small.astype(np.int32) * 2, jnp.maximum(small, w.T[:1, :].astype(jnp.int4)).astype(np.int8),
            lax.dot(jnp.clip(x * 30, -127, 127).astype(np.int8), w.astype(np.int8), preferred_element_type=np.int32))


@program(normal(40), np.array([np.nan, np.inf, -np.inf, 0., -0., 1e-30, 3e38], np.float32))
def edges(x, e):
    return (jnp.max(e), jnp.min(e[1:]), jnp.sort(e), e.astype(np.int32), jnp.sign(e), jnp.isfinite(e), jnp.nan_to_num(e), lax.reduce_precision(x, 5, 3), jnp.clip(e, 1, -1),
            jnp.maximum(e[:, None], e), e == e[::-1], jnp.floor(e), lax.is_finite(e), jnp.signbit(e), jnp.argmax(e))


# Random numbers


@program(np.array([1, 2], np.uint32))
def random_threefry(key):
    key = jax.random.wrap_key_data(key)
    a, b, c = jax.random.split(key, 3)
    return (jax.random.bits(a, (9,)), jax.random.normal(b, (50,)), jax.random.uniform(c, (4, 5), minval=-2), jax.random.permutation(a, 20), jax.random.categorical(b, jnp.ones((6, 5))),
            jax.random.randint(c, (10,), -5, 50), jax.random.bernoulli(a, 0.3, (20,)), jax.random.truncated_normal(b, -1, 2, (9,)), jax.random.gumbel(c, (7,)))


@program(np.array([1, 2, 3, 4], np.uint32))
def random_rbg(key):
    key = jax.random.wrap_key_data(key, impl="rbg")
    return jax.random.bits(key, (33,)), jax.random.normal(key, (3, 7)), jax.random.key_data(jax.random.split(key))


@program(np.array([5, 6], np.uint32))
def random_distributions(key):
    key = jax.random.wrap_key_data(key)
    return (jax.random.gamma(key, 2.5, (12,)), jax.random.poisson(key, 3., (12,)), jax.random.dirichlet(key, jnp.ones(4), (3,)), jax.random.beta(key, 2., 3., (5,)),
            jax.random.exponential(key, (8,)), jax.random.choice(key, 30, (6,), replace=False), jax.random.multivariate_normal(key, jnp.zeros(3), jnp.eye(3)), jax.random.t(key, 3., (5,)))


# Sharded


MESH = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto, AxisType.Auto))


def cut(array, *spec):
    return lax.with_sharding_constraint(array, NamedSharding(MESH, P(*spec)))


@program(normal(16, 32), normal(32, 64), normal(64, 8), sharded=True)
def sharded_network(x, w, v):
    x, w, v = cut(x, "x", None), cut(w, None, "y"), cut(v, "y", None)
    return cut(jax.nn.relu(x @ w) @ v, "x", None), jax.grad(lambda w: (jax.nn.relu(x @ w) @ v).sum())(w)


@program(normal(8, 10, 6), sharded=True)
def sharded_reductions(x):
    x = cut(x, "x", None, None)
    return x.sum(), x.max(0), jnp.cumsum(x, 0), jnp.sort(x, 0), x[::-1], x.reshape(80, 6).T, jnp.argmax(x, 0)


@program(normal(8, 4), sharded=True)
def manual_collectives(x):
    def body(x):
        total = lax.psum(x, "x")
        return total, lax.all_gather(x, "x"), lax.ppermute(x, "x", [(i, (i + 1) % 4) for i in range(4)]), lax.psum_scatter(jnp.tile(x, (2, 1)), "x", tiled=True), x * lax.axis_index("x")
    return jax.shard_map(body, mesh=MESH, in_specs=P("x", None), out_specs=(P(), P("x"), P("x"), P("x"), P("x")), check_vma=False)(x)


@program(normal(16, 8, 8, 3), normal(3, 3, 3, 4), sharded=True)
def sharded_convolution(x, k):
    x = cut(x, "x", "y", None, None)
    return convolve(x, k, window_strides=(1, 1), padding="SAME"), jax.grad(lambda k: (convolve(x, k, window_strides=(2, 2), padding="SAME")**2).sum())(k)


@program(normal(32, 6), whole(0, 32, 16), normal(16, 6), sharded=True)
def sharded_indexing(x, i, u):
    x, i, u = cut(x, "x", None), cut(i, "y"), cut(u, "y", None)
    return x[i], x.at[i].add(u), lax.dynamic_slice(x, (i[0], i[0] * 0), (4, 6)), jnp.roll(x, 3, 0)


@program(normal(16, 12), np.array([3, 4], np.uint32), sharded=True)
def sharded_loop(x, key):
    x = cut(x, "x", "y")
    noise = cut(jax.random.normal(jax.random.wrap_key_data(key), (16, 12)), "x", "y")
    return lax.scan(lambda c, t: (jnp.tanh(c + t), c.sum()), x.astype(noise.dtype), jnp.arange(5.))[0] + noise, lax.fori_loop(0, 4, lambda i, c: c @ c.T @ c / 40, x)


@program(normal(8, 16, 12), sharded=True)
def all_to_all(x):
    f = jax.shard_map(lambda x: lax.all_to_all(x, "x", 1, 0, tiled=True), mesh=MESH, in_specs=P("x"), out_specs=P(None, "x"))
    return f(x), cut(cut(x, "x", None, None), None, "x", "y")


# Whole programs


@program(normal(64, 8), normal(64))
def least_squares_training(x, y):
    loss = lambda w: jnp.mean((x @ w - y)**2)
    def step(state, _):
        w, m, v = state
        g = jax.grad(loss)(w)
        m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
        return (w - 0.05 * m / (jnp.sqrt(v) + 1e-8), m, v), loss(w)
    zero = jnp.zeros(8, x.dtype)
    return lax.scan(step, (zero, zero, zero), None, length=20)


@program(normal(5, 2), np.float32(0.01))
def n_bodies(x, step):
    def force(x):
        d = x[:, None] - x[None]
        return -(d / ((d**2).sum(-1) + 0.1)[..., None]**1.5).sum(1)
    def advance(_, state):
        x, v = state
        v = v + step * force(x)
        return x + step * v, v
    return lax.fori_loop(0, 30, advance, (x, jnp.zeros_like(x)))


@program(whole(0, 50, 2, 7), normal(50, 16), normal(3, 16, 16), normal(16, 50))
def decoding(tokens, embed, layers, out):
    def generate(carry, _):
        tokens, at = carry
        h = embed[tokens]
        h = lax.scan(lambda h, w: (h + jax.nn.gelu(h @ w), None), h, layers)[0]
        logits = h[:, at] @ out
        return (tokens.at[:, (at + 1) % 7].set(jnp.argmax(logits, -1).astype(tokens.dtype)), (at + 1) % 7), logits
    return lax.scan(generate, (tokens, 0), None, length=4)


@program(normal(24, 5), whole(0, 3, 24))
def clustering(x, start):
    def step(_, centres):
        nearest = jnp.argmin(((x[:, None] - centres)**2).sum(-1), 1)
        return jax.ops.segment_sum(x, nearest, 3) / jnp.maximum(jnp.bincount(nearest, length=3), 1)[:, None].astype(x.dtype)
    return lax.fori_loop(0, 8, step, x[:3] + 0 * start[0])


@program(normal(12, 12) > 0.2)
def game_of_life(cells):
    def step(cells, _):
        near = sum(jnp.roll(cells, (i, j), (0, 1)).astype(np.int32) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)
        cells = (near == 3) | (cells & (near == 2))
        return cells, cells.sum()
    return lax.scan(step, cells, None, length=6)


@program(normal(30), normal(30))
def polynomials(x, y):
    return jnp.polyfit(x, y, 3), jnp.interp(x, jnp.sort(y), x), jnp.polyval(y[:4], x), functools.reduce(jnp.polymul, [x[:3], y[:3]]), jnp.gradient(x), jnp.trapezoid(y, x)
