# SPDX-License-Identifier: Apache-2.0
"""The search for the mesh and the shardings that give the least step."""
from __future__ import annotations

import json
import math
import time
from typing import Any, Callable, Mapping, Sequence

from meshlo._emulate import Emulation, _slice, emulate
from meshlo._library import InvalidArgument, InvalidType, Printed, c_string, c_strings, ffi, lib, made, one_of, real_number, size_text, text_of, time_text, written
from meshlo._machine import Topology
from meshlo._program import Program, load, mesh_text, shard_texts

_OBJECTIVES = {"time": "ADVICE_LEAST_TIME", "memory": "ADVICE_LEAST_MEMORY", "cost": "ADVICE_LEAST_COST"}


def _spec(text: str) -> Any:
    """A sharding of the library, `data,-,a+b`, as JAX's PartitionSpec; without JAX as a tuple like one."""
    items = tuple(None if one == "-" else tuple(one.split("+")) if "+" in one else one for one in text.split(",")) if text else ()
    while items and items[-1] is None:
        items = items[:-1]
    try:
        from jax.sharding import PartitionSpec
    except ImportError:
        return items
    return PartitionSpec(*items)


class Plan(Printed):
    """A mesh, and a sharding of every argument. `str()` is the table of `meshlo plan`.

    `in_specs` and `out_specs` have the structure of the function's arguments and results, with a PartitionSpec for each array:

        plan = meshlo.plan(jax.jit(step).lower(*arguments), on="v5e-16")
        mesh = plan.make_mesh()
        step = jax.jit(step, in_shardings=plan.in_shardings(mesh), out_shardings=plan.out_shardings(mesh))
    """

    def __init__(self, program: Program, report: Any, topologies: list[Topology]):
        self.program = program
        self._report = report
        self._topologies = topologies
        self._values = json.loads(written(lib.advice_plan_write_json, report))
        best = report.best
        self._parameters = [text_of(best.parameters[i]) or "" for i in range(report.parameter_count)]
        self._results = [text_of(best.results[i]) or "" for i in range(report.result_count)]
        self._mesh = {text_of(best.axes[i].name) or "": int(best.axes[i].size) for i in range(best.axis_count)}

    def as_dict(self) -> dict[str, Any]:
        """Everything, as `meshlo plan --json` prints it."""
        return self._values

    @property
    def on(self) -> str:
        """The slice: one of those that the search was given."""
        return str(self._values["topology"])

    @property
    def mesh(self) -> dict[str, int]:
        """The axes of the mesh with their sizes, major first."""
        return dict(self._mesh)

    @property
    def step_seconds(self) -> float:
        """How long one step takes."""
        return float(self._values["step_seconds"])

    @property
    def hbm_peak(self) -> int:
        """The most bytes that one device holds at a time."""
        return int(self._values["hbm_peak_bytes"])

    @property
    def fits(self) -> bool:
        """Whether a device has the memory. If not, no plan was found that fits, and this is the smallest."""
        return bool(self._values["fits"])

    @property
    def evaluated(self) -> int:
        """How many plans were timed."""
        return int(self._values["evaluated"])

    @property
    def front(self) -> list[dict[str, Any]]:
        """The plans of other meshes and slices that no other beats in both time and memory: topology, mesh, step_seconds,
        hbm_peak_bytes, fits."""
        return list(self._values["front"])

    @property
    def specs(self) -> dict[str, Any]:
        """The PartitionSpec of each argument by its name, as JAX writes it: params['layers'][0]['wq']."""
        return {name: _spec(text) for name, text in self._values["shardings"].items()}

    @property
    def shard(self) -> list[str]:
        """The shardings as the other functions take them: `meshlo.emulate(program, plan.on, mesh=plan.mesh, shard=plan.shard)`."""
        return [f"p{index}={text}" for index, text in enumerate(self._parameters) if text]

    @property
    def in_specs(self) -> Any:
        """The PartitionSpecs in the structure of the positional arguments, for a program that JAX lowered or exported; else a list.
        Those of keyword arguments are in `specs`."""
        return self._inputs([_spec(text) for text in self._parameters], _spec(""))

    @property
    def out_specs(self) -> Any:
        """The same of the results."""
        return self._outputs([_spec(text) for text in self._results])

    def in_shardings(self, mesh: Any) -> Any:
        """`in_specs` as NamedShardings on a jax.sharding.Mesh, for `jax.jit(f, in_shardings=…)` and `jax.device_put`."""
        return self._inputs([_named(mesh, text) for text in self._parameters], _named(mesh, ""))

    def out_shardings(self, mesh: Any) -> Any:
        """`out_specs` likewise, for `jax.jit(f, out_shardings=…)`."""
        return self._outputs([_named(mesh, text) for text in self._results])

    def make_mesh(self, devices: Any = None) -> Any:
        """The jax.sharding.Mesh of the plan, of `jax.devices()` or of these. Its axes are Auto: the partitioner propagates."""
        import jax

        sizes, names = tuple(self._mesh.values()), tuple(self._mesh)
        count = len(jax.devices() if devices is None else devices)
        if count < math.prod(sizes):
            raise InvalidArgument(f"the mesh of the plan, {self._mesh}, has {math.prod(sizes)} devices and JAX {count}: `with "
                                  f"meshlo.devices_of({self.on!r}):` before the first use of JAX gives it those of the slice")
        if not hasattr(jax.sharding, "AxisType"):
            return jax.make_mesh(sizes, names, devices=devices)
        return jax.make_mesh(sizes, names, devices=devices, axis_types=(jax.sharding.AxisType.Auto,) * len(names))

    def emulate(self) -> Emulation:
        """Times the step of this plan again, with everything that `meshlo.emulate` reports."""
        where = next(one for one in self._topologies if one.name == self.on)
        return emulate(self.program, where, mesh=self._mesh, shard=self.shard)

    def apply(self) -> Program:
        """The program with the plan's annotations."""
        module = made("HloModule", lib.hlo_module_free, lib.advice_plan_apply, self.program._module, self._report)
        return Program._of(module, self.program)

    def _inputs(self, leaves: list[Any], unused: Any) -> Any:
        tree = self.program.in_tree
        if tree is None:
            return leaves
        kept = self.program._kept if self.program._kept is not None else range(tree.num_leaves)
        if len(kept) != len(leaves):
            return leaves
        every = [unused] * tree.num_leaves
        for index, leaf in zip(kept, leaves):
            every[index] = leaf
        return tree.unflatten(every)[0]

    def _outputs(self, leaves: list[Any]) -> Any:
        tree = self.program.out_tree
        return leaves if tree is None or tree.num_leaves != len(leaves) else tree.unflatten(leaves)

    def __str__(self) -> str:
        return written(_print_plan, self._report).decode()

    def __repr__(self) -> str:
        fits = "" if self.fits else ", does not fit"
        return f"<meshlo.Plan on {self.on}, {mesh_text(self._mesh)}: {time_text(self.step_seconds)} a step, {size_text(self.hbm_peak)}{fits}>"


