# SPDX-License-Identifier: Apache-2.0
"""Training steps of decoders, from a configuration of a few lines to StableHLO for TPUs (JAX 0.10.2).

    from decoder import Decoder, lower
    text = lower(Decoder(layers=32, width=4096, heads=32, key_heads=8, hidden=14336, vocabulary=128256,
                         sequence=8192, batch=24, mesh={"fsdp": 8}))

The steps have bf16, fp8 or int8 products, parameters of their own type, and Adam. Arrays are cut over the axes of the mesh:
batches over data, fsdp and expert, positions over sequence, parameters over fsdp and tensor, experts over expert. Several
slices are the data axis (its devices are the outermost). Nothing here needs the memory of the model, or a TPU.

Attention is JAX's splash attention, a Pallas kernel for TPUs. Where positions are cut over a mesh axis, or are more than
LONGEST_MASK, or with `stated_attention`, it is a kernel that only states its work, with a placeholder as its body: such a program can be partitioned
and timed, but not run.
"""
import dataclasses
import functools
import importlib
import math

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jax.experimental import pallas as pl
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel, splash_attention_mask
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

megablox = importlib.import_module("jax.experimental.pallas.ops.tpu.megablox.gmm")  # its package has a function of this name
AXES = ("data", "fsdp", "expert", "sequence", "tensor")
BATCH = ("data", "fsdp", "expert")
BLOCK = 2048  # positions that an attention kernel takes at a time, as in the recipes
LONGEST_MASK = 32768  # masks of more positions take minutes to make
POLICIES = jax.checkpoint_policies


@dataclasses.dataclass(frozen=True)
class Quantised:
    kind: str  # "fp8": float8_e4m3fn, and float8_e5m2 for gradients; or "int8"
    largest: float = 0  # the value that the largest number of the type represents; 0: the largest of each array, found in each step


@dataclasses.dataclass
class Decoder:
    layers: int
    width: int
    heads: int
    hidden: int
    vocabulary: int
    sequence: int
    batch: int  # of the whole mesh
    mesh: dict  # sizes of AXES; those that are missing are 1
    key_heads: int = 0  # 0: as many as heads
    head_width: int = 128
    gated: bool = True
    tied: bool = False  # one array embeds tokens and projects to the vocabulary
    norm: str = "multiply"  # how the scale of a norm is applied: "multiply" or "einsum"
    post_norms: bool = False  # also normalise what attention and the MLP return
    windows: tuple = (0,)  # positions that each layer of a period attends to; 0: all before
    latent: tuple = ()  # ranks of queries and of keys, width of the rotated part (multi-head latent attention)
    experts: int = 0
    active: int = 0  # experts that a token visits
    shared: int = 0  # experts that all tokens visit
    dense_layers: int = 0  # first layers, which have an MLP of `dense_hidden` instead of experts
    dense_hidden: int = 0
    expert_biases: bool = False
    # Tiles of grouped products as a kernel: rows, depth, columns of the product, of its gradient with respect to the rows, and to
    # the matrices. Three more if those of "down" differ. Without tiles, XLA makes the products.
    tiles: tuple = ()
    capacity: float = 0  # of an expert, as a multiple of its even share; 0: dropless, with grouped products
    recompute: str = "all"  # "all", "products" (kept: those without batches), or "names" (kept: the next two)
    # What is kept on the device: of "input", "query", "key", "value", "attention" (the kernel's results), "out" (projected
    # back), "mlp_out", "expert_out" (what the experts return).
    keep: tuple = ()
    offload: tuple = ()  # kept in the host's memory
    scanned: bool = True  # one loop over layers, or all written out
    weights: object = jnp.float32
    first_moment: object = None  # the type of Adam's mean of gradients; None: that of the weights
    stated_attention: bool = False  # a kernel that only states its work, also where JAX's could be used
    # How products of layers are quantised; None: they are in bf16. Grouped products are then XLA's, as the kernel takes no
    # such arrays.
    quantised: Quantised | None = None
    loss_tiles: int = 1  # parts in which logits are made
    one_hot_embedding: bool = False  # look up tokens by a product (MaxText's use_iota_embed)
    packed: bool = False  # several documents in a sequence: attention stays inside of each

    def __post_init__(self):
        self.key_heads = self.key_heads or self.heads
        assert (self.layers - self.dense_layers) % len(self.windows) == 0, "layers are whole periods of windows"


