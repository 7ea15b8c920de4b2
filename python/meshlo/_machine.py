# SPDX-License-Identifier: Apache-2.0
"""Slices: their devices, the order of a mesh on them, drawings."""
from __future__ import annotations

import contextlib
import os
import pathlib
import sys
from typing import Any, Iterator, NamedTuple

from meshlo._library import (PLUGIN, Error, InvalidArgument, InvalidType, NotFound, c_string, check, ffi, lib, made, one_of, text_of,
                             whole_number, written)


class Device(NamedTuple):
    """A device as JAX lists it."""

    id: int
    process_index: int
    coords: tuple[int, int, int]
    core_on_chip: int
    slice_index: int


class Topology:
    """A slice, or several: `Topology("v5e-16")`. Names are those of accelerator types (`v4-32`), of the runtime (`v4:2x2x2`),
    several slices (`2xv5e-16`), host processors (`cpu:8`), or the path of an XML file."""

    def __init__(self, name: str | os.PathLike[str]):
        if not isinstance(name, (str, os.PathLike)):
            raise InvalidType(f"a slice is a name like 'v5e-16' or the path of an XML file, not {name!r}")
        self._topology = made("EmuTopology", lib.emu_topology_free, lib.emu_topology_parse, c_string(os.fsdecode(name), "a slice"))

    @property
    def name(self) -> str:
        """As it was given."""
        return text_of(self._topology.name) or ""

    @property
    def device_kind(self) -> str:
        """What `jax.Device.device_kind` says: `TPU v5 lite`."""
        return text_of(self._topology.device_kind) or ""

    @property
    def is_tpu(self) -> bool:
        """Whether it has a machine model, as slices have and host processors have not."""
        return self._topology.chip.name != ffi.NULL

    @property
    def overlaps(self) -> bool:
        """Whether its chips compute beside collectives."""
        return self.is_tpu and bool(self._topology.chip.overlaps_collectives)

    @property
    def devices(self) -> list[Device]:
        """The devices in the order of `jax.devices()`."""
        rows = self._topology.devices
        return [Device(rows[i].id, rows[i].process_index, tuple(rows[i].coords), rows[i].core_on_chip, rows[i].slice_index)
                for i in range(self._topology.device_count)]

    def mesh_order(self, *sizes: int, allow_split_physical_axes: bool = False) -> list[int]:
        """The device ids of `jax.make_mesh(sizes)`, row by row."""
        if not sizes:
            raise InvalidArgument("a mesh has sizes of at least one")
        axes = ffi.new("int64_t[]", [whole_number(size, "the size of an axis", 1) for size in sizes])
        count = ffi.new("int64_t *")
        check(lib.emu_mesh_positions(self._topology, axes, len(sizes), count))
        ids = ffi.new("int64_t[]", count[0])
        check(lib.emu_mesh_order(self._topology, axes, len(sizes), bool(allow_split_physical_axes), ids))
        return list(ids)

    def __str__(self) -> str:
        """A drawing of the chips with their devices, links and hosts."""
        return written(lib.emu_draw_topology, self._topology).decode() if self.is_tpu else repr(self)

    def __repr__(self) -> str:
        return f"<meshlo.Topology {self.name!r}: {self._topology.device_count} devices of {self.device_kind}>"


def topology(name: str) -> Topology:
    """The slice of this name."""
    return Topology(name)


def devices(name: str) -> list[Device]:
    """The devices of a slice in the order of `jax.devices()`."""
    return Topology(name).devices


def plugin_path() -> str:
    """The path of the PJRT plugin, for `TPU_LIBRARY_PATH`."""
    path = os.environ.get("MESHLO_PLUGIN")
    if not path:
        try:
            import jax_meshlo
        except ImportError as missing:
            raise NotFound("the package jax_meshlo, which has the plugin for JAX, is not installed; MESHLO_PLUGIN can name the plugin") from missing
        path = str(pathlib.Path(jax_meshlo.LIBRARY).with_name(PLUGIN))
    if not os.path.exists(path):
        raise NotFound(f"the plugin for JAX is not at {path}; MESHLO_PLUGIN can name another one")
    return path


@contextlib.contextmanager
def devices_of(name: str, numerics: str | None = None) -> Iterator[list[Any]]:
    """Makes `jax.devices()` those of a slice, under the platform name `tpu`:

        with meshlo.devices_of("v5p-16"):
            ...

    JAX chooses its devices once, when a program first needs them: `Error` if that has happened in this process. The
    environment is as before at the end; the devices stay. `numerics` is `tpu` (products rounded as on the chip, the
    default) or `exact`.
    """
    Topology(name)  # an unknown name is an error here and not deep in JAX
    one_of(numerics, (None, "exact", "tpu"), "numerics")
    if "jax" in sys.modules:
        from jax._src import xla_bridge

        if xla_bridge.backends_are_initialized():
            raise Error("JAX has its devices already: devices_of() must come before the first use of them")
    values = {"TPU_LIBRARY_PATH": plugin_path(), "JAX_PLATFORMS": "tpu,cpu", "MESHLO_TOPOLOGY": os.fsdecode(name)}
    if numerics is not None:
        values["MESHLO_NUMERICS"] = numerics
    before = {key: os.environ.get(key) for key in values}
    os.environ.update(values)
    try:
        import jax

        jax.config.update("jax_platforms", values["JAX_PLATFORMS"])
        yield jax.devices()
    finally:
        for key, value in before.items():
            if value is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = value
