#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: tests/packages/xprof.sh MESHLO     Reads profiles of `emulate --xplane` with XProf itself (the package xprof of PyPI, in an
# environment of its own, build/xprof-venv), and compares what its tools show with `emulate --json`. Without the package it says NOT RUN.
# The last line is "N passed, N failed".
set -u
source=$(cd "$(dirname "$0")/../.." && pwd)
meshlo=$(realpath "${1:?usage: tests/packages/xprof.sh MESHLO}")
venv=$source/build/xprof-venv
# Without what XProf needs for its web server and for profiles in a cloud.
if [ ! -e "$venv/ready" ]; then
    { python3 -m venv "$venv" && "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps xprof==2.24.2 &&
        "$venv/bin/pip" install --quiet --disable-pip-version-check absl-py "etils[epath]" gviz-api numpy protobuf six werkzeug &&
        touch "$venv/ready"; } >"$source/build/xprof.log" 2>&1 || {
        echo "NOT RUN: profiles in XProf: the package xprof could not be installed"
        echo "0 passed, 0 failed"
        exit 0
    }
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for program in mlp_gradient_8192.hlo:v5e-8 decoder_32b_step.mlir.xz:v5p-128; do
    session=$work/${program%%.*}  # XProf keeps what it has read in the profile's folder
    mkdir "$session"
    "$meshlo" emulate "$source/examples/${program%:*}" --on "${program#*:}" --xplane "$session/step.xplane.pb" --json >"$session/step.json" ||
        exit 1
done
cd "$work" || exit 1
"$venv/bin/python" -B - 2>errors <<'EOF' || { tail -n 20 errors; exit 1; }
import glob
import json
import traceback

from xprof.convert import raw_to_tool_data


def tool(path, name):
    data, _ = raw_to_tool_data.xspace_to_tool_data([path], name, {})
    return json.loads(data)


def near(a, b, tolerance=1e-6):
    assert abs(a - b) <= tolerance * abs(b), (a, b)


# All leaves below a node of the profile of operations.
def leaves(node):
    for child in node.get("children", []):
        yield from leaves(child)
    if not node.get("children"):
        yield node


def op_profile(path, report, ops):
    root = tool(path, "op_profile")["byProgram"]
    near(root["metrics"]["rawTime"], report["step_seconds"] * 1e12, 1e-3)
    near(root["metrics"]["rawFlops"], sum(op["flops"] * op["count"] for op in ops), 1e-3)
    near(root["metrics"]["rawBytesAccessedArray"][0], sum(op["bytes"] * op["count"] for op in ops), 1e-3)
    found = {leaf["name"] for leaf in leaves(root)}
    largest = max(ops, key=lambda op: op["duration"] * op["count"])["name"]
    assert any(largest in name for name in found), (largest, found)


def trace_viewer(path, report, ops):
    events = tool(path, "trace_viewer")["traceEvents"]
    threads = {event["args"]["name"] for event in events if event.get("name") == "thread_name"}
    assert {"Steps", "XLA Modules", "XLA Ops"} <= threads, threads
    near(max(event["dur"] for event in events if event.get("ph") == "X"), report["step_seconds"] * 1e6, 1e-3)


def hlo_stats(path, report, ops):
    table = tool(path, "hlo_stats")
    columns = [column["id"] for column in table["cols"]]
    rows = [dict(zip(columns, [cell["v"] for cell in row["c"]])) for row in table["rows"]]
    totals = {row["hlo_op_name"]: (row["occurrences"], row["total_time"]) for row in rows}
    for op in ops:
        if op["duration"] and op["name"] in totals:
            assert totals[op["name"]][0] == op["count"], op
            near(totals[op["name"]][1], op["duration"] * op["count"] * 1e6, 1e-2)
    assert len(totals) > len(ops) / 2


def overview(path, report, ops):
    assert tool(path, "overview_page")
    assert tool(path, "roofline_model")


# The peak is that of the report to the byte; whatever is held at it has its name and size there; nothing is lost between buffers.
def memory_viewer(path, report, ops):
    raw_to_tool_data.xspace_to_tool_names([path])  # XProf takes the program out of the profile here
    view = json.loads(raw_to_tool_data.xspace_to_tool_data([path], "memory_viewer", {"module_name": f"{report['module']}(1)"})[0])
    mebibyte = 1 << 20
    assert view["peakHeapMib"] * mebibyte == report["hbm_peak_bytes"], (view["peakHeapMib"], report["hbm_peak_bytes"])
    assert view["entryComputationParametersMib"] * mebibyte == report["argument_bytes"]
    near(view["totalBufferAllocationMib"], view["peakHeapMib"], 0.02)
    held = {}
    for one in view["maxHeap"]:
        held.setdefault(one.get("instructionName", "").split("{")[0], []).append(one["logicalBufferSizeMib"] * mebibyte)
    large = [one for one in report["buffers"] if one["bytes"] >= 1 << 14]  # it adds up smaller ones
    assert len(large) > 5
    for one in large:
        assert one["bytes"] in held.get(one["name"], []), (one, held.get(one["name"]))
    assert {one.get("groupName") for one in view["maxHeap"]} >= {"Parameter", "Temporary"}


# XProf makes XLA's own module of the program.
def graph_viewer(path, report, ops):
    raw_to_tool_data.xspace_to_tool_names([path])
    largest = max(ops, key=lambda op: op["duration"] * op["count"])["name"]
    for kind, words in (("graph", largest), ("short_txt", f"HloModule {report['module']}")):
        options = {"module_name": f"{report['module']}(1)", "node_name": largest, "graph_width": 1, "type": kind, "format": "html"}
        data, _ = raw_to_tool_data.xspace_to_tool_data([path], "graph_viewer", {"graph_viewer_options": options})
        assert words in (data.decode() if isinstance(data, bytes) else data), words


passed = failed = 0
for path in sorted(glob.glob("*/step.xplane.pb")):
    report = json.load(open(path.removesuffix("xplane.pb") + "json"))
    ops = [op for op in report["ops"] if op["bound"] not in ("network", "none")]
    for check in (op_profile, trace_viewer, hlo_stats, overview, memory_viewer, graph_viewer):
        try:
            check(path, report, ops)
            passed += 1
        except Exception:
            failed += 1
            print(f"[FAIL] xprof::{check.__name__} of {path}\n{traceback.format_exc()}")
print(f"{passed} passed, {failed} failed")
raise SystemExit(failed > 0)
EOF
