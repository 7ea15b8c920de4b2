# SPDX-License-Identifier: Apache-2.0
"""Where two ways of computing a program first differ."""
from __future__ import annotations

import json
from typing import Any, Mapping, Sequence

from meshlo._arrays import literal_of
from meshlo._library import InvalidArgument, InvalidType, Printed, c_string, c_strings, ffi, lib, made, one_of, real_number, written
from meshlo._machine import Topology
from meshlo._program import Program, SpmdArguments, load
from meshlo._run import _NUMERICS, _flatten

_KEYS = ("on", "mesh", "shard", "num_partitions", "numerics", "passes")


def _way(program: Program, way: Any, what: str) -> tuple[Any, list[Any]]:
    """One way of computing a program as the library's AdviceRun, and what it points to."""
    if isinstance(way, str):
        named = {"exact": {}, "tpu": {"numerics": "tpu"}, "compiled": {"on": "cpu"}}
        if way not in named:
            raise InvalidArgument(f"{what} is 'exact', 'tpu', 'compiled', a list of passes or a dict, not {way!r}")
        way = named[way]
    elif isinstance(way, (list, tuple)):
        way = {"passes": way}
    elif not isinstance(way, Mapping):
        raise InvalidArgument(f"{what} is 'exact', 'tpu', 'compiled', a list of passes or a dict, not {type(way).__name__}")
    unknown = [key for key in way if key not in _KEYS]
    if unknown:
        raise InvalidArgument(f"{what} has no key {unknown[0]!r}: {', '.join(_KEYS)}")
    one_of(way.get("numerics"), tuple(_NUMERICS), "numerics")
    run = ffi.new("AdviceRun *", {"numerics": getattr(lib, _NUMERICS[way.get("numerics")])})
    keep: list[Any] = [run]
    sharded = way.get("mesh") is not None or way.get("shard") is not None or way.get("num_partitions")
    machine = way.get("on") or ("cpu" if sharded else None)
    machine = machine.name if isinstance(machine, Topology) else machine
    if machine is not None:
        arguments = SpmdArguments(program, way.get("mesh"), way.get("shard"), way.get("num_partitions") or 0)
        run.spmd = arguments.options[0]
        keep += [arguments, c_string(f"cpu:{arguments.device_count}" if machine == "cpu" else machine, "a slice")]
        run.machine = keep[-1]
    passes = way.get("passes") or ()
    if not isinstance(passes, (str, list, tuple)):
        raise InvalidType(f"passes are names, ['simplify'], not {passes!r}")
    if passes:
        names = [passes] if isinstance(passes, str) else list(passes)
        run.passes, strings = c_strings(names, "a pass")
        run.pass_count = len(names)
        keep += strings
    return run, keep


class Difference(Printed):
    """The first instruction whose value differs. `str()` is a description, `bool()` says whether there is one.

    `name`, `opcode`, `shape`, `scope` and `source` are the instruction's; `place` names the loops, branches and calls around it
    (`while.3, iteration 17`), `index` its first element out of tolerance, `a` and `b` the numbers there, and `error` its largest
    error, in units of the root mean square of the array. They are None where nothing differs.
    """

    def __init__(self, report: Any):
        self._values = json.loads(written(lib.advice_difference_write_json, report))
        self._text = written(_print_difference, report).decode()
        first = self._values["first"] if self._values["found"] else {}
        self.name: str | None = first.get("name")
        self.opcode: str | None = first.get("opcode")
        self.shape: str | None = first.get("shape")
        self.scope: str | None = first.get("scope")
        self.source: str | None = first.get("source")
        self.error: float | None = first.get("error")
        self.place: str | None = self._values["place"] if first else None
        self.index: str | None = self._values["index"] if first else None
        self.a: float | None = self._values["a"] if first else None
        self.b: float | None = self._values["b"] if first else None

    @property
    def values(self) -> list[dict[str, Any]]:
        """The errors of the instructions in the same place, in the order of execution: name, opcode, shape, scope, source, error,
        growth (over the worst operand's; 0 where no operand has an error), differs."""
        return self._values["values"]

    @property
    def results(self) -> list[dict[str, Any]]:
        """The errors of the program's results."""
        return self._values["results"]

    @property
    def iterations(self) -> list[dict[str, Any]]:
        """How the error of the innermost loop's state grows: after (how many iterations), error."""
        return self._values["iterations"]

    def as_dict(self) -> dict[str, Any]:
        """Everything."""
        return self._values

    def __bool__(self) -> bool:
        return self._values["found"]

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"<meshlo.Difference at {self.name}>" if self else "<meshlo.Difference: none>"


def _print_difference(report: Any, text: Any) -> None:
    lib.advice_difference_print(text, report)


def first_difference(f: Any, args: Sequence[Any] = (), a: Any = "exact", b: Any = "tpu", *, rtol: float | None = None,
                     atol: float | None = None) -> Difference:
    """Computes a program in two ways, and finds the first instruction whose value differs beyond a tolerance.

    `f` is a function, which JAX lowers for `args`, or a program as for `load()`. `a` and `b` are `"exact"` (the reference evaluator
    on whole arrays), `"tpu"` (the same with products rounded as on a TPU), `"compiled"` (compiled for this processor), a list
    of passes that run first (`["simplify"]`), or a dict with some of `on`, `mesh`, `shard`, `num_partitions`, `numerics`
    and `passes`: `dict(on="v5e-8", mesh="data=8", shard={0: P("data")})`.

    Loops, branches and calls are entered: of a loop, the first iteration that differs. Numbers differ if |b - a| is above
    `atol + rtol * |a|`; without these the tolerances depend on the element types, and on how many roundings in a row led to the numbers.
    """
    source = f
    if callable(f) and not hasattr(f, "compiler_ir") and not hasattr(f, "mlir_module_serialized"):
        import jax

        source = (f if hasattr(f, "lower") else jax.jit(f)).lower(*args)
    program = load(source)
    one, keep_one = _way(program, a, "a")
    two, keep_two = _way(program, b, "b")
    leaves = _flatten(program, args)
    parameters = program._module.entry.parameters
    if len(leaves) != parameters.count:
        raise InvalidArgument(f"args: the program has {parameters.count} arguments, not {len(leaves)}")
    literals = [literal_of(value, parameters.items[index].shape, f"argument {index}") for index, value in enumerate(leaves)]
    given = ffi.new("HloLiteral *[]", literals or [ffi.NULL])
    options = ffi.new("AdviceDifferenceOptions *", {
        "relative": real_number(rtol or 0, "rtol"), "absolute": real_number(atol or 0, "atol"), "is_relative_set": rtol is not None, "is_absolute_set": atol is not None})
    return Difference(made("AdviceDifference", lib.advice_difference_free, lib.advice_first_difference, program._module,
                           ffi.cast("const HloLiteral *const *", given), len(literals), one, two, options))
