# SPDX-License-Identifier: Apache-2.0
"""Writes the Python module meshlo/_declarations.py: the declarations of Meshlo's public headers, for cffi.

usage: make_declarations.py SOURCE OUTPUT [COMPILER]

The headers are the only description of the C API. They are preprocessed without the C library's headers (cffi knows the
types of those that they use), and what cffi cannot call is left out: inline functions, complex numbers by value, va_list.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

import cffi

# What Python programs use, and what these include.
HEADERS = (
    "hlo/base/file.h",
    "hlo/hlo.h",
    "hlo/eval/eval.h",
    "hlo/proto/proto.h",
    "hlo/stablehlo/stablehlo.h",
    "spmd_partitioner/spmd.h",
    "compile/pipeline.h",
    "targets/client.h",
    "targets/program.h",
    "targets/spmd_machine.h",
    "emulator/emulator.h",
    "advice/advice.h",
    "advice/difference.h",
    "advice/plan.h",
    "advice/trial.h",
)
SYSTEM_HEADERS = "assert complex float limits math stdarg stdbool stddef stdint stdio stdlib string".split()


def preprocess(source, compiler):
    """The headers after the preprocessor, with nothing of the C library."""
    with tempfile.TemporaryDirectory() as folder:
        for name in SYSTEM_HEADERS:
            pathlib.Path(folder, name + ".h").touch()
        command = [compiler, "-E", "-P", "-nostdinc", "-I", folder, "-I", str(source), "-D__attribute__(x)=", "-Dbool=_Bool",
                   "-DNULL=0", "-x", "c", "-"]
        text = "".join(f'#include "{header}"\n' for header in HEADERS)
        return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def without_inline_functions(text):
    """Leaves out each `static inline` function with its body."""
    kept, position = [], 0
    for match in re.finditer(r"^static inline\b", text, re.MULTILINE):
        if match.start() < position:
            continue
        kept.append(text[position:match.start()])
        end, depth = text.index("{", match.start()), 0
        while True:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
            if depth == 0:
                break
        position = end
    return "".join(kept) + text[position:]


def declarations(source, compiler):
    """What cffi reads: types, constants and the functions that it can call."""
    text = without_inline_functions(preprocess(source, compiler))
    text = re.sub(r"^_Static_assert\(.*?\);$", "", text, flags=re.MULTILINE | re.DOTALL)
    statements = re.split(r"(?<=;)\n", text)
    return "\n".join(one for one in statements if not re.search(r"\bva_list\b|_Complex", one) or "{" in one)


def main():
    source, output = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    ffi = cffi.FFI()
    ffi.set_source("meshlo._declarations", None)
    ffi.cdef(declarations(source, sys.argv[3] if len(sys.argv) > 3 else "cc"), override=True)  # some are declared twice
    output.parent.mkdir(parents=True, exist_ok=True)
    ffi.emit_python_code(str(output))


if __name__ == "__main__":
    main()
