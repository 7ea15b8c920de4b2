# SPDX-License-Identifier: Apache-2.0
"""Meshlo: partitions programs for a mesh of devices, runs them on virtual TPU devices, and times them on a model of the slice.

    lowered = jax.jit(step).lower(*arguments)
    report = meshlo.emulate(lowered, on="v5e-16", mesh={"data": 4, "model": 4})
    report.step_seconds, report.hbm_peak, report.collectives
    report.save("report.html")
    print(meshlo.explain(lowered))
    plan = meshlo.plan(lowered, on="v5e-16"); plan.in_specs
    results = meshlo.run(lowered, arguments, on="v2-8")

Programs are what JAX lowers or exports, or HLO and StableHLO in any form (`load`). Errors of the library are exceptions
below `meshlo.Error` with its text. All functions may be called from any thread.
"""
from meshlo import testing
from meshlo._compare import Comparison, Sweep, compare, sweep
from meshlo._difference import Difference, first_difference
from meshlo._emulate import Emulation, Explanation, emulate, explain, partition
from meshlo._library import Error, InvalidArgument, InvalidType, NotFound, PermissionDenied, ResourceExhausted, Unimplemented, version as _version
from meshlo._machine import Device, Topology, devices, devices_of, plugin_path, topology
from meshlo._plan import Plan, plan
from meshlo._program import Partitioned, Program, load
from meshlo._run import evaluate, run

__version__ = _version()

__all__ = [
    "Comparison", "Device", "Difference", "Emulation", "Error", "Explanation", "InvalidArgument", "InvalidType", "NotFound", "Partitioned",
    "PermissionDenied", "Plan", "Program", "ResourceExhausted", "Sweep", "Topology", "Unimplemented", "compare", "devices", "devices_of",
    "emulate", "evaluate", "explain", "first_difference", "load", "partition", "plan", "plugin_path", "run", "sweep", "testing",
    "topology",
]
