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
from typing import Any, Iterable

from meshlo._emulate import Emulation, emulate, partition
from meshlo._library import size_text
from meshlo._program import Partitioned

_UNITS = {"": 1, "B": 1, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "KB": 10**3, "MB": 10**6, "GB": 10**9}


def _bytes(value: int | str) -> int:
    """A number of bytes, also as `64MiB`."""
    if isinstance(value, int):
        return value
    digits = value.rstrip("BbIiKkMmGg ")
    unit = value[len(digits):].strip().upper()
    if unit not in _UNITS or not digits:
        raise ValueError(f"a number of bytes is like 4096 or '64MiB', not {value!r}")
    return int(float(digits) * _UNITS[unit])


def _partitioned(program: Any, mesh: Any, shard: Any) -> Partitioned:
    return program if isinstance(program, Partitioned) else partition(program, mesh=mesh, shard=shard)


def assert_collectives(program: Any, *, forbid: Iterable[str] = (), allow: Iterable[str] | None = None,
                       max_bytes: int | str | None = None, max_count: int | None = None, mesh: Any = None, shard: Any = None) -> None:
    """Fails if the partitioned program has a collective in `forbid` or, where `allow` is given, one that is not in it; if one
    device sends more than `max_bytes` in a step; or if there are more than `max_count`. The message has the reasons."""
    rows = _partitioned(program, mesh, shard)
    forbidden = set(forbid)
    allowed = None if allow is None else set(allow)
    wrong = [one for one in rows.collectives if one["opcode"] in forbidden or (allowed is not None and one["opcode"] not in allowed)]
    if wrong:
        raise AssertionError("\n".join([f"{len(wrong)} collectives that are not allowed:"] + [_line(one) for one in wrong]))
    if max_count is not None and len(rows.collectives) > max_count:
        raise AssertionError("\n".join([f"{len(rows.collectives)} collectives, at most {max_count}:"] + [_line(one) for one in rows.collectives]))
    if max_bytes is not None and rows.total_bytes > _bytes(max_bytes):
        largest = sorted(rows.collectives, key=lambda one: -one["bytes"] * (one["trip_count"] or 1))[:10]
        raise AssertionError("\n".join([f"a device sends {size_text(rows.total_bytes)} ({rows.total_bytes} bytes) in a step, at most {_bytes(max_bytes)}:"]
                                       + [_line(one) for one in largest]))


def _line(one: dict[str, Any]) -> str:
    """One collective for a message."""
    times = "" if one["trip_count"] == 1 else f" x {one['trip_count'] or 'unknown'}"
    source = f" at {one['source']}" if one["source"] else ""
    return f"  {one['opcode']} {one['name']}: {size_text(one['bytes'])}{times}{source}: {one['reason']}"


def assert_fits(program: Any, on: str, *, mesh: Any = None, shard: Any = None) -> Emulation:
    """Fails if one device of the slice does not have the memory for the program; returns the emulation."""
    result = emulate(program, on, mesh=mesh, shard=shard)
    if not result.fits:
        raise AssertionError(f"{size_text(result.hbm_peak)} of {size_text(result.hbm_capacity)} on {on}:\n{result.summary()}")
    return result


def assert_plan(program: Any, path: str | os.PathLike[str], *, mesh: Any = None, shard: Any = None) -> None:
    """Fails if the collectives are not those in the file `path`, and shows the difference. A missing file is written and
    fails too, so that someone looks at it; MESHLO_UPDATE=1 in the environment writes it anew."""
    rows = _partitioned(program, mesh, shard)
    lines = [f"{one['opcode']} group={one['group_size']} bytes={one['bytes']} times={one['trip_count'] or 'unknown'} {one['source']}".rstrip()
             for one in rows.collectives]
    now = "\n".join([f"partitions {rows.num_partitions}", f"bytes {rows.total_bytes}", *sorted(lines)]) + "\n"
    file = pathlib.Path(path)
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
