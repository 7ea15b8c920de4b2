# SPDX-License-Identifier: Apache-2.0
"""Checks for a test suite: what a step sends, whether it fits, and that a plan stays what it was.

    def test_the_step_sends_no_activations():
        lowered = jax.jit(step).lower(*arguments)
        meshlo.testing.assert_collectives(lowered, forbid=["all-gather"], max_bytes="64MiB")
        meshlo.testing.assert_fits(lowered, "v5e-8")
"""
from __future__ import annotations

import difflib
import os
import pathlib
import re
from collections.abc import Iterable
from typing import Any

from meshlo._emulate import Emulation, emulate, partition
from meshlo._library import InvalidArgument, InvalidType, lib, path_text, size_text, text_of, whole_number
from meshlo._program import Partitioned

_UNITS = {"": 1, "B": 1, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40,
          "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


def _bytes(value: int | str) -> int:
    """A number of bytes, also as `64MiB`."""
    if not isinstance(value, str):
        return whole_number(value, "a number of bytes")
    parts = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*([A-Za-z]*)\s*", value, re.ASCII)
    if not parts or parts[2].upper() not in _UNITS:
        raise InvalidArgument(f"a number of bytes is like 4096 or '64MiB', not {value!r}")
    return int(float(parts[1]) * _UNITS[parts[2].upper()])


def _collectives() -> list[str]:
    """The names of all collectives; the halves of asynchronous ones are listed by the whole's."""
    rows = [lib.hlo_op_info(opcode) for opcode in range(lib.HLO_OPCODE_COUNT)]
    halves = lib.HLO_OP_IS_ASYNC_START | lib.HLO_OP_IS_ASYNC_DONE
    return [text_of(row.text) or "" for row in rows if row.flags & lib.HLO_OP_IS_COLLECTIVE and not row.flags & halves]


def _opcodes(names: Iterable[str] | str, what: str) -> set[str]:
    """Names of collectives; one alone may be a string. A misspelt one would forbid nothing, and the check would always pass."""
    if not isinstance(names, (str, Iterable)):
        raise InvalidType(f"{what} are opcodes, ['all-gather'], not {names!r}")
    found = {names} if isinstance(names, str) else set(names)
    for name in found:
        if not isinstance(name, str):
            raise InvalidType(f"{what} are opcodes, ['all-gather'], not {name!r}")
        if name not in (known := _collectives()):
            raise InvalidArgument(f"{what}: {name!r} is not a collective: {', '.join(known)}")
    return found


def _partitioned(program: Any, mesh: Any, shard: Any) -> Partitioned:
    return program if isinstance(program, Partitioned) else partition(program, mesh=mesh, shard=shard)


def assert_collectives(program: Any, *, forbid: Iterable[str] | str = (), allow: Iterable[str] | str | None = None,
                       max_bytes: int | str | None = None, max_count: int | None = None, mesh: Any = None, shard: Any = None) -> None:
    """Fails if the partitioned program has a collective in `forbid` or, where `allow` is given, one that is not in it; if one
    device sends more than `max_bytes` in a step; or if there are more than `max_count`. The message has the reasons."""
    most_bytes = None if max_bytes is None else _bytes(max_bytes)
    most = None if max_count is None else whole_number(max_count, "max_count")
    rows = _partitioned(program, mesh, shard)
    forbidden = _opcodes(forbid, "forbid")
    allowed = None if allow is None else _opcodes(allow, "allow")
    wrong = [one for one in rows.collectives if one["opcode"] in forbidden or (allowed is not None and one["opcode"] not in allowed)]
    if wrong:
        raise AssertionError("\n".join([f"{len(wrong)} collectives that are not allowed:"] + [_line(one) for one in wrong]))
    if most is not None and len(rows.collectives) > most:
        raise AssertionError("\n".join([f"{len(rows.collectives)} collectives, at most {most}:"] + [_line(one) for one in rows.collectives]))
    if most_bytes is not None and rows.total_bytes > most_bytes:
        largest = sorted(rows.collectives, key=lambda one: -one["bytes"] * (one["trip_count"] or 1))[:10]
        raise AssertionError("\n".join([f"a device sends {size_text(rows.total_bytes)} ({rows.total_bytes} bytes) in a step, at most {most_bytes}:"]
                                       + [_line(one) for one in largest]))


def _line(one: dict[str, Any]) -> str:
    """One collective for a message."""
    times = "" if one["trip_count"] == 1 else f" x {one['trip_count'] or 'unknown'}"
    source = f" at {one['source']}" if one["source"] else ""
    return f"  {one['opcode']} {one['name']}: {size_text(one['bytes'])}{times}{source}: {one['reason']}"


def _file(source: str | None) -> str:
    """The name of the file in `/home/user/project/model.py:12`."""
    return re.sub(r":\d+$", "", pathlib.PurePath(source or "").name)


def assert_fits(program: Any, on: str, *, mesh: Any = None, shard: Any = None) -> Emulation:
    """Fails if one device of the slice does not have the memory for the program; returns the emulation."""
    result = emulate(program, on, mesh=mesh, shard=shard)
    if not result.fits:
        raise AssertionError(f"{size_text(result.hbm_peak)} of {size_text(result.hbm_capacity)} on {on}:\n{result.summary()}")
    return result


def assert_plan(program: Any, path: str | os.PathLike[str], *, mesh: Any = None, shard: Any = None) -> None:
    """Fails if the collectives are not those in the file `path`, and shows the difference. A missing file is written and
    fails too, so that someone looks at it; MESHLO_UPDATE=1 in the environment writes it anew. The file may be committed: it names
    source files without their folder and line, which differ on another machine and after the next edit."""
    rows = _partitioned(program, mesh, shard)
    lines = [f"{one['opcode']} group={one['group_size']} bytes={one['bytes']} times={one['trip_count'] or 'unknown'} {_file(one['source'])}".rstrip()
             for one in rows.collectives]
    now = "\n".join([f"partitions {rows.num_partitions}", f"bytes {rows.total_bytes}", *sorted(lines)]) + "\n"
    file = pathlib.Path(path_text(path, "a plan's file"))
    if os.environ.get("MESHLO_UPDATE"):
        file.write_text(now)
        return
    if not file.exists():
        file.write_text(now)
        raise AssertionError(f"{file} is new: look at it, and run the test again")
    before = file.read_text()
    if now != before:
        difference = difflib.unified_diff(before.splitlines(), now.splitlines(), str(file), "now", lineterm="")
        raise AssertionError("\n".join(["the plan has changed (MESHLO_UPDATE=1 accepts it):", *difference]))
