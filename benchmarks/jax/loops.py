#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Loops whose iterations compute a handful of numbers, a thousand iterations each, beside XLA:CPU as in compare.py: in one process
and in turns, the least time of ROUNDS (default 7) turns in microseconds.

    TPU_LIBRARY_PATH=build/release/libmeshlo_pjrt.so python benchmarks/jax/loops.py [ROUNDS [CASE…]]

The cases diffrax_... are there where diffrax can be imported. On a busy machine:

    BENCH_CLOCK=processor MESHLO_NUM_THREADS=1 taskset -c 1 python benchmarks/jax/loops.py
"""

import compare  # reads and sets the environment: before JAX

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

try:
    import diffrax
except ImportError:
    diffrax = None

CASES = {}
RANDOM = np.random.default_rng(0)
ROUNDS, STEP = 1000, 0.01


def case(name, function, *operands):
    def make(devices):
        placed = jax.device_put([np.asarray(operand, np.float32) for operand in operands], devices[0])
        f = jax.jit(function)
        return lambda: jax.block_until_ready(f(*placed)), 5

    CASES[name] = make


def repeated(step):
    """The state after ROUNDS steps."""
    return lambda state, *rest: lax.fori_loop(0, ROUNDS, lambda i, state: step(state, *rest), state)


def scanned(step):
    """The states of ROUNDS steps."""

    def round(state, _):
        state = step(state)
        return state, state

    return lambda state: lax.scan(round, state, None, length=ROUNDS)[1]


def lorenz(state):
    x, y, z = state
    return jnp.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])


def van_der_pol(state):
    x, y = state
    return jnp.stack([y, (1 - x * x) * y - x])


def euler(f):
    return lambda state: state + STEP * f(state)


def runge_kutta(f, h=STEP):
    def step(state, *rest):
        a = f(state, *rest)
        b = f(state + h / 2 * a, *rest)
        c = f(state + h / 2 * b, *rest)
        d = f(state + h * c, *rest)
        return state + h / 6 * (a + 2 * b + 2 * c + d)

    return step


def newton_sine(x):
    """Newton's iteration for sin(x) = x / 2, from anew where it has arrived."""

    def round(state):
        x, count = state
        return x - (jnp.sin(x) - x / 2) / (jnp.cos(x) - 0.5) + 1e-3, count + 1

    return lax.while_loop(lambda state: state[1] < ROUNDS, round, (x, 0))[0]


def adaptive(state):
    """Heun's steps of van der Pol's equation, each as long as the error of the last one allows."""

    def round(carried):
        state, h, count = carried
        a = van_der_pol(state)
        b = van_der_pol(state + h * a)
        error = jnp.max(jnp.abs(h / 2 * (b - a)))
        good = error < 1e-3
        state = jnp.where(good, state + h / 2 * (a + b), state)
        h = h * jnp.clip(0.9 * jnp.sqrt(1e-3 / (error + 1e-9)), 0.2, 5.0)
        return state, h, count + 1

    return lax.while_loop(lambda carried: carried[2] < ROUNDS, round, (state, jnp.float32(STEP), 0))[0]


def recurrent(w, u, inputs):
    def round(h, x):
        h = jnp.tanh(w @ h + u @ x)
        return h, h

    return lax.scan(round, jnp.zeros(16), inputs)[1]


def lstm(w, inputs):
    def round(carried, x):
        h, c = carried
        i, f, g, o = jnp.split(jnp.concatenate([x, h], 1) @ w, 4, 1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zeros = jnp.zeros((4, 32))
    return lax.scan(round, (zeros, zeros), inputs)[1]


def normal(*dims):
    return RANDOM.normal(size=dims) / 4


case("euler_lorenz", repeated(euler(lorenz)), [1, 1, 1])
case("runge_kutta_lorenz", scanned(runge_kutta(lorenz)), [1, 1, 1])
case("runge_kutta_van_der_pol", scanned(runge_kutta(van_der_pol)), [1, 0])
case("runge_kutta_product", repeated(runge_kutta(lambda state, a: a @ state)), [1, 0], [[0, 1], [-1, -0.1]])
case("newton", repeated(lambda x: x - (x * x - 2) / (2 * x) + 1e-3), 1)
case("newton_sine", newton_sine, 2)
case("adaptive_van_der_pol", adaptive, [1, 0])
case("recurrent_16", recurrent, normal(16, 16), normal(16, 16), normal(1000, 16))
case("lstm_32", lstm, normal(64, 128), normal(200, 4, 32))

if diffrax:
    TERM = diffrax.ODETerm(lambda t, state, arguments: van_der_pol(state))

    def tsit5(state):
        return diffrax.diffeqsolve(TERM, diffrax.Tsit5(), 0.0, 50.0, STEP, state, max_steps=4096,
                                   stepsize_controller=diffrax.PIDController(rtol=1e-5, atol=1e-5)).ys

    def thousand_steps(state):
        return diffrax.diffeqsolve(TERM, diffrax.Euler(), 0.0, 10.0, STEP, state, max_steps=4096).ys

    case("diffrax_tsit5", tsit5, [1, 0])
    case("diffrax_euler", thousand_steps, [1, 0])

if __name__ == "__main__":
    compare.main(CASES)
