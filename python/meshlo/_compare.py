# SPDX-License-Identifier: Apache-2.0
"""Several plans side by side: what they cost, and which of their collectives differ."""
from __future__ import annotations

import inspect
import os
from collections.abc import Iterable, Mapping
from typing import Any

from meshlo._emulate import Emulation, emulate, framed
from meshlo._library import Error, InvalidArgument, InvalidType, Printed, c_string, c_strings, check, ffi, lib, path_text, size_text, text_of, time_text, written
from meshlo._machine import Topology
from meshlo._program import _axes, load, mesh_text


def _grid(rows: list[list[str]]) -> str:
    """Columns aligned: the first to the left, the others to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join([row[0].ljust(widths[0])] + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]) for row in rows]
    return "\n".join(line.rstrip() for line in lines)


def _row(name: str, one: Emulation) -> dict[str, Any]:
    numbers = one.as_dict()
    utilisation = text_of(lib.emu_utilisation_name(one._report.names_scopes))
    return {"name": name, "step_seconds": one.step_seconds, "mfu": one.mfu, "utilisation": utilisation, "hbm_peak": one.hbm_peak, "fits": one.fits,
            "bytes": numbers["collective_bytes_per_device"], "exposed_seconds": one.exposed_collective_seconds}


class Comparison:
    """Emulations by name. `rows` has the numbers of each, `differences(a, b)` the collectives that two do not share; `str()` is a
    table."""

    def __init__(self, emulations: dict[str, Emulation]):
        self.emulations = emulations

    @property
    def rows(self) -> list[dict[str, Any]]:
        """For each: name, step_seconds, mfu, utilisation (what `mfu` is: "MFU", or "HFU" of a program without locations), hbm_peak, fits,
        bytes (sent by a device), exposed_seconds."""
        return [_row(name, one) for name, one in self.emulations.items()]

    @property
    def best(self) -> str:
        """The name of the fastest that fits; `InvalidArgument` if none does."""
        fitting = [row for row in self.rows if row["fits"]]
        if not fitting:
            raise InvalidArgument("none of them fits")
        return min(fitting, key=lambda row: row["step_seconds"])["name"]

    def differences(self, first: str, second: str) -> list[dict[str, Any]]:
        """By kind and source line, where two differ: opcode, source, and the bytes that a device sends in `first` and `second`."""
        unknown = [name for name in (first, second) if name not in self.emulations]
        if unknown:
            raise InvalidArgument(f"no emulation is called {unknown[0]!r}: {', '.join(self.emulations)}")
        sums: dict[tuple[str, str], list[int]] = {}
        for index, name in enumerate((first, second)):
            for one in self.emulations[name].partitioned.collectives:
                key = (one["opcode"].removesuffix("-start"), one["source"])
                sums.setdefault(key, [0, 0])[index] += one["bytes"] * (one["trip_count"] or 1)
        return [{"opcode": opcode, "source": source, "first": before, "second": after}
                for (opcode, source), (before, after) in sorted(sums.items(), key=lambda item: -abs(item[1][1] - item[1][0])) if before != after]

    def html(self) -> str:
        """One self-contained page with all of them side by side."""
        every = list(self.emulations.items())
        names, strings = c_strings([name for name, _ in every], "a name")
        reports = ffi.new("EmuReport *[]", [one._report for _, one in every])
        topologies = ffi.new("EmuTopology *[]", [one._topology._topology for _, one in every])
        return written(lib.emu_report_write_comparison_html, ffi.cast("const EmuReport *const *", reports),
                       ffi.cast("const EmuTopology *const *", topologies),
                       names, len(every)).decode()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the page (`.html`) or the table (`.txt`)."""
        name = path_text(path, "a comparison's file")
        if not name.endswith((".html", ".txt")):
            raise InvalidArgument(f"{name}: a comparison is an .html or .txt file")
        with open(name, "w", encoding="utf-8") as file:
            file.write(self.html() if name.endswith(".html") else f"{self}\n")

    def _repr_html_(self) -> str:
        """The page, for the last value of a notebook's cell."""
        return framed(self.html())

    def __str__(self) -> str:
        table = [["", "step", "utilisation", "peak memory", "sent", "waiting for the network"]]
        for row in self.rows:
            table.append([row["name"], time_text(row["step_seconds"]), f"{row['utilisation']} {100 * row['mfu']:.1f} %", size_text(row["hbm_peak"]) + ("" if row["fits"] else " (does not fit)"),
                          size_text(row["bytes"]), f"{100 * row['exposed_seconds'] / row['step_seconds']:.1f} %" if row["step_seconds"] else ""])
        return _grid(table)

    def __repr__(self) -> str:
        return f"<meshlo.Comparison of {', '.join(self.emulations)}>"


