# SPDX-License-Identifier: Apache-2.0
"""The C library: where it is, how its errors become exceptions, and who frees what.

Everything here calls the public C API through cffi. An object of the library is held by a cffi pointer that frees it
when Python drops its last reference. cffi releases the interpreter's lock during calls, so threads run side by side.
"""
from __future__ import annotations

import html
import math
import operator
import os
import pathlib
from typing import Any, Iterable

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


class InvalidType(InvalidArgument, TypeError):
    """An argument of another type than the function takes."""


class Unimplemented(Error, NotImplementedError):
    """Something that Meshlo does not do; the message names it."""


class ResourceExhausted(Error, MemoryError):
    """This machine does not have the memory."""


class NotFound(Error, FileNotFoundError):
    """A file that is not there."""


class PermissionDenied(Error, PermissionError):
    """A file that may not be read."""


_CLASSES = {
    "NOT_FOUND": NotFound,
    "PERMISSION_DENIED": PermissionDenied,
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
    code = text_of(lib.hlo_code_name(lib.hlo_status_code(status))) or ""
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


def c_string(text: str | None, what: str = "a name") -> Any:
    """A C string that lives as long as the returned pointer; NULL for None. `what` is for the message where it is no text."""
    if text is None:
        return ffi.NULL
    if not isinstance(text, str):
        raise InvalidType(f"{what} is text, not {text!r}")
    if "\0" in text:
        raise InvalidArgument(f"{what} has a NUL character: {text!r}")
    return ffi.new("char[]", text.encode("utf-8", "surrogateescape"))


def c_strings(texts: Iterable[str], what: str) -> tuple[Any, list[Any]]:
    """An array of C strings, `const char *const *`, and what it points to, which must live as long."""
    strings = []
    for text in texts:
        if text is None:
            raise InvalidType(f"{what} is text, not None")
        strings.append(c_string(text, what))
    array = ffi.new("char *[]", strings or [ffi.NULL])
    return ffi.cast("const char *const *", array), [array, *strings]


def whole_number(value: Any, what: str, least: int = 0) -> int:
    """A number that the library takes as int64_t, from `least` on."""
    try:
        number = operator.index(value)
    except TypeError:
        raise InvalidType(f"{what} is a whole number, not {value!r}") from None
    if not least <= number < 1 << 63:
        raise InvalidArgument(f"{what} is a whole number from {least} on, not {number}")
    return number


def real_number(value: Any, what: str) -> float:
    """A number from 0 on."""
    if not isinstance(value, (int, float)):
        raise InvalidType(f"{what} is a number, not {value!r}")
    if not 0 <= value < math.inf:
        raise InvalidArgument(f"{what} is a number from 0 on, not {value!r}")
    return float(value)


def devices_text(count: int) -> str:
    """A number of devices in words."""
    return "1 device" if count == 1 else f"{count} devices"


class Printed:
    """A result that a notebook shows as print() does."""

    def _repr_html_(self) -> str:
        """The lines, for the last value of a notebook's cell."""
        return f"<pre>{html.escape(str(self))}</pre>"


def path_text(path: Any, what: str) -> str:
    """The path of a file as text."""
    if not isinstance(path, (str, os.PathLike)):
        raise InvalidType(f"{what} is a path, not {path!r}")
    name = os.fsdecode(path)
    if "\0" in name:
        raise InvalidArgument(f"{what} has a NUL character: {name!r}")
    return name


def one_of(value: Any, choices: Iterable[str | None], what: str) -> str | None:
    """A value that must be one of a few."""
    names = list(choices)
    if value not in names:
        known = [f"'{name}'" for name in names if name]
        raise InvalidArgument(f"{what} is {', '.join(known[:-1])} or {known[-1]}, not {value!r}")
    return value


def version() -> str:
    """The version of the library: `0.1.0`."""
    number = lib.hlo_api_version()
    return f"{number >> 16}.{number >> 8 & 255}.{number & 255}"
