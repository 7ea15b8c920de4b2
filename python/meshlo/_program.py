# SPDX-License-Identifier: Apache-2.0
"""Programs: reading them from whatever Python has, and compiling them for a mesh."""
from __future__ import annotations

import collections.abc
import math
import operator
import os
import re
from typing import Any, Mapping

from meshlo._library import (InvalidArgument, InvalidType, c_string, c_strings, check, devices_text, ffi, lib, made, one_of, path_text, text_of, whole_number,
                             written)
from meshlo._machine import Topology

# More than any program that fits into memory expands to.
_MOST_BYTES = 4 << 30
_DIALECTS = ("hlo", "stablehlo")


def _serialised(source: Any) -> tuple[bytes, str | None, bool]:
    """The bytes of a program, the name for its errors, and whether JAX has compiled it."""
    if isinstance(source, os.PathLike):
        return b"", path_text(source, "a program"), False
    if isinstance(source, str):
        looks_like_path = "\n" not in source and (os.path.exists(source) or "{" not in source)
        return (b"", source, False) if looks_like_path else (source.encode(), None, False)
    if isinstance(source, (bytes, bytearray, memoryview)):
        try:
            return bytes(source), None, False
        except ValueError as problem:  # a memoryview that was released
            raise InvalidArgument(f"a program's bytes cannot be read: {problem}") from problem
    if hasattr(source, "mlir_module_serialized"):  # jax.export.Exported
        return bytes(source.mlir_module_serialized), None, False
    if hasattr(source, "runtime_executable"):  # jax.stages.Compiled
        modules = source.runtime_executable().hlo_modules()
        return modules[0].as_serialized_hlo_module_proto(), None, True
    if hasattr(source, "compiler_ir"):  # jax.stages.Lowered; with debug_info for source lines and argument names
        return source.as_text(debug_info=True).encode(), None, False
    raise InvalidType(
        f"a program is a jax.stages.Lowered or Compiled, a jax.export.Exported, a path, text or bytes, not {type(source).__name__}; "
        "of a function it is jax.jit(f).lower(*arguments)")


def _counts(source: Any) -> dict[str, int]:
    """The numbers of devices of a compiled program, which stand in the head of its text and not in the serialised form."""
    head = source.runtime_executable().hlo_modules()[0].to_string().partition("\n")[0]
    return {name: int(value) for name, value in re.findall(r", (num_partitions|replica_count)=(\d+)", head)}


def _check_sizes(sizes: Any) -> None:
    """Refuses what is not a dict of sizes by argument."""
    if sizes is None:
        return
    if not isinstance(sizes, collections.abc.Mapping):
        raise InvalidType(f"sizes are a dict by argument, {{0: (4, 8)}}, not {sizes!r}")
    for index, dims in sizes.items():
        if not 0 <= whole_number(index, "an argument in sizes") < 1 << 20:
            raise InvalidArgument(f"sizes: there is no argument {index}")
        if isinstance(dims, str) or not isinstance(dims, collections.abc.Iterable):
            raise InvalidType(f"sizes: those of argument {index} are like (4, 8), not {dims!r}")
        for size in dims:
            whole_number(size, f"sizes: one of argument {index}")


def _parse(data: bytes, name: str | None, sizes: dict[int, tuple[int, ...]] | None) -> Any:
    """A new module from a program in any of the formats."""
    buffer, length = ffi.from_buffer("char[]", data) if data else ffi.new("char[1]"), len(data)
    file = c_string(name)
    if sizes and not (lib.hlo_looks_like_mlir_bytecode(buffer, length) or lib.hlo_looks_like_mlir_text(buffer, length)):
        raise InvalidArgument("sizes: only StableHLO leaves sizes open")
    if lib.hlo_looks_like_mlir_bytecode(buffer, length) or lib.hlo_looks_like_mlir_text(buffer, length):
        options = ffi.new("HloStablehloOptions *", {"file": file})
        keep = []
        if sizes:
            array = ffi.new("HloInts[]", max(sizes) + 1)
            for index, dims in sizes.items():
                keep.append(ffi.new("int64_t[]", list(dims)))
                array[index].items, array[index].count = keep[-1], len(dims)
            options.sizes, options.size_count = array, len(array)
        return made("HloModule", lib.hlo_module_free, lib.hlo_module_from_stablehlo, buffer, length, options)
    if lib.hlo_looks_like_proto(buffer, length):
        return made("HloModule", lib.hlo_module_free, lib.hlo_module_from_proto, buffer, length)
    options = ffi.new("HloParseOptions *", {"file": file})
    return made("HloModule", lib.hlo_module_free, lib.hlo_parse, buffer, length, options)