# What `emulate()` takes.
_ARGUMENTS = ("program", *(name for name in inspect.signature(emulate).parameters if name != "program"))


def compare(alternatives: Mapping[str, Any], on: str | Topology | None = None, *, mesh: Any = None, shard: Any = None) -> Comparison:
    """Emulates several plans: {"now": lowered, "sharded": other}, or of one program {"wide": dict(program=lowered, mesh="data=8")}.
    A value is a program, or a dict of arguments for `emulate()`; what it does not say is taken from here."""
    if not isinstance(alternatives, Mapping):
        raise InvalidType(f"alternatives are a dict, {{'now': lowered, 'sharded': other}}, not {alternatives!r}")
    if not alternatives:
        raise InvalidArgument("nothing to compare")
    results = {}
    for name, one in alternatives.items():
        unknown = [key for key in one if key not in _ARGUMENTS] if isinstance(one, Mapping) else []
        if unknown or isinstance(one, Mapping) and "program" not in one:
            wrong = f"has no argument {unknown[0]!r}" if unknown else "has no program"
            raise InvalidArgument(f"alternative {name!r} {wrong}: {', '.join(_ARGUMENTS)}")
        arguments = {"on": on, "mesh": mesh, "shard": shard} | (dict(one) if isinstance(one, Mapping) else {"program": one})
        results[str(name)] = emulate(**arguments)
    return Comparison(results)


def _meshes(pattern: str | None, devices: int) -> list[str | None]:
    """The meshes that `data=*,model=4` allows on this many devices; those with sizes alone may leave devices over."""
    if pattern is None:
        return [None]
    if "*" not in pattern:
        return [pattern] if _axes(pattern) else []
    arena, meshes, count = ffi.gc(lib.hlo_arena_new(), lib.hlo_arena_free), ffi.new("AdviceMesh **"), ffi.new("int64_t *")
    check(lib.advice_meshes(arena, c_string(pattern, "a mesh"), devices, False, meshes, count))
    return [",".join(f"{text_of(axis.name)}={axis.size}" for axis in mesh.axes[0:mesh.count]) for mesh in meshes[0][0:count[0]]]


class Sweep(Printed):
    """The results of `sweep()`, those that fit first, the fastest first. `rows` has the numbers, `str()` is a table, `failures` has what
    could not be emulated, with the reason."""

    def __init__(self, rows: list[dict[str, Any]], failures: list[dict[str, str]]):
        self.rows = sorted(rows, key=lambda row: (not row["fits"], row["step_seconds"]))
        self.failures = failures

    @property
    def best(self) -> dict[str, Any]:
        """The row of the fastest that fits; `InvalidArgument` if none does."""
        if not self.rows or not self.rows[0]["fits"]:
            raise InvalidArgument("none of them fits")
        return self.rows[0]

    def __str__(self) -> str:
        table = [["slice", "mesh", "step", "utilisation", "peak memory", "sent"]]
        for row in self.rows:
            table.append([row["on"], row["mesh"] or "the program's", time_text(row["step_seconds"]), f"{row['utilisation']} {100 * row['mfu']:.1f} %",
                          size_text(row["hbm_peak"]) + ("" if row["fits"] else " (does not fit)"), size_text(row["bytes"])])
        return _grid(table) + "".join(f"\n{one['on']} {one['mesh']}: {one['reason']}" for one in self.failures)

    def __repr__(self) -> str:
        return f"<meshlo.Sweep of {len(self.rows)} plans>"


def sweep(program: Any, on: Iterable[str] | str, mesh: Any = None, *, shard: Any = None) -> Sweep:
    """Emulates a program on several slices and, with `mesh="data=*,model=*"` or `{"data": "*", "model": 4}`, on every mesh of these axes that a slice's devices
    form. A mesh that does not fit the program is a failure of its own, not an exception."""
    one = load(program)
    if not isinstance(on, Iterable):
        raise InvalidType(f"slices are ['v5e-8', 'v6e-8'] or 'v5e-8,v6e-8', not {on!r}")
    slices = on.split(",") if isinstance(on, str) else list(on)
    if not slices:
        raise InvalidArgument("which slices? on=['v5e-8', 'v6e-8']")
    rows, failures = [], []
    for name in slices:
        where = Topology(name)
        for axes in _meshes(mesh_text(mesh), where._topology.device_count):
            try:
                rows.append(_row(name, emulate(one, where, mesh=axes, shard=shard)) | {"on": name, "mesh": axes})
            except Error as problem:
                failures.append({"on": name, "mesh": axes or "", "reason": str(problem).splitlines()[0]})
    return Sweep(rows, failures)
