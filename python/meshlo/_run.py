# SPDX-License-Identifier: Apache-2.0
"""Running programs on virtual devices, and evaluating them."""
from __future__ import annotations

from typing import Any, Sequence

from meshlo._arrays import array_of, literal_of
from meshlo._library import InvalidArgument, c_string, check, ffi, lib, made, one_of
from meshlo._machine import Topology
from meshlo._program import Program, SpmdArguments, load

_NUMERICS = {None: "TARGET_NUMERICS_DEFAULT", "exact": "TARGET_NUMERICS_EXACT", "tpu": "TARGET_NUMERICS_TPU"}


def _flatten(program: Program, inputs: Any) -> list[Any]:
    """The arrays of the arguments, without those that JAX dropped because nothing uses them."""
    if isinstance(inputs, (list, tuple)) and not any(isinstance(one, (dict, list, tuple)) for one in inputs):
        leaves = list(inputs)
    else:
        try:
            import jax
        except ImportError as missing:
            raise InvalidArgument("inputs: without JAX, a flat list of arrays") from missing
        leaves = jax.tree_util.tree_leaves(inputs)
    if program._kept is not None and program.in_tree is not None and len(leaves) == program.in_tree.num_leaves:
        leaves = [leaves[index] for index in program._kept]
    return leaves


def _unflatten(program: Program, arrays: list[Any]) -> Any:
    """The results in the structure that the function has, where it is known."""
    if program.out_tree is not None and program.out_tree.num_leaves == len(arrays):
        return program.out_tree.unflatten(arrays)
    return arrays


def _literals(program: Program, leaves: Sequence[Any], boundary: Any) -> list[Any]:
    """The inputs as literals of the shapes that the program wants."""
    if len(leaves) != boundary.parameter_count:
        raise InvalidArgument(f"inputs: the program has {boundary.parameter_count} arguments, not {len(leaves)}")
    return [literal_of(value, getattr(boundary.parameters[index], "global"), f"input {index}") for index, value in enumerate(leaves)]


def run(program: Any, inputs: Any = (), on: str | Topology = "cpu", *, mesh: Any = None, shard: Any = None, num_partitions: int = 0,
        numerics: str | None = None) -> Any:
    """Runs a program with real numbers on the virtual devices of a machine, and returns NumPy arrays: in the structure of the
    function's results for a program that JAX lowered, else a list.

    `inputs` are the arguments: a list of arrays, or the nested arguments of the JAX function. `on` is `cpu`, `cpu:8` or a
    slice; on slices f32 products are rounded as on the chip unless `numerics="exact"`.
    """
    one_of(numerics, tuple(_NUMERICS), "numerics")
    one = load(program)
    arguments = SpmdArguments(one, mesh, shard, num_partitions)
    machine = f"cpu:{arguments.device_count}" if on == "cpu" else on.name if isinstance(on, Topology) else on
    client = made("TargetClient", lib.target_client_release, lib.target_client_new, c_string(machine, "a slice"))
    options = ffi.new("TargetProgramOptions *", {"numerics": getattr(lib, _NUMERICS[numerics])})
    options.spmd = arguments.options[0]
    compiled = made("TargetProgram", lib.target_program_free, lib.target_program_new, client, one._module, options)
    boundary = lib.target_program_boundary(compiled)
    literals = _literals(one, _flatten(one, inputs), boundary)
    given = ffi.new("HloLiteral *[]", literals or [ffi.NULL])
    results = ffi.new("HloLiteral *[]", max(1, boundary.result_count))
    check(lib.target_program_call(compiled, ffi.cast("const HloLiteral *const *", given), len(literals), results))
    owned = [ffi.gc(results[i], lib.hlo_literal_free) for i in range(boundary.result_count)]
    return _unflatten(one, [array_of(literal) for literal in owned])


def evaluate(program: Any, inputs: Any = (), *, numerics: str = "exact") -> Any:
    """The results by the reference evaluator: one device, one instruction at a time, slow and right. As `run()` otherwise."""
    one_of(numerics, ("exact", "tpu"), "numerics")
    one = load(program)
    leaves = _flatten(one, inputs)
    entry = one._module.entry
    count = entry.parameters.count
    if len(leaves) != count:
        raise InvalidArgument(f"inputs: the program has {count} arguments, not {len(leaves)}")
    # Whole arrays do not fit the program of one device of several: the sentence says so.
    device = f" of one of {one.num_partitions} devices" if one.is_per_device and one.num_partitions > 1 else ""
    literals = [literal_of(value, entry.parameters.items[index].shape, f"input {index}", device) for index, value in enumerate(leaves)]
    options = ffi.new("HloEvalOptions *", {"numerics": lib.HLO_NUMERICS_TPU if numerics == "tpu" else lib.HLO_NUMERICS_EXACT})
    given = ffi.new("HloLiteral *[]", literals or [ffi.NULL])
    result = made("HloLiteral", lib.hlo_literal_free, lib.hlo_evaluate, one._module, ffi.cast("const HloLiteral *const *", given),
                  len(literals), options)
    return _unflatten(one, _leaves(result))


def _leaves(literal: Any) -> list[Any]:
    """The arrays of a result, depth first."""
    if literal.shape.type != lib.HLO_TUPLE:
        return [array_of(literal)]
    return [leaf for index in range(literal.shape.element_count) for leaf in _leaves(literal.elements[index])]
