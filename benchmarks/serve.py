# SPDX-License-Identifier: Apache-2.0
"""The peers' side of peers.py: answers its requests on standard input, as meshlo_array_benchmarks --serve does."""
import sys


def least_time(function, seconds, clock):
    """The least time of a call, over at least so many seconds and three calls."""
    begin = clock()
    function()
    first = clock()
    function()
    batch = 1 + int(1e-4 / (clock() - first + 1e-7))  # the clock itself takes time
    least, runs = float("inf"), 0
    while runs < 3 or clock() - begin < seconds:
        runs += 1
        start = clock()
        for _ in range(batch):
            function()
        least = min(least, (clock() - start) / batch)
    return least


def serve(cases, prepare, clock):
    """`prepare(name)` compiles a case: what it returns runs it when called, and has its compile_time in seconds."""
    prepared = None
    for line in sys.stdin:
        verb, _, rest = line.strip().partition(" ")
        try:
            if verb == "prepare" and rest not in cases:
                answer = "absent"
            elif verb == "prepare":
                prepared = None
                prepared = prepare(rest)
                answer = f"ok {prepared.compile_time * 1e3:.6g}"
            else:
                answer = f"ok {least_time(prepared, float(rest), clock) * 1e3:.6g}"
        except Exception as error:  # a program that a peer cannot run must not end the others' measurement
            answer = "error " + " ".join(str(error).split())[:300]
        print(answer, flush=True)
