# SPDX-License-Identifier: Apache-2.0
# Every verb works on the simplified program: the cases of tests/compile/cases.def leave the operations that their
# third column lists, whichever verb compiles them. (The fourth is what XLA leaves.) They compute what the evaluator
# computes from the program as it was written, on a host and on a slice.
cat >simplified.py <<'PYTHON'
import os, pathlib, re, subprocess, sys

meshlo, table = sys.argv[1:]
ROW = re.compile(r'SIMPLIFIES\("(.*?)", "(.*?)",\n\s+"(.*?)",\n\s+"(.*?)", ".*?"\)')
OPERATION = re.compile(r"^\s+(?:ROOT )?%?[\w.-]+ = \(?[^=]*?\)? ?([a-z][a-z0-9-]*)\(")
VERBS = {"run": ["--on", "cpu"], "emulate": ["--on", "v5e-1"], "explain": [], "partition": ["-o", os.devnull]}


def left(text):
    found = [OPERATION.match(line) for line in text.splitlines()]
    return " ".join(sorted(m.group(1) for m in found if m and m.group(1) not in ("parameter", "constant", "tuple")))


rows = [[part.replace("\\n", "\n") for part in row] for row in ROW.findall(pathlib.Path(table).read_text())]
assert len(rows) > 80, len(rows)
wrong = []
for number, (name, computations, body, wanted) in enumerate(rows):
    file = pathlib.Path(f"case{number}.hlo")
    file.write_text(f"HloModule t\n{computations}ENTRY e {{\n p = f32[6] parameter(0)\n n = s32[6] parameter(1)\n {body}\n}}\n")
    answers = {"opt": subprocess.run([meshlo, "opt", file], capture_output=True, text=True, check=True).stdout}
    for verb in VERBS:
        folder = pathlib.Path(f"{verb}{number}")
        subprocess.run([meshlo, verb, file, *VERBS[verb], "--dump-to", folder], capture_output=True, check=True)
        (dump,) = folder.glob("*.after_optimizations.txt")
        answers[verb] = dump.read_text()
    for machine in "cpu", "v5e-1":
        run = subprocess.run([meshlo, "run", file, "--on", machine, "--compare", "eval"], capture_output=True, text=True)
        if run.returncode:
            wrong.append(f"run --on {machine}: {name}: {run.stdout}{run.stderr}")
    wrong += [f"{verb}: {name}: {left(text)} instead of {wanted}" for verb, text in answers.items() if left(text) != wanted]
print("\n".join(wrong))
sys.exit(bool(wrong))
PYTHON
check "simplified: every verb leaves what the table says" python3 simplified.py "$MESHLO" "$SOURCE/tests/compile/cases.def"

# A second run finds nothing to do, whatever the program.
cat >twice.py <<'PYTHON'
import pathlib, subprocess, sys

meshlo, source = sys.argv[1:]
files = [file for folder in ("tests", "benchmarks", "examples") for file in pathlib.Path(source, folder).rglob("*")
         if file.suffix in (".hlo", ".mlir")]
simplified, wrong = 0, []
for file in sorted(files):
    once = subprocess.run([meshlo, "opt", file, "-o", "once.hlo"], capture_output=True)
    if once.returncode:
        continue  # programs that must be refused
    simplified += 1
    twice = subprocess.run([meshlo, "opt", "once.hlo", "-o", "twice.hlo"], capture_output=True, text=True)
    if twice.returncode:
        wrong.append(f"{file}: {twice.stderr}")
    elif pathlib.Path("once.hlo").read_bytes() != pathlib.Path("twice.hlo").read_bytes():
        wrong.append(f"{file}: the second run changes it")
print("\n".join(wrong))
sys.exit(bool(wrong) or simplified < 200)
PYTHON
check "simplified: opt(opt(p)) == opt(p) for the programs of the repository" python3 twice.py "$MESHLO" "$SOURCE"