# ---- products


KINDS = {"fp8": (jnp.float8_e4m3fn, jnp.float8_e5m2), "int8": (jnp.int8, jnp.int8)}  # of operands, of gradients


def narrowed(how, x, kind):
    """An array of a narrow type, and what to multiply it with."""
    whole = jnp.issubdtype(kind, jnp.integer)
    most = float((jnp.iinfo if whole else jnp.finfo)(kind).max)
    wide = x.astype(jnp.float32)
    scale = jnp.float32(how.largest / most) if how.largest else jnp.max(jnp.abs(wide)) / most + 1e-12
    wide = jnp.clip(wide / scale, -most, most)
    return (jnp.round(wide) if whole else wide).astype(kind), scale


def narrow_product(multiply, x, w):
    """multiply(x, w, type of the result) of two narrow arrays with their factors."""
    (x, x_scale), (w, w_scale) = x, w
    if jnp.issubdtype(x.dtype, jnp.integer):
        return (multiply(x, w, jnp.int32).astype(jnp.float32) * (x_scale * w_scale)).astype(jnp.bfloat16)
    return multiply(x, w, jnp.bfloat16) * (x_scale * w_scale).astype(jnp.bfloat16)


def einsum(spec):
    return lambda x, w, kind: jnp.einsum(spec, x, w, preferred_element_type=kind)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def quantised_product(how, spec, x, w):
    kind, _ = KINDS[how.kind]
    return narrow_product(einsum(spec), narrowed(how, x, kind), narrowed(how, w, kind))


def quantised_product_forward(how, spec, x, w):
    return quantised_product(how, spec, x, w), (x, w)


def quantised_product_backward(how, spec, saved, gradient):
    x, w = saved
    kind, gradient_kind = KINDS[how.kind]
    gradient = narrowed(how, gradient, gradient_kind)
    operands, result = spec.split("->")
    left, right = operands.split(",")
    return (narrow_product(einsum(f"{result},{right}->{left}"), gradient, narrowed(how, w, kind)),
            narrow_product(einsum(f"{result},{left}->{right}"), gradient, narrowed(how, x, kind)))


quantised_product.defvjp(quantised_product_forward, quantised_product_backward)


def product(model, spec, x, w):
    w = w.astype(jnp.bfloat16)
    return quantised_product(model.quantised, spec, x, w) if model.quantised else jnp.einsum(spec, x, w)


# ---- attention


