# SPDX-License-Identifier: Apache-2.0
"""What JAX sees of a compiled program is the simplified one: no more operations are left than XLA:CPU leaves."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import CPU, on_cpu

# Fusions are counted by what they hold; copies and bitcasts only name layouts, and XLA wraps reducers in calls.
UNCOUNTED = {"parameter", "constant", "tuple", "get-tuple-element", "fusion", "copy", "bitcast", "call"}
OPERATION = re.compile(r"^\s+(?:ROOT )?%?[\w.-]+ = \(?[^=]*?\)? ?([a-z][a-z0-9-]*)\(")


def operations(compiled):
    found = [OPERATION.match(line) for line in compiled.as_text().splitlines()]
    return sorted(match.group(1) for match in found if match and match.group(1) not in UNCOUNTED)


def dead_loop(x):
    jax.lax.fori_loop(0, 10, lambda i, y: y * 2, x)
    return jnp.sin(x)


def same_gather(x):
    index = jnp.array([3, 1, 2])
    return x[index] + x[index]


FUNCTIONS = {
    "product with one": lambda x: jnp.sin(x) * 1.0,
    "sum with minus zero": lambda x: jnp.sin(x) + jnp.float32(-0.0),
    "double negation": lambda x: -(-jnp.sin(x)),
    "double reversal": lambda x: jnp.flip(jnp.flip(jnp.sin(x))),
    "double transposition": lambda x: jnp.sin(x).reshape(8, 16).T.T.reshape(-1),
    "reshape of a reshape": lambda x: jnp.sin(x).reshape(8, 16).reshape(16, 8).reshape(-1),
    "a loop that nothing reads": dead_loop,
    "equal gathers": same_gather,
    "equal values": lambda x: jnp.sin(x) * jnp.sin(x),
    "exact conversion": lambda x: jnp.sin(x).astype(jnp.bfloat16).astype(jnp.float32).astype(jnp.bfloat16),
    "constants": lambda x: x * (jnp.float32(2) * jnp.float32(3)),
    "the chain of all": lambda x: -(-(jnp.flip(jnp.flip(jnp.sin(x) * 1.0)))),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_more_is_left_than_xla_leaves(name):
    function, x = FUNCTIONS[name], np.linspace(-3, 3, 128, dtype=np.float32)
    ours = jax.jit(function).lower(x).compile()
    with jax.default_device(CPU):
        theirs = jax.jit(function).lower(x).compile()
    assert len(operations(ours)) <= len(operations(theirs)), (operations(ours), operations(theirs))
    np.testing.assert_allclose(np.float32(ours(x)), np.float32(on_cpu(function, x)), rtol=1e-2, atol=1e-6)


def test_costs_are_those_of_the_simplified_program():
    x = np.zeros(1 << 20, np.float32)
    costs = jax.jit(FUNCTIONS["the chain of all"]).lower(x).compile().cost_analysis()
    assert costs["bytes accessed"] == 2 * x.nbytes and costs["flops"] == 0, costs
    assert costs["transcendentals"] == x.size


def test_source_lines_survive():
    text = jax.jit(FUNCTIONS["the chain of all"]).lower(np.zeros(8, np.float32)).compile().as_text()
    (sine,) = [line for line in text.splitlines() if " sine(" in line]
    assert "test_simplified.py" in sine, sine


def test_dumps_of_the_plugin(tmp_path, monkeypatch):
    monkeypatch.setenv("MESHLO_DUMP", f"{tmp_path}:simplify")
    jax.jit(lambda x: -(-x) + 3).lower(np.zeros(8, np.float32)).compile()
    names = sorted(path.name.split(".", 2)[2] for path in tmp_path.iterdir())
    assert names == ["0001.simplify.after_simplify.txt", "after_optimizations.txt", "after_spmd_partitioning.txt",
                     "before_optimizations.txt"], names
