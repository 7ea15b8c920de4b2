# SPDX-License-Identifier: Apache-2.0
"""The programs of program_cases.py and models.py that PyTorch has, timed as peers.py asks; --compile: by torch.compile().

Images are channels-last, as PyTorch's convolutions on CPUs like them; arrays are given as the JAX programs take them, and
brought into PyTorch's order before timing starts.
"""
import os
import sys
import time

import torch
import torch.nn.functional as F
from torch import float32, bfloat16, int8, int32, int64

from model_shapes import UNET, block_shapes, resnet_layers, unet_widths
from serve import serve

CLOCK = time.process_time if os.environ.get("BENCH_CLOCK") == "processor" else time.perf_counter
THREADS = int(os.environ.get("MESHLO_NUM_THREADS", "1"))
CASES = {}


def case(name, function, *shapes):
    """Shapes are dims of f32, or (dims, type)."""
    CASES[name] = function, [shape if isinstance(shape[-1] if shape else 0, torch.dtype) else (shape, float32) for shape in shapes]


class ChannelsLast(tuple):
    """Dims of an array that is stored channels-last."""


def image(n, rows, columns, features):
    return ChannelsLast((n, features, rows, columns))


def kernel(rows, columns, inputs, outputs):
    return ChannelsLast((outputs, inputs, rows, columns))


def gradient(function):
    """The gradient for all arrays but the first, of the mean square of the result."""

    def run(x, *weights):
        weights = [w.requires_grad_() for w in weights]
        return torch.autograd.grad((function(x, *weights)**2).mean(), weights)

    return run