def attention_kernel(results, window, products, *arrays):
    """A kernel that multiplies, for each head and pair of positions, `products` numbers. It takes whole blocks of pairs. The
    first two arrays are the queries, which may be a part of the positions, and the keys, which are all. Where positions
    are cut over a mesh, each device has early and late ones, so it too attends to half of the keys."""
    batch, length, heads, _ = arrays[0].shape
    keys = arrays[1].shape[1]
    block = min(BLOCK, keys)
    pairs = min(window + block if window else keys, (keys + block) // 2) * length
    size = sum(array.size * array.dtype.itemsize for array in (*arrays, *results))
    estimate = pl.CostEstimate(flops=2 * products * batch * heads * pairs, transcendentals=batch * heads * pairs,
                               bytes_accessed=size)

    def placeholder(*references):
        references[-1][...] = jnp.zeros_like(references[-1])

    return pl.pallas_call(placeholder, out_shape=results, cost_estimate=estimate)(*arrays)


def like(array):
    return jax.ShapeDtypeStruct(array.shape, array.dtype)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def fused_attention(window, query, key, value, documents):
    result = jax.ShapeDtypeStruct((*query.shape[:3], value.shape[3]), query.dtype)
    return attention_kernel([result], window, query.shape[3] + value.shape[3], query, key, value)[0]


def fused_attention_forward(window, query, key, value, documents):
    result = fused_attention(window, query, key, value, documents)
    return result, (query, key, value, result)


def fused_attention_backward(window, saved, gradient):
    query, key, value, _ = saved
    inner, outer = query.shape[3], value.shape[3]
    key_gradient, value_gradient = attention_kernel([like(key), like(value)], window, 2 * inner + 2 * outer, *saved,
                                                    gradient)
    query_gradient = attention_kernel([like(query)], window, 2 * inner + outer, *saved, gradient)[0]
    return query_gradient, key_gradient, value_gradient, None


fused_attention.defvjp(fused_attention_forward, fused_attention_backward)


def splash_attention(window, query, key, value, documents):
    length, heads = query.shape[1], query.shape[2]
    mask = splash_attention_mask.CausalMask((length, length))
    if window:
        mask = splash_attention_mask.LocalMask((length, length), (window - 1, 0), 0)
    size = min(BLOCK, length)
    blocks = splash_attention_kernel.BlockSizes(block_q=size, block_kv=size, block_kv_compute=size, block_q_dkv=size,
                                                block_kv_dkv=size, block_kv_dkv_compute=size,
                                                use_fused_bwd_kernel=True)
    kernel = splash_attention_kernel.make_splash_mha_single_device(
        splash_attention_mask.MultiHeadMask([mask] * heads), block_sizes=blocks, residual_checkpoint_name="attention")
    query = query * jnp.bfloat16(query.shape[3]**-0.5)
    heads_first = (array.swapaxes(1, 2) for array in (query, key, value))
    segments = None if documents is None else splash_attention_kernel.SegmentIds(documents, documents)
    return jax.vmap(kernel)(*heads_first, segments).swapaxes(1, 2)


def rotated(x):
    """Rotary position embedding."""
    half = x.shape[-1] // 2
    frequencies = 500000.0**(-jnp.arange(half, dtype=jnp.float32) / half)
    angles = jnp.arange(x.shape[1], dtype=jnp.float32)[:, None] * frequencies
    sine, cosine = jnp.sin(angles)[None, :, None], jnp.cos(angles)[None, :, None]
    first, second = x[..., :half].astype(jnp.float32), x[..., half:].astype(jnp.float32)
    return jnp.concatenate([first * cosine - second * sine, second * cosine + first * sine], -1).astype(jnp.bfloat16)


def normalised(model, x, scale):
    wide = x.astype(jnp.float32)
    wide = (wide * jax.lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + 1e-5)).astype(jnp.bfloat16)
    if model.norm == "einsum":
        return jnp.einsum("...d,d->...d", wide, scale.astype(jnp.bfloat16))
    return wide * scale.astype(jnp.bfloat16)


def queries_keys_values(model, h, w):
    if not model.latent:
        query = rotated(product(model, "bsd,dhk->bshk", h, w["query"]))
        key = rotated(product(model, "bsd,dhk->bshk", h, w["key"]))
        return query, key, product(model, "bsd,dhk->bshk", h, w["value"])
    _, rank, turned = model.latent
    query = product(model, "bsr,rhk->bshk", normalised(model, product(model, "bsd,dr->bsr", h, w["query_down"]),
                                                        w["query_norm"]), w["query"])
    query = jnp.concatenate([query[..., :-turned], rotated(query[..., -turned:])], -1)
    down = product(model, "bsd,dr->bsr", h, w["key_down"])
    both = product(model, "bsr,rhk->bshk", normalised(model, down[..., :rank], w["key_norm"]), w["key"])
    position = jnp.broadcast_to(rotated(down[..., None, rank:]), (*both.shape[:3], turned))
    key = jnp.concatenate([both[..., :model.head_width], position], -1)
    return query, key, both[..., model.head_width:]


# ---- experts


def expert_mlp(model, x, w, multiply):
    """`multiply` takes an array and the name of a matrix."""
    up = multiply(x, "up")
    up = jax.nn.silu(multiply(x, "gate")) * up if model.gated else jax.nn.gelu(up)
    return checkpoint_name(multiply(up, "down"), "expert_out")


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def grouped_kernel(tiles, x, w, sizes):
    return megablox.gmm(x, w, sizes, preferred_element_type=x.dtype, tiling=tiles[0])


def grouped_kernel_forward(tiles, x, w, sizes):
    return grouped_kernel(tiles, x, w, sizes), (x, w, sizes)


def grouped_kernel_backward(tiles, saved, gradient):
    x, w, sizes = saved
    rows = megablox.gmm(gradient, w, sizes, preferred_element_type=x.dtype, tiling=tiles[1], transpose_rhs=True)
    return rows, megablox.tgmm(x.swapaxes(0, 1), gradient, sizes, preferred_element_type=w.dtype, tiling=tiles[2]), None


