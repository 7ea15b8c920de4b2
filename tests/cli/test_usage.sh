# SPDX-License-Identifier: Apache-2.0
# Usage: help, unknown names, exit code 2.
exits 2 "no verb" meshlo
says err "usage: meshlo VERB" "no verb: shows the usage"
exits 0 "help" meshlo --help
says out "Exit codes:" "help: exit codes"
exits 0 "manual of the command" meshlo --help=man
says out ".TH MESHLO" "manual of the command: roff"
exits 2 "unknown verb" meshlo conver x
for verb in $(meshlo --help | awk '/^  [a-z]+  / { print $1 }'); do
    exits 0 "help of $verb" meshlo "$verb" --help
    says out "Examples:" "help of $verb: examples"
    exits 2 "unknown option of $verb" meshlo "$verb" --no-such-option
    says err "--no-such-option" "unknown option of $verb: named"
    exits 0 "manual of $verb" meshlo "$verb" --help=man
done
exits 2 "near option" meshlo version --jsn
says err "did you mean --json" "near option: suggested"
exits 2 "too many arguments" meshlo version a
exits 0 "version" meshlo version
exits 0 "version json" meshlo version --json
json "j['version'] and j['cpu_features'] and 'hwloc' in j['libraries']" "version json: keys"
json "j['blas']['choice'] == 'auto' and ('core' in j['blas'] or 'libopenblas0-pthread' in j['blas']['missing'])" "version json: the library for linear algebra"
exits 0 "version without it" env MESHLO_BLAS=builtin "$MESHLO" version
says out "blas: builtin" "version without it: says so"
exits 0 "flags from the environment" env MESHLO_FLAGS=--json "$MESHLO" version
json "j['version']" "flags from the environment: used"
exits 2 "an unknown slice from the environment" env MESHLO_FLAGS=--on=v9-8 "$MESHLO" emulate "$SOURCE/examples/mlp_gradient_512.hlo"
says err "note: MESHLO_FLAGS inserts options before those of the command line: --on=v9-8" "an unknown slice from the environment: where it is from"
exits 6 "no space left for stdout" bash -c '"$MESHLO" version >/dev/full'
exits 6 "bug: no space left for stdout, help" bash -c '"$MESHLO" --help >/dev/full'
check "a reader that closes the pipe is not an error" bash -o pipefail -c '"$MESHLO" --help | head -c 1 >/dev/null'
# What bash offers for a line: completes LINE EXPECTED.
completes() {
    check "completion: $1" bash -c '. "$SOURCE/tools/completion.bash"; COMP_LINE="$MESHLO $1"; COMP_POINT=${#COMP_LINE}; _meshlo
        [ "${COMPREPLY[*]}" = "$2" ] || { echo "${COMPREPLY[*]}"; false; }' completes "$1" "$2"
}
completes "ver" "version"
completes "help sli" "slices"
completes "version --js" "--json"
completes "emulate --on v5e-12" "v5e-128"
completes "emulate --on=v5e-12" "v5e-128"
completes "compare --on v2-8,v5e-12" "v2-8,v5e-128"
completes "devices v5e-12" "v5e-128"
completes "convert --to bytec" "bytecode"
completes "opt --passes=cse,flat" "cse,flatten-call-graph"
completes "check --forbid all-gather,all-to" "all-gather,all-to-all"
completes "partition --dump-after parti" "partition"
completes "convert $SOURCE/examples/mlp_gradient_5" "$SOURCE/examples/mlp_gradient_512.hlo"
completes "version x" ""
completes "emulate --sync v" ""
cat >axes.mlir <<'EOF'
module @axes {
  sdy.mesh @mesh = <["data"=2, "model"=2]>
  func.func public @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<8x8xf32> {
    return %a : tensor<8x8xf32>
  }
}
EOF
completes "partition axes.mlir --mesh " "data= model="
completes "partition axes.mlir --mesh data=4,mo" "4,model="
completes "partition axes.mlir --shard p0=da" "data"
completes "partition axes.mlir --shard p0=data,-,m" "data,-,model"
completes "partition axes.mlir --shard p" "p0="
completes "partition axes.mlir --mesh rows=4,columns=2 --shard p0=" "rows columns -"
completes "partition axes.mlir --mesh=rows=4 --shard p0=r" "rows"
completes "partition axes.mlir --mesh rows=4,,=2 --shard p0=" "rows -"

# The shells themselves, on a terminal, those that are installed.
cat >typed <<EOF
meshlo emu
meshlo emulate x.hlo --on v5e-12
meshlo emulate x.hlo --on=v5e-12
meshlo opt --passes=cse,flat
meshlo compare --on v2-8,v5e-12
meshlo partition $PWD/axes.mlir --mesh data=4,mo
meshlo partition $PWD/axes.mlir --mesh data=4,model=2 --shard p0=data,-,mo
meshlo convert $SOURCE/examples/mlp_gradient_5
meshlo help sli
EOF
cat >completed <<EOF
meshlo emulate
meshlo emulate x.hlo --on v5e-128
meshlo emulate x.hlo --on=v5e-128
meshlo opt --passes=cse,flatten-call-graph
meshlo compare --on v2-8,v5e-128
meshlo partition $PWD/axes.mlir --mesh data=4,model=
meshlo partition $PWD/axes.mlir --mesh data=4,model=2 --shard p0=data,-,model
meshlo convert $SOURCE/examples/mlp_gradient_512.hlo
meshlo help slices
EOF
for shell in bash zsh fish; do
    command -v $shell >/dev/null || continue
    check "completion on a terminal: $shell" bash -c 'python3 "$SOURCE/tests/cli/complete.py" "$0" "$SOURCE" "$MESHLO" <typed | diff completed -' $shell
