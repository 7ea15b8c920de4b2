# SPDX-License-Identifier: Apache-2.0
"""Every verb called wrongly."""
from cases import DOT, RICH, USAGE, Case

FILES = {"dot.hlo": DOT, "rich.hlo": RICH}
# Arguments that each verb with a program must refuse.
EVERY_PROGRAM = [[], ["missing.hlo"], ["."], ["dot.hlo", "dot.hlo"], ["--no-such-option", "dot.hlo"], ["dot.hlo", "--"], ["-x", "dot.hlo"],
                 ["dot.hlo", "--json=maybe"], ["", ""], ["/proc/self/mem"], ["dot.hlo\n"]]
PROGRAM_VERBS = ["convert", "opt", "partition", "run", "emulate", "explain", "check"]
VERBS = PROGRAM_VERBS + ["devices", "topology", "shardings", "version"]
WRONG = [
    ["convert", "dot.hlo", "--to"], ["convert", "dot.hlo", "--to", "html"], ["convert", "dot.hlo", "--print", "wide"],
    ["convert", "dot.hlo", "-o"], ["convert", "dot.hlo", "-o", "/nonexistent/x"], ["convert", "dot.hlo", "-o", "/"],
    ["convert", "dot.hlo", "-o", ""], ["convert", "dot.hlo", "--to", "dot", "--to"],
    ["opt", "dot.hlo", "--passes", "no-such-pass"], ["opt", "dot.hlo", "--passes", "dce,"], ["opt", "dot.hlo", "--passes", ""],
    ["opt", "dot.hlo", "--dump-to", "/proc/nowhere"], ["opt", "dot.hlo", "--dump-to", "d", "--dump-pass-re", "("],
    ["opt", "dot.hlo", "--dump-to", "dot.hlo"],
    ["partition", "dot.hlo", "--num-partitions", "0"], ["partition", "dot.hlo", "--num-partitions", "-1"],
    ["partition", "dot.hlo", "--num-partitions", "x"], ["partition", "dot.hlo", "--num-partitions", "4x"],
    ["partition", "dot.hlo", "--num-partitions", "99999999999999999999"], ["partition", "dot.hlo", "--num-partitions", "3", "--mesh", "a=4"],
    ["partition", "rich.hlo", "--mesh", "a=3"], ["partition", "dot.hlo", "--shard", "p0=a,-"], ["partition", "dot.hlo", "-o", "/nonexistent/x",
                                                                                                "--mesh", "a=2"],
    ["run", "dot.hlo", "--input"], ["run", "dot.hlo", "--input", "x"], ["run", "dot.hlo", "--input", "p0=missing.npy"],
    ["run", "dot.hlo", "--input", "p0="], ["run", "dot.hlo", "--input", "=x.npy"], ["run", "dot.hlo", "--input", "p0=."],
    ["run", "dot.hlo", "--input", "missing.npz"], ["run", "dot.hlo", "--seed", "x"], ["run", "dot.hlo", "--seed", "99999999999999999999"],
    ["run", "dot.hlo", "--repeat", "0"], ["run", "dot.hlo", "--repeat", "-3"], ["run", "dot.hlo", "--repeat", "many"],
    ["run", "dot.hlo", "--compare", "xla"], ["run", "dot.hlo", "--engine", "fast"], ["run", "dot.hlo", "--numerics", "f64"],
    ["run", "dot.hlo", "--compare", "eval", "--rtol", "x"], ["run", "dot.hlo", "--compare", "eval", "--rtol", "-1"],
    ["run", "dot.hlo", "--compare", "eval", "--atol", "nan"], ["run", "dot.hlo", "--output", "dot.hlo"], ["run", "dot.hlo", "--output", ""],
    ["run", "dot.hlo", "--output", "dot.hlo/a/b"],
    ["emulate", "dot.hlo"], ["emulate", "dot.hlo", "--topology"], 
    ["emulate", "dot.hlo", "--topology", "v2-8", "--trace", "/nonexistent/t.json"],
    ["emulate", "dot.hlo", "--topology", "v2-8", "--report", "/nonexistent/r.html"], ["emulate", "dot.hlo", "--topology", "v2-8", "--mesh", "a=16"],
    ["check", "dot.hlo", "--forbid", "all-gatherr"], ["check", "dot.hlo", "--forbid", ""], ["check", "dot.hlo", "--forbid", "negate"],
    ["check", "dot.hlo", "--max-bytes", "many"], ["check", "dot.hlo", "--max-bytes", "-1"], ["check", "dot.hlo", "--max-bytes", "1XiB"],
    ["check", "dot.hlo", "--max-bytes", "99999999999999999999GiB"], ["check", "dot.hlo", "--max-bytes", ""], ["check", "dot.hlo"],
    ["check", "dot.hlo", "--baseline", "missing.json"],
    ["devices", "v2-8", "v2-8"], ["devices", "--mesh", "a=2"], ["topology"], ["topology", "v2-8", "--svg", "/nonexistent/s.svg"],
    ["topology", "v2-8", "--hwloc", "/nonexistent/s.xml"], ["topology", "v2-8", "--svg"],
    ["shardings", "--mesh", ",".join(f"a{i}=1" for i in range(17)), "--shape", "4", "--spec", "-"],
    ["shardings"], ["shardings", "--mesh", "a=4"], 
    ["shardings", "--mesh", "a=4", "--shape", "8", "--spec", "a,b"], ["shardings", "--mesh", "a=4", "--shape", "0", "--spec", "a"],
    ["shardings", "--mesh", "a=4", "--shape", "-8", "--spec", "a"], ["shardings", "--mesh", "a=4", "--shape", "x", "--spec", "a"],
    ["shardings", "--mesh", "a=4", "--shape", "8,8,8", "--spec", "a,-,-,-"], 
    ["shardings", "--mesh", "a=4", "--shape", "99999999999999999999", "--spec", "a"], ["shardings", "--mesh", "a=4", "--shape", "8", "--spec", "b"],
    ["shardings", "--mesh", "a=4,b=2", "--shape", "8,8", "--spec", "a,a"], ["shardings", "--mesh", "a=4", "--shape", "6,", "--spec", "a"],
    ["version", "now"], ["versoin"], [""], ["--version=3"], ["--no-such-option"], ["CONVERT", "dot.hlo"],
]
ENVIRONMENT = [
    (["devices"], {"MESHLO_TOPOLOGY": "v99-8"}), (["devices"], {"MESHLO_TOPOLOGY": ""}),
    (["run", "dot.hlo"], {"MESHLO_NUMERICS": "f64"}), (["version"], {"MESHLO_FLAGS": "--nonsense"}),
    (["run", "dot.hlo"], {"MESHLO_NUM_THREADS": "many"}), (["run", "dot.hlo"], {"MESHLO_NUM_THREADS": "-1"}),
    (["run", "dot.hlo"], {"MESHLO_CPU_FEATURES": "abacus"}), (["run", "dot.hlo"], {"MESHLO_GENERATED_CODE": "some"}),
]


def all_cases(_):
    for verb in PROGRAM_VERBS:
        for i, arguments in enumerate(EVERY_PROGRAM):
            if "--json=maybe" in arguments and verb in ("convert", "opt", "check"):
                continue  # an unknown flag: the next case
            more = ["--topology", "v2-8"] if verb == "emulate" else []
            if arguments == ["dot.hlo", "--"] and verb != "check":
                continue  # ends the options: a good call
            yield Case(f"{verb} {i}", [verb, *arguments, *more], FILES, frozenset({2, 3}) if "/proc/self/mem" in arguments else USAGE)
    for i, arguments in enumerate(WRONG):
        yield Case(f"wrong {i}: {' '.join(arguments)}", arguments, FILES, USAGE)
    for i, (arguments, variables) in enumerate(ENVIRONMENT):
        yield Case(f"environment {i}", arguments, FILES, USAGE, environment=variables)