def same(x, w, stride=1):
    """A convolution with XLA's SAME padding, which is uneven for even strides."""
    pads = []
    for size, taps in ((x.shape[3], w.shape[3]), (x.shape[2], w.shape[2])):
        total = max((-(-size // stride) - 1) * stride + taps - size, 0)
        pads += [total // 2, total - total // 2]
    if pads[0] == pads[1] and pads[2] == pads[3]:
        return F.conv2d(x, w, stride=stride, padding=(pads[2], pads[0]))
    return F.conv2d(F.pad(x, pads), w, stride=stride)


BIG = (4 << 20,)
case("scalar_add", lambda x: x + 1, ())


def small_ops(x):
    for _ in range(10):
        x = torch.sin(x) * 2
    return x


case("small_ops", small_ops, (16,))
for size in (64, 256, 1024):
    case(f"dot_{size}", torch.matmul, (size, size), (size, size))
case("dot_bf16_1024", torch.matmul, ((1024, 1024), bfloat16), ((1024, 1024), bfloat16))
case("dot_s8_1024", torch._int_mm, ((1024, 1024), int8), ((1024, 1024), int8))
case("dot_transposed_1024", lambda a, b: a.T @ b, (1024, 1024), (1024, 1024))
case("dense_relu", lambda x, w, b: torch.relu(torch.addmm(b, x, w)), (1024, 784), (784, 1024), (1024,))
case("attention_scores", lambda q, k: torch.einsum("bqhd,bkhd->bhqk", q, k), (4, 256, 12, 64), (4, 256, 12, 64))


def attention(q, k, v):
    heads = [x.transpose(1, 2) for x in (q, k, v)]
    return F.scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2)


def attention_gradient(q, k, v, gradient):
    inputs = [x.requires_grad_() for x in (q, k, v)]
    result = attention(*inputs)
    return result, *torch.autograd.grad(result, inputs, gradient)


case("attention", attention, *[(4, 512, 16, 64)] * 3)
case("attention_gradient", attention_gradient, *[(4, 512, 16, 64)] * 4)
case("matvec_4096", torch.mv, (4096, 4096), (4096,))
case("conv_3x3", same, image(8, 56, 56, 64), kernel(3, 3, 64, 64))
case("conv_7x7", lambda x, w: same(x, w, 2), image(4, 224, 224, 3), kernel(7, 7, 3, 64))


def conv_3x3_gradient(x, w):
    x, w = x.requires_grad_(), w.requires_grad_()
    return torch.autograd.grad((same(x, w)**2).sum(), (x, w))


case("conv_3x3_gradient", conv_3x3_gradient, image(8, 56, 56, 64), kernel(3, 3, 64, 64))
case("add_4m", torch.add, BIG, BIG)
case("gelu_4m", lambda x: F.gelu(x, approximate="tanh"), BIG)
for name, function in {"exp": torch.exp, "log": torch.log, "tanh": torch.tanh, "erf": torch.erf, "logistic": torch.sigmoid,
                       "sin": torch.sin}.items():
    case(f"{name}_4m", function, BIG)
case("pow_4m", torch.pow, BIG, BIG)
case("softmax", lambda x: torch.softmax(x, -1), (1024, 4096))
case("log_softmax", lambda x: torch.log_softmax(x, -1), (1024, 4096))
case("layernorm", lambda x, scale, bias: F.layer_norm(x, (1024,), scale, bias), (4096, 1024), (1024,), (1024,))
case("sum_4m", torch.sum, BIG)
case("sum_axis0", lambda x: x.sum(0), (2048, 2048))
case("argmax", lambda x: x.argmax(1), (1024, 4096))
case("cumsum", lambda x: x.cumsum(1), (1024, 4096))
case("transpose", lambda x: x.T.contiguous(), (2048, 2048))
case("gather", lambda table, rows: table[rows], (32000, 512), ((8192,), int64))
case("scatter_add", lambda table, rows, x: table.index_add(0, rows, x), (32000, 512), ((8192,), int64), (8192, 512))
case("sort_1m", lambda x: torch.sort(x).values, (1 << 20,))
case("argsort_256k", torch.argsort, (256 << 10,))
case("top_k", lambda x: torch.topk(x, 8), (64, 32000))
case("fft", torch.fft.fft, ((1024, 1024), torch.complex64))
case("cholesky", lambda x: torch.linalg.cholesky(torch.eye(512) * 600 + (x + x.T) / 2), (512, 512))


def loop_1000(x):
    for _ in range(1000):
        x = x * 0.999 + 0.001
    return x


case("loop_1000", loop_1000, (16,))


def rnn_scan(xs, w, u):
    h, hs = torch.zeros(32, 256), []
    for x in xs:
        h = torch.tanh(x @ w + h @ u)
        hs.append(h)
    return h, torch.stack(hs)


case("rnn_scan", rnn_scan, (128, 32, 256), (256, 256), (256, 256))


def norm(x):
    return F.layer_norm(x, x.shape[-1:])


def block(x, qkv, out, up, down, heads=8, causal=False):
    b, t, d = x.shape
    q, k, v = (y.reshape(b, t, heads, -1).transpose(1, 2) for y in (norm(x) @ qkv).chunk(3, -1))
    x = x + F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2).reshape(b, t, d) @ out
    return x + F.gelu(norm(x) @ up, approximate="tanh") @ down


def blocks(x, *weights):
    for i in range(0, len(weights), 4):
        x = block(x, *weights[i:i + 4])
    return (x**2).mean()


def blocks_gradient(*arrays):
    arrays = [x.requires_grad_() for x in arrays]
    return torch.autograd.grad(blocks(*arrays), arrays)


case("block_forward", blocks, (4, 256, 512), *block_shapes(512))
case("block_gradient", blocks_gradient, (4, 256, 512), *block_shapes(512))
case("blocks_12_gradient", blocks_gradient, (1, 64, 512), *block_shapes(512) * 12)


def causal_block(x, *weights):
    return block(x, *weights, heads=16, causal=True)


case("causal_block_forward", causal_block, (4, 512, 1024), *block_shapes(1024))
case("causal_block_gradient", gradient(causal_block), (4, 512, 1024), *block_shapes(1024))


LAYERS, BLOCKS = resnet_layers()


def resnet(x, *weights):

    def unit(x, i):
        w, scale, bias = weights[3 * i:3 * i + 3]
        return same(x, w, LAYERS[i][3]) * scale[:, None, None] + bias[:, None, None]

    x = F.max_pool2d(F.pad(torch.relu(unit(x, 0)), (0, 1, 0, 1), value=float("-inf")), 3, 2)
    for first, projects in BLOCKS:
        y = torch.relu(unit(x, first))
        y = unit(torch.relu(unit(y, first + 1)), first + 2)
        x = torch.relu(y + (unit(x, first + 3) if projects else x))
    return x.mean((2, 3)) @ weights[-1]


RESNET = [dims for rows, inputs, outputs, _ in LAYERS for dims in (kernel(rows, rows, inputs, outputs), (outputs,), (outputs,))]
RESNET += [(2048, 1000)]
case("resnet50_forward", resnet, image(4, 224, 224, 3), *RESNET)
case("resnet50_gradient", gradient(resnet), image(4, 224, 224, 3), *RESNET)


def unet(x, *weights):
    weights, kept = iter(weights), []

    def pair(x):
        return torch.relu(same(torch.relu(same(x, next(weights))), next(weights)))

    for level in range(len(UNET)):
        x = pair(x)
        if level + 1 < len(UNET):
            kept.append(x)
            x = F.max_pool2d(x, 2)
    while kept:
        x = pair(torch.cat([kept.pop(), F.interpolate(x, scale_factor=2)], 1))
    return same(x, next(weights))


UNET_SHAPES = [kernel(3, 3, *pair) for pair in unet_widths()] + [kernel(1, 1, UNET[0], 2)]
case("unet_forward", unet, image(2, 128, 128, 3), *UNET_SHAPES)
case("unet_gradient", gradient(unet), image(2, 128, 128, 3), *UNET_SHAPES)


def vit(images, patches, head, *weights):
    x = F.conv2d(images, patches, stride=16).flatten(2).transpose(1, 2)
    for i in range(0, len(weights), 4):
        x = block(x, *weights[i:i + 4], heads=6)
    return norm(x).mean(1) @ head


case("vit_forward", vit, image(8, 224, 224, 3), kernel(16, 16, 3, 384), (384, 1000), *block_shapes(384) * 6)


def mixture(x, router, up, down):
    gates, chosen = torch.softmax(x @ router, -1).topk(2)
    result = torch.zeros_like(x)
    for expert in range(up.shape[0]):
        rows, which = torch.where(chosen == expert)
        result.index_add_(0, rows, (F.silu(x[rows] @ up[expert]) @ down[expert]) * gates[rows, which][:, None])
    return result


case("mixture_of_experts", mixture, (1024, 512), (512, 8), (8, 512, 1024), (8, 1024, 512))


def lstm(xs, w, u, b):
    """PyTorch's own layer, whose weights are transposed views."""
    zero = torch.zeros(1, xs.shape[1], u.shape[0])
    return torch.lstm(xs, (zero, zero), (w.T, u.T, b, torch.zeros_like(b)), True, 1, 0.0, False, False, False)[0]


case("lstm_scan", lstm, (128, 32, 256), (256, 1024), (256, 1024), (1024,))


def token_step(matrix):

    def step(x, keys, values, position, *weights):
        batch, d = x.shape
        at = min(int(position), keys.shape[2] - 1)
        keys, values = keys.clone(), values.clone()  # as JAX's results are new arrays
        for i in range(keys.shape[0]):
            qkv, out, up, down = weights[4 * i:4 * i + 4]
            q, k, v = (y.reshape(batch, 1, -1, 64) for y in matrix(norm(x), qkv).chunk(3, -1))
            keys[i, :, at:at + 1], values[i, :, at:at + 1] = k, v
            y = F.scaled_dot_product_attention(q.transpose(1, 2), keys[i, :, :at + 1].transpose(1, 2),
                                               values[i, :, :at + 1].transpose(1, 2))
            x = x + matrix(y.transpose(1, 2).reshape(batch, d), out)
            x = x + matrix(F.gelu(matrix(norm(x), up), approximate="tanh"), down)
        return x, keys, values

    return step


def by_s8(x, w):
    scale = x.abs().amax(-1, keepdim=True) / 127
    quantised = torch.round(x / scale).to(int8)
    padded = F.pad(quantised, (0, 0, 0, 32 - quantised.shape[0]))  # _int_mm() wants more than 16 rows
    return torch._int_mm(padded, w)[:x.shape[0]].to(x.dtype) * scale / 127


CACHE = ((4, 4, 1024, 8, 64), bfloat16)
for name, kind, matrix in (("token_step_bf16", bfloat16, torch.matmul), ("token_step_s8", int8, by_s8)):
    case(name, token_step(matrix), ((4, 512), bfloat16), CACHE, CACHE, ((), int32), *[(dims, kind) for dims in block_shapes(512) * 4])


def argument(shape, kind, seed):
    """Floats from 0.01 to 1, row numbers below 32,000, bytes below 100."""
    generator = torch.Generator().manual_seed(seed)
    if kind in (int8, int32, int64):
        return torch.randint(0, 100 if kind == int8 else 32000, shape, generator=generator, dtype=kind)
    values = (0.01 + 0.99 * torch.rand(shape, generator=generator)).to(kind)
    return values.contiguous(memory_format=torch.channels_last) if isinstance(shape, ChannelsLast) else values


class Prepared:
    """A case with its arguments; compile_time is that of the first call, less that of the second."""

    def __init__(self, name):
        function, shapes = CASES[name]
        torch._dynamo.reset()
        self.function = torch.compile(function) if "--compile" in sys.argv else function
        self.arguments = [argument(*shape, i) for i, shape in enumerate(shapes)]
        self.differentiates = "gradient" in name
        start = CLOCK()
        self()
        first = CLOCK()
        self()
        self.compile_time = max(0.0, (first - start) - (CLOCK() - first))

    def __call__(self):
        with torch.set_grad_enabled(self.differentiates):
            self.function(*self.arguments)


if __name__ == "__main__":
    torch.set_num_threads(THREADS)
    serve(CASES, Prepared, CLOCK)
