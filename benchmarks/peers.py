#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times programs on Meshlo beside its peers, in turns, and prints one table.

    benchmarks/peers.py [--rounds N] [--seconds S] [--threads N] [--peers LIST] [--against FILE] [--json FILE] [--models] [NAME…]

Each peer is a process of its own, pinned to the same cores: Meshlo; XLA:CPU, where $PYTHON (this one) has JAX; PyTorch, eager
and compiled, where $TORCH_PYTHON ($PYTHON) has it. A program is compiled by all, then each runs it for S seconds, N times in
turn. A row shows the least time of each in milliseconds, the ratio of a peer's to Meshlo's, what the machine itself needs (its
arguments read, its results written, its f32 products at the measured peak), and the spread: by how many percent the median of
Meshlo's rounds exceeds the least. On a busy machine use BENCH_CLOCK=processor.

--against FILE adds the peer "before": meshlo_array_benchmarks of another build, so that one run shows what a change does to each
program. Its ratio is above 1 where this build is faster; `--peers "" --against FILE` times these two alone.

The names are those of benchmarks/programs (all by default), and with JAX those of models.py (--models for all of them).
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
SERVER = os.path.join(ROOT, "build/release/bin/meshlo_array_benchmarks")
MADE = os.path.join(ROOT, "build/benchmarks")


