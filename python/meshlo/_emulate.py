# SPDX-License-Identifier: Apache-2.0
"""Timing a step on a slice, and explaining why it communicates."""
from __future__ import annotations

import html
import json
import os
from typing import Any

from meshlo._library import InvalidArgument, InvalidType, Printed, c_string, ffi, lib, made, path_text, real_number, size_text, time_text, whole_number, written
from meshlo._machine import Topology
from meshlo._program import Partitioned, load


def _slice(on: str | Topology | None) -> Topology:
    """The slice that a call names, or that the environment does."""
    name = on or os.environ.get("MESHLO_TOPOLOGY")
    if not name:
        raise InvalidArgument("which slice? on='v5e-16', or MESHLO_TOPOLOGY in the environment")
    return name if isinstance(name, Topology) else Topology(name)


def _table(rows: list[dict[str, Any]]) -> Any:
    """A pandas.DataFrame where pandas is installed, else the rows."""
    try:
        import pandas
    except ImportError:
        return rows
    return pandas.DataFrame(rows)


def framed(page: str, height: int = 700) -> str:
    """A page within a notebook's, which its styles and scripts do not reach."""
    return f'<iframe srcdoc="{html.escape(page)}" style="width:100%;height:{whole_number(height, "height")}px;border:0"></iframe>'


