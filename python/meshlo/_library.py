# SPDX-License-Identifier: Apache-2.0
"""The C library: where it is, how its errors become exceptions, and who frees what.

Everything here calls the public C API through cffi. An object of the library is held by a cffi pointer that frees it
when Python drops its last reference. cffi releases the interpreter's lock during calls, so threads run side by side.
"""
from __future__ import annotations

import os
import pathlib
from typing import Any

from meshlo._declarations import ffi

PLUGIN = "libmeshlo_pjrt.so"


def _find(variable: str, names: tuple[str, ...]) -> str:
    """The path in the environment variable, or the first of these files beside this package, or the first name."""
    if os.environ.get(variable):
        return os.environ[variable]
    here = pathlib.Path(__file__).parent
    for name in names:
        if (here / name).exists():
            return str(here / name)
    return names[0]


def _open(path: str) -> Any:
    """Opens the library; a name without a folder, as of a Debian package's, is searched for by the dynamic linker."""
    try:
        return ffi.dlopen(path)
    except OSError as problem:
        raise ImportError(f"{path} cannot be loaded ({problem}); MESHLO_LIBRARY can name another one") from problem


lib: Any = _open(_find("MESHLO_LIBRARY", ("libmeshlo.so.0", "libmeshlo.so")))


class Error(RuntimeError):
    """An error of the library. `code` is the name of its code, as `INVALID_ARGUMENT`; `file`, `line` and `column` say where
    in a text it is, or are None."""

    code: str = "UNKNOWN"
    file: str | None = None
    line: int | None = None
    column: int | None = None


class InvalidArgument(Error, ValueError):
    """A program, a name or an option that is not right."""


class Unimplemented(Error, NotImplementedError):
    """Something that Meshlo does not do; the message names it."""


class ResourceExhausted(Error, MemoryError):
    """This machine does not have the memory."""


class _NotFound(Error, FileNotFoundError):
    """A file that is not there."""


class _PermissionDenied(Error, PermissionError):
    """A file that may not be read."""


_CLASSES = {
    "NOT_FOUND": _NotFound,
    "PERMISSION_DENIED": _PermissionDenied,
    "INVALID_ARGUMENT": InvalidArgument,
    "UNIMPLEMENTED": Unimplemented,
    "RESOURCE_EXHAUSTED": ResourceExhausted,
}


def text_of(pointer: Any) -> str | None:
    """A C string as Python has it; None for NULL."""
    return None if pointer == ffi.NULL else ffi.string(pointer).decode("utf-8", "replace")


def check(status: Any) -> None:
    """Raises the error of a call, and frees it."""
    if status == ffi.NULL:
        return
    code = text_of(lib.hlo_code_name(lib.hlo_status_code(status)))
    text = lib.hlo_status_to_text(status)
    message = text_of(text) or text_of(lib.hlo_status_message(status)) or ""
    lib.hlo_free(text)
    error = _CLASSES.get(code, Error)(message.removeprefix("error: ").rstrip("\n"))
    error.code = code
    place = lib.hlo_status_place(status)
    if place != ffi.NULL:
        error.file = text_of(place.file)
        error.line, error.column = place.line or None, place.column or None
    lib.hlo_status_free(status)
    raise error


def made(kind: str, free: Any, call: Any, *arguments: Any) -> Any:
    """Calls a function whose last parameter receives a new object of type `kind`; the object is freed with its pointer."""
    out = ffi.new(kind + " **")
    check(call(*arguments, out))
    return ffi.gc(out[0], free)


def written(call: Any, *arguments: Any) -> bytes:
    """Calls a function that appends to a HloText, its last parameter, and returns what it wrote."""
    text = ffi.new("HloText *")
    try:
        status = call(*arguments, text)
        if status is not None:
            check(status)
        check(lib.hlo_text_status(text))
        return ffi.buffer(text.data, text.length)[:] if text.length else b""
    finally:
        lib.hlo_text_free(text)


def time_text(seconds: float) -> str:
    """A time with its unit, as in the tables of the command."""
    return written(lib.emu_print_time, round(seconds * 1e12)).decode()


def size_text(count: int) -> str:
    """A number of bytes with its unit, as in the tables of the command."""
    return written(lib.emu_print_size, int(count)).decode()


def c_string(text: str | None) -> Any:
    """A C string that lives as long as the returned pointer; NULL for None."""
    return ffi.NULL if text is None else ffi.new("char[]", text.encode())


def version() -> str:
    """The version of the library: `0.1.0`."""
    number = lib.hlo_api_version()
    return f"{number >> 16}.{number >> 8 & 255}.{number & 255}"
