#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `jax.jit(f).lower(…).compile()` takes once the program is lowered: on the plugin and on XLA:CPU, in one process, in turns.

    TPU_LIBRARY_PATH=build/release/libmeshlo_pjrt.so python benchmarks/jax/compile_cases.py [ROUNDS [CASE…]]

Every case of benchmarks/program_cases.py and the step of a network on eight devices, in milliseconds, the least of ROUNDS
(default 3) turns. Python's part, tracing and lowering, is the same on both platforms and left out; jaxlib's part, writing the bytecode
and wrapping the result, is in it. BENCH_CLOCK=processor counts the processor's time, as in compare.py.
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]

import compare  # noqa: E402  (sets the environment before JAX is there)
import jax  # noqa: E402
import program_cases  # noqa: E402


def lowered_once(function, shapes):
    """An action that compiles: JAX keeps what a lowered program became, so each turn lowers anew, outside of the clock."""

    def compile_again():
        program = jax.jit(lambda *arguments: function(*arguments)).lower(*shapes)
        started = compare.CLOCK()
        program.compile()
        return compare.CLOCK() - started

    return compile_again


def measure(name, make, rounds):
    best = {}
    for _ in range(rounds):
        for platform in ("tpu", "cpu"):
            with jax.default_device(jax.devices(platform)[0]):
                best[platform] = min(best.get(platform, float("inf")), make(jax.devices(platform))())
    ratio = best["cpu"] / best["tpu"]
    print(f"| {name} | {best['tpu'] * 1e3:.3g} | {best['cpu'] * 1e3:.3g} | {ratio:.1f} |", flush=True)
    return ratio


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    wanted = tuple(sys.argv[2:] or [""])
    cases = {name: lambda devices, name=name: lowered_once(program_cases.CASES[name][0], program_cases.shapes_of(name))
             for name in program_cases.CASES}
    cases["mlp_step_eight_devices"] = lambda devices: lowered_once(compare.mlp_step, compare.mlp_shapes(devices))
    print("| case | Meshlo | XLA | XLA / Meshlo |\n|---|---|---|---|")
    for name, make in cases.items():
        if name.startswith(wanted):
            measure(name, make, rounds)


if __name__ == "__main__":
    main()