class Peer:
    """A process that compiles and times programs: requests and answers are lines (see array_cases.c)."""

    def __init__(self, name, command, cores, environment=None):
        self.name = name
        settings = {
            "MESHLO_NUM_THREADS": str(len(cores)), "OMP_NUM_THREADS": str(len(cores)), "JAX_PLATFORMS": "cpu",
            **(environment or {})
        }
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                        text=True, env={**os.environ, **settings},
                                        preexec_fn=lambda: os.sched_setaffinity(0, cores))

    def ask(self, request):
        """The words of the answer, None where the peer does not have the program."""
        try:
            self.process.stdin.write(request + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            raise SystemExit(f"peers.py: {self.name} ended at `{request}`")
        word, _, rest = answer.strip().partition(" ")
        if word == "ok":
            return rest
        if word != "absent":
            print(f"{self.name}: {request}: {rest}", file=sys.stderr)
        return None


def has(python, module):
    command = [python, "-c", f"import {module}"]
    return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0


def start_peers(cores, wanted, against):
    """Meshlo, another build of it (`against`, None for none) and those of the peers `wanted` (names, None for all) that are installed."""
    python = sys.executable
    torch = os.environ.get("TORCH_PYTHON", python)
    commands = {
        "XLA": (python, "jax", [f"{HERE}/program_cases.py", "serve"]),
        "PyTorch": (torch, "torch", [f"{HERE}/torch_cases.py"]),
        "compiled": (torch, "torch", [f"{HERE}/torch_cases.py", "--compile"]),
    }
    unknown = [name for name in wanted or [] if name not in commands]
    if unknown:
        raise SystemExit(f"peers.py: no peer {', '.join(unknown)}; there are {', '.join(commands)}")
    peers = {"Meshlo": Peer("Meshlo", [SERVER, "--serve", MADE], cores)}
    if against is not None:
        peers["before"] = Peer("before", [against, "--serve", MADE], cores)
    for name, (interpreter, module, command) in commands.items():
        if (wanted is None or name in wanted) and has(interpreter, module):
            peers[name] = Peer(name, [interpreter, *command], cores)
    return peers


def measure(name, peers, rounds, seconds):
    """A row: compile times, all run times by peer, the machine's limit."""
    row = {"name": name, "compile_ms": {}, "run_ms": {}, "limit_ms": None, "evaluator": False}
    for peer in peers.values():
        answer = peer.ask(f"prepare {name}")
        if answer is None:
            if peer.name == "Meshlo":
                return None
            continue
        row["compile_ms"][peer.name] = float(answer.split()[0])
        row["evaluator"] |= "evaluator" in answer
        row["run_ms"][peer.name] = []
    limits = []
    for _ in range(rounds):
        for key, times in row["run_ms"].items():
            answer = peers[key].ask(f"time {seconds}")
            if answer is not None:
                times.append(float(answer))
        limits.append(float(peers["Meshlo"].ask(f"limit {seconds / 4}")))
    row["run_ms"] = {key: times for key, times in row["run_ms"].items() if times}
    row["limit_ms"] = min(limits)
    return row


def columns(row, peers):
    ours = min(row["run_ms"]["Meshlo"])
    spread = 100 * (statistics.median(row["run_ms"]["Meshlo"]) / ours - 1)
    cells = [row["name"], f"{ours:.4g}"]
    for key in peers:
        if key != "Meshlo":
            times = row["run_ms"].get(key)
            cells += [f"{min(times):.4g}", f"{min(times) / ours:.2f}"] if times else ["", ""]
    cells += [f"{row['limit_ms']:.4g}", f"{100 * row['limit_ms'] / ours:.0f} %", f"{spread:.0f} %"]
    cells += [f"{row['compile_ms'][key]:.3g}" if key in row["compile_ms"] else "" for key in peers]
    return cells + ["by the evaluator"] * row["evaluator"]


def geometric_means(rows, peers):
    for key in peers:
        ratios = [min(row["run_ms"][key]) / min(row["run_ms"]["Meshlo"]) for row in rows if key in row["run_ms"]]
        if key != "Meshlo" and ratios:
            below = sum(ratio < 1 for ratio in ratios)
            print(f"\n{key}: geometric mean {statistics.geometric_mean(ratios):.2f} over {len(ratios)} programs, {below} below 1")


def programs_to_measure(arguments):
    """The names, with the text of each in MADE: JAX writes those that the repository does not hold."""
    committed = sorted(file[:-4] for file in os.listdir(f"{HERE}/programs") if file.endswith(".hlo"))
    os.makedirs(MADE, exist_ok=True)
    for name in committed:
        link = f"{MADE}/{name}.hlo"
        if not os.path.islink(link):
            os.symlink(f"{HERE}/programs/{name}.hlo", link)
    names = arguments.names or committed
    others = [name for name in names if name not in committed]
    if others or arguments.models:
        if not has(sys.executable, "jax"):
            raise SystemExit(f"peers.py: no program {', '.join(others) or 'of models.py'} without JAX")
        wanted = others if not arguments.models else []
        made = subprocess.run([sys.executable, f"{HERE}/models.py", "write", MADE, *wanted], text=True, check=False,
                              stdout=subprocess.PIPE, env={**os.environ, "JAX_PLATFORMS": "cpu"})
        made_names = made.stdout.split()
        unknown = [name for name in others if name not in made_names]
        if made.returncode or unknown:
            raise SystemExit(f"peers.py: cannot make {', '.join(unknown) or 'the models'}")
        names = names + [name for name in made_names if name not in names]
    return names


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.2)
    parser.add_argument("--threads", type=int, default=1, help="cores that all peers are pinned to")
    parser.add_argument("--peers", metavar="LIST", help="XLA, PyTorch, compiled, separated by commas; all by default, \"\" for none")
    parser.add_argument("--against", metavar="FILE", help="meshlo_array_benchmarks of another build, the column `before`")
    parser.add_argument("--json", metavar="FILE", help="also writes every time measured")
    parser.add_argument("--models", action="store_true")
    parser.add_argument("names", nargs="*", metavar="NAME")
    arguments = parser.parse_args()
    available = sorted(os.sched_getaffinity(0))
    if not 1 <= arguments.threads <= len(available):
        parser.error(f"--threads {arguments.threads}: this process may use 1 to {len(available)} cores")
    names = programs_to_measure(arguments)
    wanted = None if arguments.peers is None else [name for name in arguments.peers.split(",") if name]
    if arguments.against is not None and not os.access(arguments.against, os.X_OK):
        parser.error(f"--against {arguments.against}: no program there")
    peers = start_peers(set(available[-arguments.threads:]), wanted, arguments.against)
    heads = ["program", "Meshlo"]
    for key in peers:
        heads += [key, "ratio"] if key != "Meshlo" else []
    heads += ["limit", "of limit", "spread"] + [f"{key} compiles" for key in peers]
    print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads), flush=True)
    rows = []
    for name in names:
        row = measure(name, peers, arguments.rounds, arguments.seconds)
        if row:
            rows.append(row)
            print("| " + " | ".join(columns(row, peers)) + " |", flush=True)
    geometric_means(rows, peers)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"cores": arguments.threads, "clock": os.environ.get("BENCH_CLOCK", "wall"), "rows": rows}, file, indent=1)
    return 0 if len(rows) == len(names) else 1


if __name__ == "__main__":
    sys.exit(main())
