# SPDX-License-Identifier: Apache-2.0
# The commands that README, docs/ and the examples of --help show run as they are printed, with small programs under the names
# that they use. Those of `launch` that start JAX or other machines are tested by test_launch.sh, tests/jax and machines.sh.
cat >shown.py <<'PY'
import os
import pathlib
import re
import subprocess
import sys

SOURCE = pathlib.Path(os.environ["SOURCE"])
MESHLO = os.environ["MESHLO"]


def network(name, wants):
    """Four matrices, of which `wants` is what the last one is used for."""
    return f"""HloModule {name}
ENTRY main {{
  p0 = f32[64,128] parameter(0), metadata={{op_name="x"}}
  p1 = f32[128,256] parameter(1), metadata={{op_name="layer.wq"}}
  p2 = f32[256,128] parameter(2), metadata={{op_name="layer.wo"}}
  p3 = f32[64,128] parameter(3), metadata={{op_name="y"}}
  a = f32[64,256] dot(p0, p1), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  b = f32[64,128] dot(a, p2), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  {wants}
}}
"""


SCALAR = """HloModule scalar
ENTRY main {
  a = f32[] constant(3)
  ROOT b = f32[] multiply(a, a)
}
"""
SUM = "sum { s = f32[] parameter(0) t = f32[] parameter(1) ROOT u = f32[] add(s, t) }\n"
LOSS = "HloModule loss\n" + SUM + """ENTRY main {
  w = f32[8,8] parameter(0)
  x = f32[8,8] parameter(1)
  p = f32[8,8] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  q = f32[8,8] multiply(p, p)
  zero = f32[] constant(0)
  ROOT r
}
"""
LOOP = """HloModule loop
ENTRY main {
  first = token[] after-all()
  one = (f32[2], token[]) infeed(first)
  a = f32[2] get-tuple-element(one), index=0
  next = token[] get-tuple-element(one), index=1
  two = (f32[2], token[]) infeed(next)
  b = f32[2] get-tuple-element(two), index=0
  ROOT c = f32[2] add(a, b)
}
"""
ROOT = "r = f32[] reduce(q, zero), dimensions={0,1}, to_apply=sum"


def npy(path, count, dims):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {dims}, }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(4 * count))


def convert(text, path):
    """Writes HLO text, or the StableHLO of it if the name wants that."""
    if path.suffix == ".hlo":
        path.write_text(text)
        return
    hlo = path.with_suffix(".source")
    hlo.write_text(text)
    subprocess.run([MESHLO, "convert", hlo, "--to", "stablehlo", "-o", path], check=True)


def write_files(folder):
    step = network("step", "ROOT r = f32[64,128] subtract(b, p3)")
    other = network("step", "ROOT r = f32[64,128] add(b, p3)")
    for name, text in (("step.hlo", step), ("other.hlo", other), ("step.mlir", step), ("before.mlir", step), ("after.mlir", other),
                       ("scalar.hlo", SCALAR), ("loop.hlo", LOOP), ("loss.mlir", LOSS.replace("ROOT r", "ROOT " + ROOT)),
                       ("loss.hlo", LOSS.replace("ROOT r", "ROOT " + ROOT)),
                       ("aux.mlir", LOSS.replace("ROOT r", ROOT + "\n  ROOT t = (f32[], f32[8,8]) tuple(r, q)")),
                       ("model.mlir", step), ("four.hlo", step.replace("HloModule step", "HloModule step, num_partitions=4")), ("pair.mlir", LOSS.replace("ROOT r", "ROOT " + ROOT))):
        convert(text, folder / name)
    subprocess.run(["xz", "-k", folder / "step.hlo"], check=True)
    npy(folder / "x.npy", 64 * 128, (64, 128))
    for name in ("first.npy", "second.npy"):
        npy(folder / name, 2, (2,))
    (folder / "examples").symlink_to(SOURCE / "examples")


def shown():
    """The commands, each once, without their comments."""
    lines = []
    for document in (SOURCE / "README.md", *sorted((SOURCE / "docs").glob("*.md"))):
        lines += re.findall(r"^    (?:\$ )?(meshlo .*)$", document.read_text(), re.MULTILINE)
    verbs = re.findall(r"^CLI_VERB\((\w+)\)", (SOURCE / "tools/verbs.def").read_text(), re.MULTILINE)
    for verb in verbs:
        text = subprocess.run([MESHLO, verb, "--help"], check=True, capture_output=True, text=True).stdout
        lines += re.findall(r"^  (meshlo .*)$", text.partition("\nExamples:\n")[2], re.MULTILINE)
    lines = [re.sub(r"\s+#.*", "", line).strip() for line in lines]
    return [line for line in dict.fromkeys(lines) if "[" not in line and not re.search(r"launch .*(--hosts|python|v5e-16)", line)]


# What a command's files must be, where its options want another program than most do.
OTHERS = (("launch --on v5e-4", "run step.hlo", "run four.hlo"), ("sweep step.mlir --on v5e-8,v6e-8", "step.mlir", "examples/mlp_gradient_512.hlo"), ("grad loss.mlir --has-aux", "loss.mlir", "aux.mlir"), ("vmap model.mlir", "model.mlir", "pair.mlir"))


def main():
    folder = pathlib.Path.cwd() / "shown"
    folder.mkdir()
    (folder / "bin").mkdir()
    (folder / "bin/meshlo").symlink_to(MESHLO)
    write_files(folder)
    commands, bad = shown(), 0
    environment = {**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}"}
    for command in commands:
        line = command
        for text, before, after in OTHERS:
            if text in line:
                line = line.replace(before, after)
        before = (folder / "step.hlo").read_bytes()
        done = subprocess.run(["bash", "-o", "pipefail", "-c", line], cwd=folder, env=environment, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, check=False)
        (folder / "step.hlo").write_bytes(before)  # two examples write it
        # A comparison that fails its condition is an answer too.
        if done.returncode not in ((0, 1) if "--fail-if" in line else (0,)):
            bad += 1
            print(f"{command}\n  exit {done.returncode}: {done.stderr.strip()[:400]}")
    assert len(commands) > 40, commands
    sys.exit(bad > 0)


main()
PY
check "commands that documents and --help show" python3 -B shown.py