done

# A terminal gets colours and lines that fit; a pipe, NO_COLOR, and programs that are printed, do not.
in_terminal() { env -u NO_COLOR TERM=xterm COLUMNS="$columns" "$@" python3 "$SOURCE/tests/cli/terminal.py" "$MESHLO" "${arguments[@]}" 2>/dev/null | tr -d '\r' >shown; }
check "bug: progress was written over on a dumb terminal" sh -c '! env -u NO_COLOR TERM=dumb script -qec "$MESHLO emulate $SOURCE/examples/mlp_gradient_8192.hlo --on v2-8" /dev/null </dev/null | grep -q "$(printf "\033")"'
longest() { sed 's/\x1b\[[0-9;]*[mK]//g; s/^.*… *//' shown | grep -v '^ *--' | python3 -c "import sys; print(max(len(line.decode().rstrip('\n')) for line in sys.stdin.buffer))"; }
for columns in 60 80 200; do
    arguments=(emulate "$SOURCE/examples/mlp_gradient_8192.hlo" --on v2-8) && in_terminal
    check "a terminal of $columns columns: the table fits" test "$(longest)" -le "$columns"
    check "a terminal of $columns columns: every word is there" python3 - "$columns" <<'PY'
import os, re, subprocess
words = lambda text: re.sub(r"\x1b\[[0-9;]*[mK]", "", text).split()
plain = subprocess.run([os.environ["MESHLO"], "emulate", os.environ["SOURCE"] + "/examples/mlp_gradient_8192.hlo", "--on", "v2-8"], capture_output=True, text=True)
assert words(open("shown", encoding="utf-8").read())[-len(words(plain.stdout)) + 1:] == words(plain.stdout)[1:]
assert "\x1b" not in plain.stdout
PY
    arguments=(emulate --help) && in_terminal
    check "a terminal of $columns columns: the help fits" test "$(longest)" -le "$columns"
done
columns=80
arguments=(check "$SOURCE/examples/mlp_gradient_8192.hlo" --forbid all-reduce) && in_terminal
check "bug: what a check and notes say on standard error was not broken at 80 columns" test "$(longest)" -le 80
arguments=(sweep "$SOURCE/examples/mlp_gradient_8192.hlo" --on v5e-8 --mesh 'batch=*,model=*') && in_terminal
check "bug: the rows of a sweep did not fit 80 columns" test "$(grep -c ' MFU .* %$' shown)" = 6
arguments=(topology v5e-16 --mesh 2,2,4) && in_terminal
check "bug: on a terminal a mesh has its shape, not one line" diff <(printf ' 0  1  2  3\n 4  5  6  7\n\n 8  9 10 11\n12 13 14 15\n') <(sed 's/^.*\[K//' shown)
cat >long.hlo <<'HLO'
HloModule long
body {
  p = (s32[], f32[1024,1024], f32[1024,1024]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[1024,1024] get-tuple-element(p), index=1
  w = f32[1024,1024] get-tuple-element(p), index=2
  o = s32[] constant(1)
  n = s32[] add(i, o)
  y = f32[1024,1024] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  z = f32[1024,1024] tanh(y)
  ROOT t = (s32[], f32[1024,1024], f32[1024,1024]) tuple(n, z, w)
}
more {
  p = (s32[], f32[1024,1024], f32[1024,1024]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  c = s32[] constant(100)
  ROOT l = pred[] compare(i, c), direction=LT
}
ENTRY main {
  x = f32[1024,1024] parameter(0)
  w = f32[1024,1024] parameter(1)
  z = s32[] constant(0)
  t = (s32[], f32[1024,1024], f32[1024,1024]) tuple(z, x, w)
  l = (s32[], f32[1024,1024], f32[1024,1024]) while(t), condition=more, body=body
  ROOT y = f32[1024,1024] get-tuple-element(l), index=1
}
HLO
arguments=(run long.hlo) && in_terminal
check "a terminal: what a run needs, and its phases" python3 -c "
import re
words = re.sub(r'\x1b\[[0-9;]*[mK]', '\n', open('shown', encoding='utf-8').read())
found = [words.index(word) for word in ('compiling', 'the run needs', 'making inputs', 'placing arguments', 'running', 'collecting results', 'ran on 1 device')]
assert found == sorted(found) and 'partitioning' not in words, words
assert re.search(r'running, [1-9][0-9]* %, [0-9]+ s left', words), words"
arguments=(emulate --help) && in_terminal
check "a terminal: options are coloured" grep -q $'\x1b\\[36m--sizes p0' shown
arguments=(emulate nothing.hlo --on v2-8) && in_terminal
check "a terminal: errors are coloured" grep -q $'\x1b\\[1;31merror:\x1b' shown
in_terminal NO_COLOR=1
check "a terminal: NO_COLOR" bash -c '! grep -q $'"'\\x1b\\\\[1'"' shown'
arguments=(convert "$SOURCE/examples/mlp_gradient_512.hlo") && in_terminal
check "a terminal: programs are printed as they are" bash -c 'cmp <(sed "s/^.*…//; s/^\x1b\[K//" shown | tail -n 5) <("$MESHLO" convert "$SOURCE/examples/mlp_gradient_512.hlo" | tail -n 5)'
