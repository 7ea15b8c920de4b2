# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin of run-suites: writes each test's start and end to a file, and leaves out tests that already have one.

A test that takes the process down leaves a start without an end, so the runner knows which one it was and runs the rest
in a new process.
"""

import os

_RECORD = os.environ["MESHLO_SUITE_RECORD"]


def _on_one_line(node):
    return " ".join(node.split())  # names of subtests may hold several


def _append(event, node):
    with open(_RECORD, "a", encoding="utf-8") as record:
        record.write(f"{event}\t{_on_one_line(node)}\n")


def pytest_collection_modifyitems(config, items):
    seen = set()
    if os.path.exists(_RECORD):
        with open(_RECORD, encoding="utf-8") as record:
            seen = {line.rstrip("\n").split("\t", 1)[1] for line in record}
    left_out = [item for item in items if _on_one_line(item.nodeid) in seen]
    items[:] = [item for item in items if _on_one_line(item.nodeid) not in seen]
    config.hook.pytest_deselected(items=left_out)


def pytest_runtest_logstart(nodeid, location):
    _append("start", nodeid)


def pytest_runtest_logreport(report):
    if report.failed or report.skipped or report.when == "call":
        subtest = getattr(report, "context", None)  # pytest counts subtests as tests, and so does control.tsv
        _append(report.outcome, report.nodeid + (f" {subtest.msg or ''} {dict(subtest.kwargs)}" if subtest else ""))
