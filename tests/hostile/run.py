#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: tests/hostile/run.py MESHLO [GROUP…]     Gives every reader of the command inputs that it must refuse.

Each case runs in a folder and a process of its own. It passes when the exit code is one that docs/cli.md gives for this kind of
input, standard error says why, and the process took neither long nor much memory. A crash, a sanitizer's report, exit 0
and exit 70 (our bug) fail. `survive` cases are mutations that may happen to be good programs: they may also succeed.
The last line has the form of Criterion's.
"""
import concurrent.futures
import os
import shutil
import subprocess
import sys
import tempfile
import threading

import cases
import cases_binary
import cases_machine
import cases_text
import cases_usage

GROUPS = {"text": cases_text, "binary": cases_binary, "machine": cases_machine, "usage": cases_usage}
SECONDS = 60
# Memory is not taken on an input's word: what these inputs may need, however large they claim to be.
MEGABYTES = 1500
LEAST_REFUSED = 300
SANITIZER_EXIT = 99


def environment():
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("MESHLO_", "XLA_"))}
    kept.update(LC_ALL="C", NO_COLOR="1", ASAN_OPTIONS=f"exitcode={SANITIZER_EXIT}:allocator_may_return_null=1", UBSAN_OPTIONS="print_stacktrace=1",
                MALLOC_ARENA_MAX="1")
    return kept


def run(meshlo, case, folder):
    """Why the case failed, or None."""
    for name, content in case.files.items():
        path = os.path.join(folder, name)
        with open(path, "wb") as out:
            out.write(content.encode() if isinstance(content, str) else content)
    with open(os.path.join(folder, ".out"), "wb") as out, open(os.path.join(folder, ".err"), "wb") as err:
        process = subprocess.Popen([meshlo, *case.arguments], cwd=folder, env={**environment(), **case.environment},
                                   stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        # wait4 tells this child's memory; the timer ends a child that hangs.
        timer = threading.Timer(SECONDS, process.kill)
        timer.start()
        _, status, usage = os.wait4(process.pid, 0)
        timer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
    with open(os.path.join(folder, ".err"), "rb") as err:
        said = err.read().decode("utf-8", "replace").strip()
    code = process.returncode
    allowed = case.codes if not case.survive else {0, *case.codes}
    if code not in allowed:
        return f"exit code {code} instead of {sorted(allowed)}: {said[-1500:]}"
    if code != 0 and not said:
        return f"exit code {code} without a word"
    if code != 0 and case.says not in said:
        return f"no '{case.says}' in: {said[:600]}"
    if "runtime error:" in said:
        return said[:1500]
    if usage.ru_maxrss > MEGABYTES * 1024:
        return f"took {usage.ru_maxrss // 1024} MB"
    return None


def main():
    meshlo = os.path.realpath(sys.argv[1])
    chosen = []
    for group in sys.argv[2:] or GROUPS:
        chosen += [case._replace(name=f"{group}.{case.name}") for case in GROUPS[group].all_cases(meshlo)]
    names = [case.name for case in chosen]
    assert len(set(names)) == len(names), sorted(n for n in names if names.count(n) > 1)[:5]
    failed = 0
    scratch = tempfile.mkdtemp()

    def one(case):
        folder = tempfile.mkdtemp(dir=scratch)
        try:
            return case, run(meshlo, case, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for case, why in pool.map(one, chosen):
            if why:
                failed += 1
                print(f"[FAIL] hostile::{case.name}: {' '.join(case.arguments)}\n       " + why.replace("\n", "\n       "))
    shutil.rmtree(scratch)
    refused = sum(not case.survive for case in chosen)
    if not sys.argv[2:] and refused < LEAST_REFUSED:
        failed += 1
        print(f"[FAIL] only {refused} inputs that must be refused")
    print(f"[====] Synthesis: Tested: {len(chosen)} | Passing: {len(chosen) - failed} | Failing: {failed} | Crashing: 0")
    return failed > 0


sys.exit(main())
