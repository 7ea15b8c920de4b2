# SPDX-License-Identifier: Apache-2.0
"""NumPy arrays as literals of the library, and back."""
from __future__ import annotations

from typing import Any

import numpy

from meshlo._library import InvalidArgument, InvalidType, ResourceExhausted, ffi, lib, text_of

# NumPy's names, and those of ml_dtypes, by the names of HLO's types where they differ from a rule: s8 is int8, f32 float32.
_NAMES = {"pred": "bool", "bf16": "bfloat16", "c64": "complex64", "c128": "complex128", "f4e2m1fn": "float4_e2m1fn"}


def dtype_of(hlo_type: int) -> numpy.dtype:
    """The element type of an array that holds this type of HLO. Types that NumPy lacks come from ml_dtypes."""
    name = text_of(lib.hlo_type_info(hlo_type).text) or ""
    if name in _NAMES:
        name = _NAMES[name]
    elif name.startswith("f8"):
        name = "float8_" + name[2:]
    else:
        name = {"s": "int", "u": "uint", "f": "float"}.get(name[:1], name[:1]) + name[1:]
    try:
        return numpy.dtype(name)
    except TypeError:
        try:
            import ml_dtypes
        except ImportError as missing:
            raise ImportError(f"arrays of {name} need the package ml_dtypes") from missing
        return numpy.dtype(getattr(ml_dtypes, name))


def shape_text(shape: Any) -> str:
    """A shape as people write it: `f32[8,128]`."""
    dims = ",".join(str(shape.dims[d]) for d in range(shape.rank))
    return f"{text_of(lib.hlo_type_info(shape.type).text)}[{dims}]"


def literal_of(value: Any, shape: Any, what: str, device: str = "") -> Any:
    """A new literal of `shape` with the elements of an array, which must have its sizes; Python numbers are converted.

    `device` follows the word program in messages.
    """
    dtype = dtype_of(shape.type)
    try:
        array = numpy.asarray(value)
        if array.dtype != dtype and isinstance(value, (bool, int, float, complex, list, tuple)):
            array = array.astype(dtype)
    except (TypeError, ValueError, OverflowError) as problem:
        raise InvalidType(f"{what} is no array of {shape_text(shape)}: {problem}") from problem
    if array.dtype != dtype:
        raise InvalidArgument(f"{what} is {array.dtype}{list(array.shape)}, and the program{device} wants {shape_text(shape)}")
    dims = tuple(shape.dims[d] for d in range(shape.rank))
    if array.shape != dims:
        raise InvalidArgument(f"{what} is {array.dtype}{list(array.shape)}, and the program{device} wants {shape_text(shape)}")
    # Types below a byte are kept sign-extended in one, as the library has them.
    if dtype.kind == "V" and dtype.name.startswith(("int", "uint")):
        array = array.astype(numpy.int8 if dtype.name.startswith("int") else numpy.uint8)
    literal = lib.hlo_literal_new(shape)
    if literal == ffi.NULL:
        raise ResourceExhausted(f"no memory for {what}")
    literal = ffi.gc(literal, lib.hlo_literal_free)
    array = numpy.ascontiguousarray(array)
    if array.nbytes:
        ffi.memmove(literal.data, ffi.from_buffer(array.reshape(-1).view(numpy.uint8)), array.nbytes)
    return literal


def array_of(literal: Any) -> numpy.ndarray:
    """A new array with the elements of a literal."""
    shape = literal.shape
    dtype = dtype_of(shape.type)
    small = dtype.kind == "V" and dtype.name.startswith(("int", "uint"))
    stored = numpy.dtype(numpy.int8 if dtype.name.startswith("int") else numpy.uint8) if small else dtype
    dims = tuple(shape.dims[d] for d in range(shape.rank))
    array = numpy.empty(dims, stored)
    if array.nbytes:
        ffi.memmove(ffi.from_buffer(array.reshape(-1).view(numpy.uint8)), literal.data, array.nbytes)
    return array.astype(dtype) if small else array