grouped_kernel.defvjp(grouped_kernel_forward, grouped_kernel_backward)


def ragged(contracted, ragged_dimension, groups):
    """A product of arrays of rows and of matrices (or of two arrays of rows), whose rows are in groups."""
    numbers = jax.lax.RaggedDotDimensionNumbers(dot_dimension_numbers=(contracted, ((), ())),
                                                lhs_ragged_dimensions=ragged_dimension, rhs_group_dimensions=groups)
    return lambda sizes: lambda x, w, kind: jax.lax.ragged_dot_general(x, w, sizes, numbers, preferred_element_type=kind)


ROWS_BY_MATRICES, ROWS_BY_TRANSPOSED = ragged(((1,), (1,)), (0,), (0,)), ragged(((1,), (2,)), (0,), (0,))
ROWS_BY_ROWS = ragged(((0,), (0,)), (0,), ())


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def quantised_grouped_product(how, x, w, sizes):
    kind, _ = KINDS[how.kind]
    return narrow_product(ROWS_BY_MATRICES(sizes), narrowed(how, x, kind), narrowed(how, w, kind))


def quantised_grouped_product_forward(how, x, w, sizes):
    return quantised_grouped_product(how, x, w, sizes), (x, w, sizes)


def quantised_grouped_product_backward(how, saved, gradient):
    x, w, sizes = saved
    kind, gradient_kind = KINDS[how.kind]
    gradient = narrowed(how, gradient, gradient_kind)
    return (narrow_product(ROWS_BY_TRANSPOSED(sizes), gradient, narrowed(how, w, kind)),
            narrow_product(ROWS_BY_ROWS(sizes), narrowed(how, x, kind), gradient), None)


quantised_grouped_product.defvjp(quantised_grouped_product_forward, quantised_grouped_product_backward)


def grouped_product(model, name, x, w, sizes):
    if model.quantised:
        return quantised_grouped_product(model.quantised, x, w, sizes)
    if not model.tiles:
        return jax.lax.ragged_dot(x, w, sizes)
    return grouped_kernel(model.tiles[-3:] if name == "down" else model.tiles[:3], x, w, sizes)


def chosen(model, x, router):
    """The probabilities and numbers of the experts of each token."""
    weights = jax.nn.softmax((x @ router.astype(jnp.bfloat16)).astype(jnp.float32), -1)
    weights, experts = jax.lax.top_k(weights, model.active)
    return (weights / jnp.sum(weights, -1, keepdims=True)).astype(jnp.bfloat16), experts


