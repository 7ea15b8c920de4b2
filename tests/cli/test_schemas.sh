# SPDX-License-Identifier: Apache-2.0
# What each verb prints with --json, and traces, against docs/schemas/meshlo.schema.json; and every verb that has --json is there.
validate="$SOURCE/docs/schemas/validate.py"
cat >dot.hlo <<'HLO'
HloModule dot
ENTRY main {
  x = f32[8,16] parameter(0)
  w = f32[16,4] parameter(1)
  ROOT y = f32[8,4] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
HLO
small="$SOURCE/examples/mlp_gradient_512.hlo"
validated=""
follows() { # follows DEFINITION EXIT_CODE ARGUMENT…
    local definition=$1 expected=$2
    shift 2
    validated="$validated $definition"
    meshlo "$@" >printed.json 2>/dev/null
    check "schema of $definition: $*: exit code" test $? = "$expected"
    check "schema of $definition: $*" python3 "$validate" "$definition" printed.json
}
follows partition 0 partition "$small" --json
follows run 0 run dot.hlo --json
follows run 0 run dot.hlo --on cpu:2 --mesh a=2 --compare eval --print --json
follows run 1 run dot.hlo --on cpu:4 --mesh a=4 --shard p0=-,a --compare eval --rtol 0 --atol 0 --first-difference --json
follows emulate 0 emulate "$small" --topology v5e-8 --json
follows emulate 0 emulate dot.hlo --topology v2-8 --mesh a=4 --shard p0=a,- --fault straggler:3:1.2 --json
printf 'HloModule huge\nENTRY main {\n  x = f32[65536,65536] parameter(0)\n  ROOT y = f32[65536,65536] add(x, x)\n}\n' >huge.hlo
follows emulate 5 emulate huge.hlo --topology v2-8 --json
follows trace 0 emulate "$small" --topology v2-8 --trace -
follows explain 0 explain "$small" --json
follows explain 0 explain "$small" --on v2-8 --json
follows check 0 check "$small" --forbid all-to-all --json
follows check 1 check "$small" --max-bytes 1 --on v2-8 --json
follows compare 0 compare "$small" dot.hlo --on v2-8 --json
follows sweep 0 sweep dot.hlo --on v2-8,v5e-4 --mesh 'a=*,b=*' --tokens 64 --price v2=1 --json
follows plan 0 plan dot.hlo --on v2-8 --budget 1s --json
follows slices 0 slices --json
follows devices 0 devices v2-8 --json
follows topology 0 topology v2-8 --json
follows version 0 version --json
for verb in $(sed -n 's/^CLI_VERB(\(.*\))/\1/p' "$SOURCE/tools/verbs.def"); do
    meshlo "$verb" --help | grep -q -- '^ *--json' || continue
    check "schema: $verb is validated" sh -c "case ' $validated ' in *' $verb '*) ;; *) exit 1 ;; esac"
done
# The validator can fail.
echo '{"topology": 1}' >wrong.json
check "schema: a wrong document is refused" sh -c "! python3 '$validate' topology wrong.json 2>/dev/null"