def _read_file(path: str) -> bytes:
    """The content of a file, expanded if it is compressed by xz, gzip or zstd."""
    content = ffi.new("HloFileContent *")
    check(lib.hlo_file_read(c_string(path), _MOST_BYTES, content))
    try:
        return ffi.buffer(content.data, content.size)[:] if content.size else b""
    finally:
        lib.hlo_file_content_free(content)


class Program:
    """A program that Meshlo has read and verified. `load()` makes it; every function of this package does so by itself."""

    def __init__(self, source: Any, sizes: dict[int, tuple[int, ...]] | None = None):
        _check_sizes(sizes)
        data, name, is_compiled = _serialised(source)
        if name is not None:
            data = _read_file(name)
        if not data.strip():
            raise InvalidArgument(f"{name or 'the program'} is empty")
        self._module = _parse(data, name, sizes)
        if is_compiled:
            for field, count in _counts(source).items():
                setattr(self._module, field, count)
        # What was compiled for one device is a whole program.
        self.is_per_device = (is_compiled or self._module.is_scheduled) and self._module.num_partitions > 1
        check(lib.hlo_verify(self._module))
        # The structures of the arguments, (positional, by name), and of the results, where JAX knows them.
        self.in_tree = getattr(source, "in_tree", None)
        self.out_tree = getattr(source, "out_tree", None)
        lowering = getattr(source, "_lowering", None)
        kept = getattr(lowering, "compile_args", {}).get("kept_var_idx") if lowering is not None else None
        self._kept = sorted(kept) if kept is not None else None

    @classmethod
    def _of(cls, module: Any, source: Program) -> Program:
        """A module of the library that was made from a program, with the same arguments and results."""
        one = cls.__new__(cls)
        one._module, one.is_per_device = module, source.is_per_device
        one.in_tree, one.out_tree, one._kept = source.in_tree, source.out_tree, source._kept
        return one

    @property
    def name(self) -> str:
        """The name of the module."""
        return text_of(self._module.name) or ""

    @property
    def num_partitions(self) -> int:
        """How many devices share the work, by the program itself; 1 where it does not say."""
        return max(1, self._module.num_partitions)

    def as_text(self, dialect: str = "hlo") -> str:
        """The program as `hlo` or `stablehlo` text."""
        if one_of(dialect, _DIALECTS, "dialect") == "hlo":
            return _print(self._module)
        return written(lib.hlo_module_to_stablehlo_text, self._module, True).decode()

    def as_bytes(self, dialect: str = "hlo") -> bytes:
        """The program as a serialised HloModuleProto (`hlo`), or as portable StableHLO bytecode (`stablehlo`)."""
        if one_of(dialect, _DIALECTS, "dialect") == "hlo":
            return written(lib.hlo_module_to_proto, self._module)
        return written(lib.hlo_module_to_stablehlo_bytecode, self._module, ffi.NULL)

    def __repr__(self) -> str:
        return f"<meshlo.Program {self.name!r} for {devices_text(self.num_partitions)}>"


def _print(module: Any) -> str:
    """HLO text with every constant whole."""
    options = ffi.new("HloPrintOptions *", lib.hlo_print_default())
    options.print_large_constants = True
    return written(lib.hlo_print, module, options).decode()


def load(source: Any, sizes: dict[int, tuple[int, ...]] | None = None) -> Program:
    """Reads a program: a `jax.stages.Lowered` or `Compiled`, a `jax.export.Exported`, HLO or StableHLO text, a serialised
    HloModuleProto, StableHLO bytecode, or the path of a file with any of these, plain or compressed.

    `sizes` gives, by argument, the sizes that a program of `jax.export` with symbolic shapes leaves open.
    """
    return source if isinstance(source, Program) and not sizes else Program(source, sizes)