def _print_plan(report: Any, text: Any) -> None:
    lib.advice_plan_print(text, report)


def _named(mesh: Any, text: str) -> Any:
    from jax.sharding import NamedSharding

    return NamedSharding(mesh, _spec(text))


def _prices(topologies: list[Topology], price: Mapping[str, float] | None, objective: str) -> Any:
    """What a chip of each slice costs an hour, as a C array, -1 where there is no price; NULL without any."""
    if price is not None and not isinstance(price, Mapping):
        raise InvalidType(f"price is a dict, {{'v5e': 1.2}}, not {price!r}")
    given = dict(price or {})
    names = [text_of(one._topology.chip.name) or "" for one in topologies]
    missing = sorted({name for name in names if name not in given})
    if objective != "cost" and not given:
        return ffi.NULL
    if missing and objective == "cost":
        raise InvalidArgument(f"the least cost needs price={{{missing[0]!r}: …}}, what a chip costs an hour")
    priced = [name for name in names if name in given]
    wrong = sorted(name for name in priced if not isinstance(given[name], (int, float)) or not 0 <= given[name] < math.inf)
    if wrong:
        raise InvalidArgument(f"price is what a chip costs an hour, from 0 on, not {{{wrong[0]!r}: {given[wrong[0]]!r}}}")
    return ffi.new("double[]", [float(given.get(name, -1)) for name in names])


def plan(program: Any, on: str | Topology | Sequence[str | Topology] | None = None, *, mesh: Any = None, keep: Any = None,
         objective: str = "time", price: Mapping[str, float] | None = None, budget: float = 60.0,
         progress: Callable[[int, float, float], Any] | None = None) -> Plan:
    """Searches for the mesh and the shardings of all arguments that give the least step within the memory of a device.

    `on` is a slice or several. `mesh` limits the meshes: `"data=*,model=*"` (the default where the program has no axes),
    `{"data": 4, "model": "*"}`. `keep` gives shardings that the plan must have, as `shard` does elsewhere. `objective` is
    `time`, `memory`, or `cost` with `price={"v5e": 1.2}`. The search ends after `budget` seconds with the best so far.
    `progress(evaluated, best_seconds, share)` is called now and then; best_seconds is 0 while nothing fits.
    """
    one_of(objective, tuple(_OBJECTIVES), "objective")
    if not real_number(budget, "budget") > 0:
        raise InvalidArgument(f"budget is a number of seconds above 0, not {budget!r}")
    if progress is not None and not callable(progress):
        raise InvalidType(f"progress is a function, not {progress!r}")
    one = load(program)
    if one.is_per_device and one.num_partitions > 1:
        raise InvalidArgument("the program is that of one device already, and no longer sharded: plan what jax.jit(f).lower() gives")
    slices: list[Any] = list(on) if isinstance(on, (list, tuple, set)) else [on]
    topologies = [_slice(name) for name in slices]
    if not topologies:
        raise InvalidArgument("which slice? on='v5e-16'")
    stopped: list[BaseException] = []

    def call(_: Any, now: Any) -> bool:
        if progress is not None:
            progress(now.evaluated, now.step_picoseconds * 1e-12, now.share)
        time.sleep(0)  # lets Python see an interrupt
        return True

    # An interrupt, or an error of the caller's, ends the search and then is raised.
    callback = ffi.callback("bool(void *, const AdvicePlanProgress *)", call, error=False,
                            onerror=lambda kind, value, trace: stopped.append(value))
    given = ffi.new("EmuTopology *[]", [where._topology for where in topologies])
    kept = shard_texts(keep)
    pattern, (keeps, strings) = c_string(mesh_text(mesh), "a mesh"), c_strings(kept, "a sharding")
    prices, option = _prices(topologies, price, objective), c_string("keep")
    options = ffi.new("AdvicePlanOptions *", {
        "topologies": ffi.cast("const EmuTopology *const *", given), "topology_count": len(topologies), "mesh": pattern,
        "kept": keeps, "kept_count": len(kept), "kept_option": option, "objective": getattr(lib, _OBJECTIVES[objective]),
        "prices": prices, "budget_seconds": budget, "progress": callback})
    report = made("AdvicePlan", lib.advice_plan_free, lib.advice_plan_new, one._module, options)
    if stopped:
        raise stopped[0]
    return Plan(one, report, topologies)
