# SPDX-License-Identifier: Apache-2.0
"""What JAX sees of a compiled program is the simplified one: no more operations are left than XLA:CPU leaves."""

import pathlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxlib import _hlo, _jax
from support import CPU, DEVICES, on_cpu

# Fusions are counted by what they hold; copies and bitcasts only name layouts, and XLA wraps reducers in calls.
UNCOUNTED = {"parameter", "constant", "tuple", "get-tuple-element", "fusion", "copy", "bitcast", "call"}
OPERATION = re.compile(r"^\s+(?:ROOT )?%?[\w.-]+ = \(?[^=]*?\)? ?([a-z][a-z0-9-]*)\(")


# The rows of the table that the C tests read: name, computations, body, the operations left, those that XLA leaves.
TABLE = pathlib.Path(__file__).parents[2] / "compile" / "cases.def"
ROW = re.compile(r'SIMPLIFIES\("(.*?)", "(.*?)",\n\s+"(.*?)",\n\s+"(.*?)", "(.*?)"\)')


def operations(text, uncounted=UNCOUNTED):
    found = [OPERATION.match(line) for line in text.splitlines()]
    return sorted(match.group(1) for match in found if match and match.group(1) not in uncounted)


def compiled_text(device, program):
    stablehlo = _jax.mlir.hlo_to_stablehlo(_hlo.hlo_module_from_text(program).as_serialized_hlo_module_proto())
    executable = device.client.compile_and_load(stablehlo, _jax.DeviceList((device,)), _jax.CompileOptions())
    return executable.hlo_modules()[0].to_string()


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
    ours_left, theirs_left = operations(ours.as_text()), operations(theirs.as_text())
    assert len(ours_left) <= len(theirs_left), (ours_left, theirs_left)
    np.testing.assert_allclose(np.float32(ours(x)), np.float32(on_cpu(function, x)), rtol=1e-2, atol=1e-6)


def test_table_of_what_is_left():
    """The plugin leaves what the table of the C tests says, and XLA:CPU what its last column says."""
    rows = [[part.replace("\\n", "\n") for part in row] for row in ROW.findall(TABLE.read_text())]
    assert len(rows) > 80
    wrong = []
    for name, computations, body, left, left_by_xla in rows:
        program = (f"HloModule t\n{computations}ENTRY e {{\n p = f32[6] parameter(0)\n n = s32[6] parameter(1)\n {body}\n}}\n")
        ours = " ".join(operations(compiled_text(DEVICES[0], program), {"parameter", "constant", "tuple"}))
        theirs = " ".join(operations(compiled_text(CPU, program)))
        if (ours, theirs) != (left, left_by_xla):
            wrong.append(f"{name}: {ours} | {theirs} instead of {left} | {left_by_xla}")
    assert not wrong, "\n".join(wrong)


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