def dropless_experts(model, mesh, x, w):
    """Tokens sorted by expert, and grouped products. With experts on several devices, each computes what its experts
    have to do for all tokens of the group, and the sums are scattered."""
    matrices = ("up", "gate", "down") if model.gated else ("up", "down")
    names = matrices + tuple(f"{name}_bias" for name in matrices if model.expert_biases)
    parallel = mesh.shape["expert"]
    rows = P(BATCH, "sequence", None)

    def local(x, router, *arrays):
        w = dict(zip(names, arrays))
        batch, length, width = x.shape
        tokens = x.reshape(-1, width)
        if parallel > 1:
            tokens = jax.lax.all_gather(tokens, "expert", tiled=True)
        weights, experts = chosen(model, tokens, router)
        first = jax.lax.axis_index("expert") * (model.experts // parallel) if parallel > 1 else 0
        numbers = experts.reshape(-1) - first
        mine = (numbers >= 0) & (numbers < model.experts // parallel)
        order = jnp.argsort(jnp.where(mine, numbers, model.experts))
        sizes = jnp.bincount(jnp.where(mine, numbers, model.experts), length=model.experts // parallel)
        rows_of = tokens[order // model.active]
        if parallel > 1:  # twice an even share of rows
            rows_of = rows_of[:2 * order.shape[0] // parallel]
        sizes = sizes.astype(jnp.int32)
        expert_of = jnp.repeat(jnp.arange(sizes.size), sizes, total_repeat_length=rows_of.shape[0])

        def multiply(x, name):
            result = grouped_product(model, name, x, w[name], sizes)
            return result + w[f"{name}_bias"][expert_of] if model.expert_biases else result

        result = expert_mlp(model, rows_of, w, multiply)
        if parallel > 1:
            result = jnp.pad(result, ((0, order.shape[0] - result.shape[0]), (0, 0)))
        result = jnp.zeros_like(result).at[order].set(result, unique_indices=True)
        result = jnp.einsum("tad,ta->td", result.reshape(-1, model.active, width), weights)
        if parallel > 1:
            result = jax.lax.psum_scatter(result, "expert", scatter_dimension=0, tiled=True)
        return result.reshape(batch, length, width)

    return jax.shard_map(local, mesh=mesh, in_specs=(rows, P(), *(P("expert"),) * len(names)), out_specs=rows,
                         check_vma=False)(x, w["router"], *(w[name].astype(jnp.bfloat16) for name in names))


def capacity_experts(model, mesh, x, w):
    """Dispatch and combination as products with masks; what exceeds an expert's capacity is dropped."""
    batch, length, _ = x.shape
    slots = math.ceil(model.capacity * length * model.active / model.experts)
    weights, experts = chosen(model, x, w["router"])
    hits = jax.nn.one_hot(experts, model.experts, dtype=jnp.int32)
    flat = hits.reshape(batch, -1, model.experts)
    place = (jnp.cumsum(flat, 1) * flat).reshape(hits.shape) - 1
    mask = jax.nn.one_hot(place, slots, dtype=jnp.bfloat16)  # nothing for places below 0 and above the capacity
    combine = jnp.einsum("bsaec,bsa->bsec", mask, weights)
    dispatch = (combine > 0).astype(jnp.bfloat16)
    spread = NamedSharding(mesh, P(("data", "fsdp"), "expert", None, None))
    rows = jax.lax.with_sharding_constraint(jnp.einsum("bsec,bsd->becd", dispatch, x), spread)
    result = expert_mlp(model, rows, w, lambda x, name: product(model, "becd,edf->becf", x, w[name]))
    return jnp.einsum("becd,bsec->bsd", jax.lax.with_sharding_constraint(result, spread), combine)


def dense_mlp(model, x, w, names=("gate", "up", "down")):
    gate, up, down = names
    h = product(model, "bsd,df->bsf", x, w[up])
    h = jax.nn.silu(product(model, "bsd,df->bsf", x, w[gate])) * h if model.gated else jax.nn.gelu(h)
    return checkpoint_name(product(model, "bsf,fd->bsd", h, w[down]), "mlp_out")


def mlp(model, mesh, x, w):
    if "router" not in w:
        return dense_mlp(model, x, w)
    result = (capacity_experts if model.capacity else dropless_experts)(model, mesh, x, w)
    return result + dense_mlp(model, x, w, ("shared_gate", "shared_up", "shared_down")) if model.shared else result


# ---- the step


def make_layer(model, mesh, hidden_state, window):
    heads, keys = P(BATCH, "sequence", "tensor", None), P(BATCH, None, "tensor", None)
    is_stated = model.stated_attention or mesh.shape["sequence"] > 1 or model.sequence > LONGEST_MASK
    kernel = fused_attention if is_stated else splash_attention
    attention = jax.shard_map(functools.partial(kernel, window), mesh=mesh,
                              in_specs=(heads, keys, keys, P(BATCH, None) if model.packed else None), out_specs=heads,
                              check_vma=False)

    def layer(x, w, documents):
        x = checkpoint_name(x, "input")
        h = normalised(model, x, w["attention_norm"])
        query, key, value = queries_keys_values(model, h, w)
        query, key, value = (checkpoint_name(array, name)
                             for array, name in ((query, "query"), (key, "key"), (value, "value")))
        h = checkpoint_name(product(model, "bshk,hkd->bsd", attention(query, key, value, documents), w["out"]), "out")
        if model.post_norms:
            h = normalised(model, h, w["attention_post_norm"])
        x = jax.lax.with_sharding_constraint(x + h, hidden_state)
        h = mlp(model, mesh, normalised(model, x, w["mlp_norm"]), w)
        if model.post_norms:
            h = normalised(model, h, w["mlp_post_norm"])
        return jax.lax.with_sharding_constraint(x + h, hidden_state)

    return layer


def policy(model):
    if model.recompute == "products":
        return POLICIES.dots_with_no_batch_dims_saveable
    if model.offload:
        return POLICIES.save_and_offload_only_these_names(names_which_can_be_saved=list(model.keep),
                                                          names_which_can_be_offloaded=list(model.offload),
                                                          offload_src="device", offload_dst="pinned_host")
    return POLICIES.save_only_these_names(*model.keep) if model.keep else POLICIES.nothing_saveable


def run_layers(model, mesh, hidden_state, x, documents, stack, windows):
    """Layers in periods of `windows`: a loop over periods, or all of them written out."""
    layers = [jax.checkpoint(make_layer(model, mesh, hidden_state, window), policy=policy(model)) for window in windows]

    def period(x, weights):
        for layer, w in zip(layers, weights):
            x = layer(x, w, documents)
        return x, None

    if model.scanned:
        return jax.lax.scan(period, x, stack)[0]
    for i in range(jax.tree.leaves(stack)[0].shape[0]):
        x, _ = period(x, jax.tree.map(lambda array: array[i], stack))
    return x


def cross_entropy(model, x, projection, targets):
    def part(pair):
        x, targets = pair
        logits = jnp.einsum("bsd,dv->bsv", x, projection.astype(jnp.bfloat16)).astype(jnp.float32)
        hit = jax.lax.broadcasted_iota(jnp.int32, logits.shape, 2) == targets[..., None]
        return jnp.sum(jax.nn.logsumexp(logits, -1) - jnp.sum(jnp.where(hit, logits, 0), -1))

    if model.loss_tiles == 1:
        return part((x, targets)) / targets.size

    def tiles(array):
        return jnp.moveaxis(array.reshape(array.shape[0], model.loss_tiles, -1, *array.shape[2:]), 1, 0)

    return jnp.sum(jax.lax.map(jax.checkpoint(part), (tiles(x), tiles(targets)))) / targets.size


def make_step(model, mesh):
    hidden_state = NamedSharding(mesh, P(BATCH, "sequence", "tensor"))

    def loss(parameters, tokens, targets, *documents):
        documents = documents[0] if documents else None
        embedding = parameters["embedding"].astype(jnp.bfloat16)
        one_hot = jax.nn.one_hot(tokens, model.vocabulary, dtype=embedding.dtype) if model.one_hot_embedding else None
        x = embedding[tokens] if one_hot is None else one_hot @ embedding
        x = jax.lax.with_sharding_constraint(x, hidden_state)
        if model.dense_layers:
            x = run_layers(model, mesh, hidden_state, x, documents, parameters["dense_layers"], (0,))
        x = run_layers(model, mesh, hidden_state, x, documents, parameters["layers"], model.windows)
        x = normalised(model, x, parameters["norm"])
        projection = parameters["embedding"].T if model.tied else parameters["output"]
        return cross_entropy(model, x, projection, targets)

    def step(parameters, mean, variance, *batch):
        value, gradient = jax.value_and_grad(loss)(parameters, *batch)
        mean = jax.tree.map(lambda m, g: (0.9 * m + 0.1 * g).astype(m.dtype), mean, gradient)
        variance = jax.tree.map(lambda v, g: (0.95 * v + 0.05 * g * g).astype(v.dtype), variance, gradient)
        parameters = jax.tree.map(lambda p, m, v: (p - 3e-4 * m / (jnp.sqrt(v) + 1e-8)).astype(p.dtype), parameters,
                                  mean, variance)
        return parameters, mean, variance, value

    return step


def layer_shapes(model, is_dense):
    """The parameters of one layer: name, shape, axes of the mesh."""
    d, h, k, w, f = model.width, model.heads, model.key_heads, model.head_width, model.hidden
    shapes = {"attention_norm": ((d,), (None,)), "mlp_norm": ((d,), (None,)),
              "out": ((h, w, d), ("tensor", None, "fsdp"))}
    if model.post_norms:
        shapes |= {"attention_post_norm": ((d,), (None,)), "mlp_post_norm": ((d,), (None,))}
    if model.latent:
        query, key, turned = model.latent
        shapes |= {"query_down": ((d, query), ("fsdp", None)), "query_norm": ((query,), (None,)),
                   "query": ((query, h, w + turned), ("fsdp", "tensor", None)),
                   "key_down": ((d, key + turned), ("fsdp", None)), "key_norm": ((key,), (None,)),
                   "key": ((key, h, 2 * w), ("fsdp", "tensor", None))}
    else:
        shapes |= {"query": ((d, h, w), ("fsdp", "tensor", None)), "key": ((d, k, w), ("fsdp", "tensor", None)),
                   "value": ((d, k, w), ("fsdp", "tensor", None))}
    if is_dense or not model.experts:
        f = model.dense_hidden if is_dense else f
        shapes |= {"up": ((d, f), ("fsdp", "tensor")), "down": ((f, d), ("tensor", "fsdp"))}
        return shapes | ({"gate": shapes["up"]} if model.gated else {})
    e, s = model.experts, model.shared * f
    shapes |= {"router": ((d, e), (None, None)), "up": ((e, d, f), ("expert", "fsdp", "tensor")),
               "down": ((e, f, d), ("expert", "tensor", "fsdp"))}
    if model.expert_biases:
        shapes |= {f"{name}_bias": ((e, size), ("expert", None)) for name, size in (("up", f), ("gate", f), ("down", d))
                   if model.gated or name != "gate"}
    if s:
        shapes |= {"shared_up": ((d, s), ("fsdp", "tensor")), "shared_down": ((s, d), ("tensor", "fsdp"))}
        shapes |= {"shared_gate": shapes["shared_up"]} if model.gated else {}
    return shapes | ({"gate": shapes["up"]} if model.gated else {})


def arguments(model, mesh):
    def array(shape, spec, dtype=model.weights):
        return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, P(*spec)))

    def stack(count, is_dense):
        return {name: array((count, *shape), (None, *spec)) for name, (shape, spec) in layer_shapes(model, is_dense).items()}

    periods = (model.layers - model.dense_layers) // len(model.windows)
    parameters = {
        "embedding": array((model.vocabulary, model.width), ("tensor", "fsdp")),
        "norm": array((model.width,), (None,)),
        "layers": [stack(periods, False) for _ in model.windows],
    }
    if model.dense_layers:
        parameters["dense_layers"] = [stack(model.dense_layers, True)]
    if not model.tied:
        parameters["output"] = array((model.width, model.vocabulary), ("fsdp", "tensor"))
    tokens = array((model.batch, model.sequence), (BATCH, "sequence"), jnp.int32)
    means = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, model.first_moment or a.dtype, sharding=a.sharding),
                         parameters)
    return parameters, means, parameters, *(tokens,) * (3 if model.packed else 2)


def parameter_count(model):
    """All parameters, and those that a token meets in a product: of the experts only the active ones."""
    total = active = 0
    for count, is_dense in ((model.layers - model.dense_layers, False), (model.dense_layers, True)):
        for name, (shape, _) in layer_shapes(model, is_dense).items():
            size = count * math.prod(shape)
            total += size
            is_expert = len(shape) == 3 and shape[0] == model.experts and name in ("up", "gate", "down")
            active += 0 if len(shape) == 1 or name.endswith("_bias") else size * model.active // model.experts if is_expert else size
    embedding = model.width * model.vocabulary
    return total + (1 if model.tied else 2) * embedding + model.width, active + embedding


def model_flops(model):
    """Operations of a step as MaxText counts them: no recomputation, and attention over all pairs of positions."""
    tokens = model.batch * model.sequence
    attention = 12 * model.layers * model.heads * model.head_width * model.sequence * tokens
    return 6 * parameter_count(model)[1] * tokens + attention


def lower(model):
    """The StableHLO of one step. jax.devices() must have as many devices as the mesh."""
    sizes = tuple(model.mesh.get(axis, 1) for axis in AXES)
    mesh = jax.make_mesh(sizes, AXES, devices=jax.devices()[:math.prod(sizes)], axis_types=(AxisType.Auto,) * len(AXES))
    args = arguments(model, mesh)
    state = jax.tree.map(lambda array: array.sharding, args[:3])
    step = jax.jit(make_step(model, mesh), donate_argnums=(0, 1, 2), out_shardings=(*state, None))
    return step.trace(*args).lower(lowering_platforms=("tpu",)).as_text()