class Emulation:
    """One step of a program on a slice. Times are in seconds, sizes in bytes of one device.

    `as_dict()` has every number, as `meshlo emulate --json` prints them; the most wanted ones are properties.
    """

    def __init__(self, partitioned: Partitioned, topology: Topology, faults: str | None, model_flops: float = 0, tokens: float = 0):
        self.partitioned = partitioned
        self._topology = topology
        ids = partitioned.device_assignment(topology._topology) if topology.is_tpu else ffi.NULL
        arena, mesh, source = partitioned.describe_mesh()
        texts = {"faults": c_string(faults, "faults"), "mesh": mesh, "mesh_source": source}
        amounts = {"model_flops": model_flops, "tokens": tokens, "device_assignment_count": len(ids) if ids != ffi.NULL else 0}
        options = ffi.new("EmuOptions *", {"device_assignment": ids, "keeps_program": True, **amounts, **texts})
        self._report = made("EmuReport", lib.emu_report_free, lib.emu_simulate, partitioned._module, topology._topology, options)
        self._values = json.loads(written(lib.emu_report_write_json, self._report))

    def as_dict(self) -> dict[str, Any]:
        """All numbers, as `meshlo emulate --json` prints them."""
        return self._values

    @property
    def step_seconds(self) -> float:
        """How long one step takes."""
        return self._report.step_picoseconds * 1e-12

    @property
    def step_range(self) -> tuple[float, float | None]:
        """Between which seconds a measured step is likely to be, by the residuals of published measurements (`as_dict()["range"]`
        says of which). The upper end is None where it is not known: loops of unknown length, calls of unknown cost."""
        high = self._report.step_high_picoseconds
        return self._report.step_low_picoseconds * 1e-12, high * 1e-12 if high else None

    @property
    def mfu(self) -> float:
        """Model FLOP utilisation, from 0 to 1: products over what the device could do at its peak, without those that are made again for
        the backward pass. Of a program without locations it is `hfu`."""
        return self._report.mfu

    @property
    def hfu(self) -> float:
        """Hardware FLOP utilisation, from 0 to 1: `mfu` with the products that are made again."""
        return self._report.hfu

    @property
    def exposed_collective_seconds(self) -> float:
        """The part of the network's work that the device waits for."""
        return self._report.exposed_picoseconds * 1e-12

    @property
    def hbm_peak(self) -> int:
        """The most bytes that one device holds at a time."""
        return self._report.hbm_peak_bytes

    @property
    def hbm_capacity(self) -> int:
        """The bytes of a device that programs can use."""
        return self._report.hbm_capacity_bytes

    @property
    def fits(self) -> bool:
        """Whether the program fits into the memory of a device. If not, the step time is that of no real slice."""
        return self.hbm_peak <= self.hbm_capacity

    @property
    def collectives(self) -> Any:
        """A row for each collective: what it is, sends and is for (a DataFrame where pandas is installed)."""
        return _table(self.partitioned.collectives)

    @property
    def ops(self) -> Any:
        """A row for each operation of the timeline (a DataFrame where pandas is installed)."""
        return _table(self._values["ops"])

    def summary(self) -> str:
        """The table that `meshlo emulate` prints; for programs that do not fit, with the report of the TPU compiler."""
        text = written(lib.emu_report_write_summary, self._report).decode()
        return text + written(lib.emu_report_write_out_of_memory, self._report).decode()

    def html(self) -> str:
        """The report as one self-contained page."""
        return written(lib.emu_report_write_html, self._report, self._topology._topology).decode()

    def trace(self) -> str:
        """The timeline in the format of Chrome's and Perfetto's viewers."""
        return written(lib.emu_report_write_chrome_trace, self._report).decode()

    def xplane(self) -> bytes:
        """The profile as jax.profiler writes it, for XProf and TensorBoard; `jax.profiler.ProfileData` reads it too."""
        return written(lib.emu_report_write_xplane, self._report, self._topology._topology)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a file by its name's end: `.html` is the report, `.trace.json` the timeline, `.xplane.pb` the profile, `.json` the
        numbers, `.txt` the table."""
        name = path_text(path, "a report's file")
        if name.endswith(".xplane.pb"):
            with open(name, "wb") as file:
                file.write(self.xplane())
            return
        for end, make in ((".html", self.html), (".trace.json", self.trace), (".json", lambda: json.dumps(self._values, indent=1)),
                          (".txt", self.summary)):
            if name.endswith(end):
                with open(name, "w", encoding="utf-8") as file:
                    file.write(make())
                return
        raise InvalidArgument(f"{name}: a report is an .html, .trace.json, .xplane.pb, .json or .txt file")

    def show(self, height: int = 700) -> Any:
        """Shows the report in a notebook; outside of one, prints the table."""
        try:
            from IPython import get_ipython
            from IPython.display import display_html
        except ImportError:
            get_ipython = None
        if get_ipython is None or get_ipython() is None:
            print(self.summary())
            return
        display_html(framed(self.html(), height), raw=True)

    def _repr_html_(self) -> str:
        """The report, for the last value of a notebook's cell."""
        return framed(self.html())

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        fits = "" if self.fits else ", does not fit"
        return f"<meshlo.Emulation on {self._topology.name}: {time_text(self.step_seconds)} a step, {size_text(self.hbm_peak)}{fits}>"


class Explanation(Printed):
    """What the collectives of a partitioned program are for, what they cost, and what to change. `str()` is the table of
    `meshlo explain`; `as_dict()` has what its `--json` prints."""

    def __init__(self, partitioned: Partitioned, topology: Topology | None, budget: float):
        self.partitioned = partitioned
        self._topology = topology
        options = ffi.new("AdviceOptions *", {"budget_seconds": real_number(budget, "budget")})
        keep = [c_string("mesh=" if partitioned.mesh else None)]
        options.mesh_source = keep[0]
        if topology is not None:
            options.topology = topology._topology
            ids = partitioned.device_assignment(topology._topology) if topology.is_tpu else ffi.NULL
            options.device_assignment, options.device_assignment_count = ids, len(ids) if ids != ffi.NULL else 0
        self._report = made("AdviceReport", lib.advice_free, lib.advice_of_compiled, partitioned.program._module, partitioned._options,
                            partitioned._compiled, options)
        self._values = json.loads(written(lib.advice_write_json, self._report))

    def as_dict(self) -> dict[str, Any]:
        """Everything, as `meshlo explain --json` prints it."""
        return self._values

    @property
    def collectives(self) -> list[dict[str, Any]]:
        """For each: name, opcode, computation, bytes that one device sends each time, group_size, num_groups, trip_count
        (None if unknown), reason, source, remedy."""
        return self.partitioned.collectives

    @property
    def groups(self) -> list[dict[str, Any]]:
        """Collectives of equal layers together, the most expensive first: kind, opcode, axes, what, scope, source, cause, sites, count,
        bytes_per_device, and with a slice network_seconds and exposed_seconds."""
        return self._values["groups"]

    @property
    def suggestions(self) -> list[dict[str, Any]]:
        """Changes that were tried and help, the fastest first: change (in JAX's words), options, step_seconds, hbm_peak_bytes,
        bytes_per_device, fits."""
        return self._values["suggestions"]

    @property
    def donation(self) -> dict[str, Any] | None:
        """A donation of arguments that the program lacks and that lowers the peak: as a suggestion, without options. None: there is none."""
        return self._values.get("donation")

    @property
    def total_bytes(self) -> int:
        """What one device sends in a step."""
        return self.partitioned.total_bytes

    def __str__(self) -> str:
        return written(_print_advice, self._report).decode()

    def __repr__(self) -> str:
        return f"<meshlo.Explanation: {len(self.collectives)} collectives, {size_text(self.total_bytes)} sent by a device>"