def spec_text(spec: Any) -> str:
    """A sharding as the library reads it, `data,-`: from that text, a jax PartitionSpec, or a sequence like one."""
    if isinstance(spec, str):
        return spec
    if hasattr(spec, "spec"):  # a NamedSharding
        spec = spec.spec
    if not isinstance(spec, collections.abc.Iterable) or not all(item is None or isinstance(item, (str, tuple, list)) for item in spec):
        raise InvalidType(f"a sharding is P('data', None), a NamedSharding or 'data,-', not {spec!r}")
    return ",".join("-" if item is None else item if isinstance(item, str) else "+".join(item) or "-" for item in spec)


def _target(key: Any) -> str:
    """The parameter that a sharding is for: an index, or a name as the library takes it."""
    return f"p{key}" if isinstance(key, int) else str(key)


def shard_texts(shard: Any) -> list[str]:
    """The shardings of a call as the library reads them: `p0=data,-`."""
    if isinstance(shard, collections.abc.Mapping):
        return [f"{_target(key)}={spec_text(spec)}" for key, spec in shard.items()]
    if shard is None or isinstance(shard, str):
        return [shard] if shard else []
    texts = list(shard) if isinstance(shard, collections.abc.Iterable) else [shard]
    if not all(isinstance(text, str) for text in texts):
        raise InvalidType(f"shardings are a dict, {{0: P('data', None)}}, or texts like 'p0=data,-', not {shard!r}")
    return texts


def mesh_text(mesh: Any) -> str | None:
    """A mesh, or a pattern of some, as the library reads it: `data=4,model=*`."""
    if mesh is None or isinstance(mesh, str):
        return mesh
    return ",".join(f"{name}={size}" for name, size in _shape(mesh).items())


def _shape(mesh: Any) -> Mapping[Any, Any]:
    """The sizes of a mesh by axis."""
    shape = mesh if isinstance(mesh, collections.abc.Mapping) else getattr(mesh, "shape", None)
    if not isinstance(shape, collections.abc.Mapping):
        raise InvalidType(f"a mesh is a dict, {{'data': 4, 'model': 2}}, 'data=4,model=2' or a jax.sharding.Mesh, not {mesh!r}")
    return shape


class SpmdArguments:
    """The mesh and shardings of a call as the library's SpmdOptions; keeps what they point to."""

    def __init__(self, program: Program, mesh: Any, shard: Any, num_partitions: int, overlap: bool = False):
        self._keep: list[Any] = []
        axes = _axes(mesh)
        # By the program itself where the call says nothing.
        num_partitions = whole_number(num_partitions, "num_partitions")
        if num_partitions == 0 and not axes and program.num_partitions > 1:
            num_partitions = program.num_partitions
        self.device_count = num_partitions or math.prod(size for _, size in axes)
        self.mesh = mesh_text(dict(axes)) or None  # as it was given
        self.options = ffi.new("SpmdOptions *", {"num_partitions": num_partitions, "async": bool(overlap)})
        if axes:
            array = ffi.new("SpmdMeshAxis[]", len(axes))
            for index, (name, size) in enumerate(axes):
                if not 1 <= size < 1 << 31:
                    raise InvalidArgument(f"mesh: axis {name!r} has {size} devices")
                self._keep.append(c_string(name, "the name of an axis"))
                array[index].name, array[index].size = self._keep[-1], size
            self._keep.append(array)
            self.options.mesh, self.options.mesh_axis_count = array, len(axes)
        shards = shard_texts(shard)
        if shards:
            self.options.shards, strings = c_strings(shards, "a sharding")
            self.options.shard_count = len(shards)
            self.options.shard_option = option = c_string("shard")
            self._keep += [option, *strings]


def _axes(mesh: Any) -> list[tuple[str, int]]:
    """The axes of a mesh with their sizes, major first: from a dict, `data=4,model=2`, or a jax Mesh."""
    if mesh is None:
        return []
    if isinstance(mesh, str):
        pairs = [one.partition("=") for one in mesh.split(",")]
        if not all(equals and size.isdecimal() for _, equals, size in pairs):
            raise InvalidArgument(f"mesh: wants data=4,model=2, not {mesh!r}")
        return [(name, int(size)) for name, _, size in pairs]
    shape = _shape(mesh)
    try:
        return [(str(name), int(size) if isinstance(size, str) else operator.index(size)) for name, size in shape.items()]
    except (TypeError, ValueError) as problem:
        raise InvalidArgument(f"mesh: wants numbers of devices, {{'data': 4, 'model': 2}}, not {mesh!r}") from problem


