#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes jaxlib.pb: the HloModuleProto that jaxlib 0.10.2 makes of jaxlib.hlo.

usage: make_fixture.py     Checks too that XLA prints our protobuf of that text as it prints its own.
"""
import pathlib
import subprocess

from jaxlib import _hlo

HERE = pathlib.Path(__file__).resolve().parent
MESHLO = HERE.parents[1] / "build/release/bin/meshlo"

proto = _hlo.hlo_module_from_text((HERE / "jaxlib.hlo").read_text()).as_serialized_hlo_module_proto()
(HERE / "jaxlib.pb").write_bytes(proto)
ours = subprocess.run([MESHLO, "convert", HERE / "jaxlib.hlo", "--to", "proto"], check=True, capture_output=True).stdout
theirs, again = (_hlo.HloModule.from_serialized_hlo_module_proto(p).to_string() for p in (proto, ours))
assert theirs == again, f"{theirs}\n{again}"