def _print_advice(report: Any, text: Any) -> None:
    lib.advice_print(text, report)


def partition(program: Any, *, mesh: Any = None, shard: Any = None, num_partitions: int = 0, overlap: bool = False,
              on: str | Topology | None = None) -> Partitioned:
    """The program of one device of a mesh.

    `mesh` is a dict of axes and sizes, `data=4,model=2`, or a `jax.sharding.Mesh`; without it the program's own. `shard` gives
    shardings by parameter: `{0: P("data", None), "p1": "-,model"}`, or the command's texts, `["p0=data,-", "r0=data,-"]`.
    `overlap` splits collectives into halves that computation runs beside. Where several plans are possible, the fastest on the slice
    `on` is taken, without one the plan that sends the fewest bytes.
    """
    return Partitioned(load(program), mesh, shard, num_partitions, overlap, None if on is None else _slice(on))


def explain(program: Any, *, on: str | Topology | None = None, mesh: Any = None, shard: Any = None, num_partitions: int = 0,
            budget: float = 10.0) -> Explanation:
    """Why the program communicates when it is sharded in this way: see `partition()` for the arguments.

    With a slice (`on`) it says what each collective costs, and tries changes of the shardings for up to `budget` seconds.
    """
    where = None if on is None else _slice(on)
    overlap = where is not None and where.overlaps
    return Explanation(
        partition(program, mesh=mesh, shard=shard, num_partitions=num_partitions, overlap=overlap, on=where), where, budget)


def emulate(program: Any, on: str | Topology | None = None, *, mesh: Any = None, shard: Any = None, num_partitions: int = 0,
            faults: str | None = None, overlap: bool | None = None, model_flops: float = 0, tokens: float = 0) -> Emulation:
    """Times one step of a program on a slice of the real machine: see `partition()` for mesh and shard.

    `on` names the slice (`v5e-16`; default: MESHLO_TOPOLOGY). `faults` asks what if: `link:0-1:0.5`, `straggler:3:1.2`,
    `dead:5`. `overlap` says whether computation runs beside collectives; by default where the chip can. `model_flops` are the
    operations of the model in a step of all devices, for `mfu` (default: counted); `tokens` those of a step, for tokens a second.
    """
    where = _slice(on)
    if not isinstance(overlap, (bool, type(None))):
        raise InvalidType(f"overlap is True or False, not {overlap!r}")
    if overlap is None:
        overlap = where.overlaps
    model_flops, tokens = real_number(model_flops, "model_flops"), real_number(tokens, "tokens")
    one = program if isinstance(program, Partitioned) else partition(
        program, mesh=mesh, shard=shard, num_partitions=num_partitions, overlap=overlap, on=where)
    return Emulation(one, where, faults, model_flops, tokens)
