# SPDX-License-Identifier: Apache-2.0
# What the command says about options that do not go together, have no effect where they are, or name something twice: an
# option that is silently without effect leaves its user with an answer to another question.
cat >dot.hlo <<'HLO'
HloModule dot
ENTRY main {
  x = f32[8,16] parameter(0)
  weights = f32[16,4] parameter(1)
  ROOT y = f32[8,4] dot(x, weights), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
HLO
printf 'HloModule c\nENTRY e {\n p = f32[4] parameter(0)\n ROOT c = f32[4] custom-call(p), custom_call_target="nobody"\n}\n' >call.hlo
echo 'no archive' >text.npz
echo 'func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> { return %x : tensor<?xf32> }' >open.mlir
meshlo partition dot.hlo --mesh a=4 --shard p0=a,- -o part.hlo
python3 - <<'PY'
import zipfile
head = b"{'descr': '<f4', 'fortran_order': False, 'shape': (8, 16), }".ljust(117) + b"\n"
open("x.npy", "wb").write(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head + b"\0" * 512)
z = zipfile.ZipFile("x.npz", "w")
z.write("x.npy", "arr_0.npy")
z.close()
PY

# One case per line: exit code | part of the message on stderr | arguments. Words are split at blanks; '' is an empty argument.
while IFS='|' read -r code part line; do
    [ -n "$code" ] || continue
    eval "arguments=($line)"
    exits "$code" "options: $line" meshlo "${arguments[@]}"
    says err "$part" "options: $line: why"
done <<'CASES'
2|--print does not apply to --to proto|convert dot.hlo --to proto --print short
2|--print does not apply to --to dot|convert dot.hlo --to dot --print long
2|--generic does not apply to --to hlo|convert dot.hlo --generic
2|--release does not apply to --to stablehlo|convert dot.hlo --to stablehlo --release 1.9.0
2|--config does not apply to --to hlo|convert dot.hlo --config
2|--print canonical is for hlo|convert dot.hlo --to stablehlo --print canonical
2|--release: StableHLO 99.9.9 is not among the releases|convert dot.hlo --to bytecode --release 99.9.9
2|--release: 'newest' is not a release|convert dot.hlo --to bytecode --release newest
2|--to: unknown value 'htm'|convert dot.hlo --to htm
2|did you mean canonical?|convert dot.hlo --print canonicl
2|did you mean -o?|convert dot.hlo --o out.hlo
2|did you mean --to?|convert dot.hlo -to=dot
2|--dump-pass-re needs --dump-to|opt dot.hlo --dump-pass-re dce
2|no pass 'nope'|opt dot.hlo --passes dce,nope
2|did you mean cse|opt dot.hlo --passes csee
2|FILE is missing|opt
2|--json reports on a partitioned program|partition dot.hlo --mesh a=4 --propagate-only --json
2|--explain reports on a partitioned program|partition dot.hlo --mesh a=4 --propagate-only --explain
2|-o and --json both write to standard output|partition dot.hlo --mesh a=4 --json -o -
2|--shard 'p0=a,-': names the same array as 'x=-,a'|partition dot.hlo --mesh a=4 --shard x=-,a --shard p0=a,-
2|there is no result r1: the program has 1 results|partition dot.hlo --mesh a=4 --shard r1=a,-
2|there is no parameter p2: the program has 2 parameters|partition dot.hlo --mesh a=4 --shard p2=a,-
2|--shard 'q=a': 'q' is neither pN|partition dot.hlo --mesh a=4 --shard q=a
2|expected TARGET=SPEC|partition dot.hlo --mesh a=4 --shard p0
2|unknown mesh axis 'b'|partition dot.hlo --mesh a=4 --shard p0=b,-
2|did you mean 'batch'|partition dot.hlo --mesh batch=4 --shard p0=bach,-
2|an axis is missing next to a '+'|partition dot.hlo --mesh a=4 --shard p0=a+,-
2|unbalanced parenthesis in|partition dot.hlo --mesh a=4 --shard 'p0=(a,-'
2|names more dimensions than the array has: 2|partition dot.hlo --mesh a=4 --shard p0=a,-,-
2|expected NAME=SIZE, got|partition dot.hlo --mesh ''
2|expected NAME=SIZE, got|partition dot.hlo --mesh a=0
2|larger than any slice|partition dot.hlo --mesh a=1048576,b=2
2|already partitioned for 4 devices, not 8|partition part.hlo --num-partitions 8
2|already partitioned for 4 devices, not 8|run part.hlo --mesh a=8
2|already that of one device|emulate part.hlo --topology v2-8 --mesh a=4 --shard p0=-,a
2|the program needs 16 devices, v2-8 has 8|explain dot.hlo --mesh a=16 --on v2-8
2|--rtol is a tolerance of --compare|run dot.hlo --rtol 1e-3
2|--atol is a tolerance of --compare|run dot.hlo --atol 1e-3
2|--compare expects eval, not 'xla'|run dot.hlo --compare xla
2|--engine expects compiled or eval, not 'jit'|run dot.hlo --engine jit
2|--numerics is 'f8'; expected exact or tpu|run dot.hlo --numerics f8
2|--repeat must be at least 1|run dot.hlo --repeat 0
2|--repeat expects an integer|run dot.hlo --repeat many
2|input 0 is given twice|run dot.hlo --input x=x.npy --input p0=x.npy
2|input 0 is given twice|run dot.hlo --input 0=x.npy --input x.npz
2|input 0 is given twice|run dot.hlo --input x.npz --input x.npz
2|did you mean weights?|run dot.hlo --input weight=x.npy
2|no parameter 'zz'; the program has 2 inputs|run dot.hlo --input zz=x.npy
2|expects K=FILE.npy or FILE.npz|run dot.hlo --input x.npy
2|the program expects f32[16,4]|run dot.hlo --input p1=x.npy
2|does not name 1 device, one for each|run dot.hlo --on v2-8 --device-assignment 1,2
2|does not name 2 devices, one for each|run dot.hlo --on v2-8 --mesh a=2 --device-assignment ''
2|does not name 2 devices|run dot.hlo --on v2-8 --mesh a=2 --device-assignment 1,2,3,4
2|'x' is not a number|run dot.hlo --on v2-8 --device-assignment x
2|9 is not a device of v2-8|run dot.hlo --on v2-8 --device-assignment 9
2|--trace and --report both write to standard output|emulate dot.hlo --topology v2-8 --trace - --report -
2|--trace and --json both write to standard output|emulate dot.hlo --topology v2-8 --trace - --json
2|unknown kind of fault|emulate dot.hlo --topology v2-8 --fault fire
2|there is no device 99 on v2-8|emulate dot.hlo --topology v2-8 --fault dead:99
2|--split needs --mesh|topology v2-8 --split
2|--svg and --hwloc both write to standard output|topology v2-8 --svg - --hwloc -
2|cannot both go to standard output|topology v2-8 --mesh 4,2 --svg -
2|a mesh has at most|topology v2-8 --mesh 1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1
2|did you mean v2-8|devices V2-8
2|did you mean v5e-8|devices v5f-8
2|--on: |emulate dot.hlo --on 5ve-16
2|--topology: |emulate dot.hlo --topology 5ve-16
2|--topology: |run dot.hlo --topology 5ve-16
2|--on: |sweep dot.hlo --on 5ve-16
2|--topology: |plan dot.hlo --topology 5ve-16
2|a number of devices is expected|devices cpu:0
2|more than 32 numbers|shardings --mesh a=4 --shape 1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1 --spec a
2|unknown mesh axis 'c'; the mesh has: a, b|shardings --mesh a=4,b=2 --shape 8 --spec c
2|did you mean 'right'|shardings --mesh left=4,right=2 --shape 8 --spec rigth
3|<stdin>:1:1: error: JSON|check dot.hlo --baseline -
2|FILE is missing (see meshlo run --help)|run
2|no topology given, and MESHLO_TOPOLOGY is not set|emulate dot.hlo
2|the option 'hots=1' is unknown; there are hosts, wrap and megacore|topology v4:2x2x2,hots=1
2|axis x is given twice|run dot.hlo --mesh x=2,x=2
2|0 is not a device of v5e-4, or is listed twice|emulate dot.hlo --topology v5e-4 --mesh a=2 --device-assignment 0,0
2|there is no link between devices 0 and 3|emulate dot.hlo --topology v5e-4 --fault link:0-3:0.5
2|'all-sum' is not a collective|check dot.hlo --mesh a=2 --forbid all-sum
2|nothing to check: --forbid, --max-bytes, --max-step, --max-memory or --baseline|check dot.hlo --mesh a=2
1|check failed: |check dot.hlo --mesh a=2 --shard p0=-,a --forbid all-reduce
2|'(' is not a regular expression|opt dot.hlo --dump-to dumps --dump-pass-re '('
2|--mesh is missing|shardings --shape 8,8 --spec a,-
2|--sizes expects p0=8,6, not 'p0'|convert open.mlir --sizes p0
2|the sizes of argument 0 are given twice|convert open.mlir --sizes p0=4 --sizes 0=4
2|which has no dynamic sizes|convert dot.hlo --sizes p0=4,6
2|text.npz: not an .npz archive|run dot.hlo --input text.npz
4|there is no implementation of custom call "nobody"|run call.hlo --engine eval
4|there is no implementation of custom call "nobody"|run call.hlo
1|is not a product of whole physical axes|topology v4:4x4x4 --mesh a=8,b=8
2|unknown verb 'vers'; did you mean version?|vers
2|unknown verb 'nope'|help nope
CASES

exits 0 "the program to standard output" meshlo convert dot.hlo -o -
says out "HloModule dot" "the program to standard output: there"
exits 0 "a trace alone on standard output" meshlo emulate dot.hlo --topology v2-8 --trace -
json "j['traceEvents']" "a trace alone on standard output: nothing beside it"
exits 0 "a drawing alone on standard output" meshlo topology v2-8 --svg -
check "a drawing alone on standard output: nothing beside it" python3 -c "import xml.dom.minidom as m; m.parse('out')"
exits 0 "run: print and json" meshlo run dot.hlo --print --json
json "j['results'][0]['shape'] == 'f32[8,4]' and j['results'][0]['value'].startswith('{ {')" "run: print and json: one document"
exits 0 "run: the evaluator repeats too" meshlo run dot.hlo --engine eval --repeat 3 --json
json "len(j['run_seconds']) == 3 and j['compile_seconds'] == 0" "run: the evaluator repeats too: times"
exits 2 "numerics from the environment" env MESHLO_NUMERICS=f8 "$MESHLO" run dot.hlo
says err "MESHLO_NUMERICS is 'f8'; expected exact or tpu" "numerics from the environment: named"
exits 2 "threads from the environment" env MESHLO_NUM_THREADS=0 "$MESHLO" run dot.hlo
says err "MESHLO_NUM_THREADS is '0'" "threads from the environment: named"
exits 2 "the library from the environment" env MESHLO_BLAS=mkl "$MESHLO" run dot.hlo
says err "MESHLO_BLAS is 'mkl'; expected openblas, builtin or auto" "the library from the environment: named"
exits 0 "a mesh of as many devices orders a partitioned program" meshlo run part.hlo --on v2-8 --mesh a=4
exits 0 "help of a verb, the other way round" meshlo help run
says out "usage: meshlo run" "help of a verb, the other way round: that verb's"
exits 0 "one collective is not several" meshlo check dot.hlo --mesh a=4 --shard p0=-,a --forbid all-gather
says out "ok: 1 collective, " "one collective is not several: said"