def _check_partitioned(program: Program, arguments: SpmdArguments) -> None:
    """Refuses shardings and numbers of devices that a program which is that of one device already cannot have."""
    if arguments.options.shard_count:
        raise InvalidArgument("shard: the program is already that of one device")
    has = max(1, program._module.num_partitions)
    if arguments.device_count not in (0, 1, has):
        raise InvalidArgument(f"the program is already partitioned for {has} devices, not {arguments.device_count}")


class Partitioned:
    """The program of one device, with the collectives that it needs and the reasons for them."""

    def __init__(self, program: Program, mesh: Any, shard: Any, num_partitions: int = 0, overlap: bool = False, topology: Topology | None = None):
        self.program = program
        arguments = SpmdArguments(program, mesh, shard, num_partitions, overlap)
        options = ffi.new("CompileOptions *", {"is_verified": True})
        options.spmd = arguments.options[0]
        # Plans are compared by the machine's model, whose topology must live as long as the options.
        self._topology, self._machine = topology, ffi.new("SpmdMachine *")
        if topology is not None and lib.target_spmd_machine(topology._topology, self._machine):
            options.spmd.machine = self._machine
        options.is_per_device = program.is_per_device or lib.spmd_is_partitioned(program._module)
        if options.is_per_device:
            _check_partitioned(program, arguments)
        self.mesh = arguments.mesh
        self._options = options
        self._compiled = made("CompiledModule", lib.compiled_module_free, lib.compile_module, program._module, options)
        self._arguments = arguments

    @property
    def _module(self) -> Any:
        return self._compiled.module

    @property
    def num_partitions(self) -> int:
        """How many devices share the work."""
        return max(1, self._module.num_partitions)

    @property
    def device_count(self) -> int:
        """How many devices run it: partitions times replicas."""
        return self.num_partitions * max(1, self._module.replica_count)

    @property
    def collectives(self) -> list[dict[str, Any]]:
        """What each collective is, sends and is for: see `Explanation`."""
        report = self._compiled.report
        rows = []
        for index in range(report.collective_count):
            one = report.collectives[index]
            rows.append({
                "name": text_of(one.name), "opcode": text_of(one.opcode), "computation": text_of(one.computation),
                "bytes": one.bytes_per_device, "group_size": one.group_size, "num_groups": one.num_groups,
                "trip_count": one.trip_count if one.trip_count >= 0 else None, "reason": text_of(one.reason),
                "source": text_of(one.source), "remedy": text_of(one.remedy)})
        return rows

    @property
    def total_bytes(self) -> int:
        """What one device sends in a step."""
        return self._compiled.report.total_bytes_per_device

    def as_text(self) -> str:
        """The program of one device as HLO text. Every function of this package takes it again."""
        return _print(self._module)

    def describe_mesh(self) -> tuple[Any, Any, Any]:
        """The mesh and who named it, as C strings in an arena that must live as long as they are used."""
        arena, mesh, source = ffi.gc(lib.hlo_arena_new(), lib.hlo_arena_free), ffi.new("char *[1]"), ffi.new("char *[1]")
        options = self._arguments.options
        check(lib.advice_mesh_describe(arena, self.program._module, options.mesh, options.mesh_axis_count, c_string("mesh="),
                                       ffi.cast("const char **", mesh), ffi.cast("const char **", source)))
        return arena, mesh[0], source[0]

    def device_assignment(self, topology: Any) -> Any:
        """The ids of the devices that run it, as an int64_t[], in the order of JAX's mesh; NULL for several replicas, which
        are on the devices in their order."""
        if max(1, self._module.replica_count) > 1:
            return ffi.NULL
        ids = ffi.new("int64_t[]", self.num_partitions)
        options = self._arguments.options
        check(lib.target_default_assignment(topology, self.program._module, options.mesh, options.mesh_axis_count,
                                            self.num_partitions, ids))
        return ids

    def __repr__(self) -> str:
        return f"<meshlo.Partitioned {text_of(self._module.name)!r} for {devices_text(self.num_partitions)}, {len(self.collectives)} collectives>"
