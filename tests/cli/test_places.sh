# SPDX-License-Identifier: Apache-2.0
# Errors that are found after a program was read still have their place: the file, the line, the line's text and a caret.
# place NAME EXIT LINE:COLUMN TEXT ARGUMENTS…: the command refuses program.hlo so.
place() {
    local name=$1 code=$2 where=$3 text=$4
    shift 4
    exits "$code" "$name" meshlo "$@"
    says err "program.hlo:$where: error: " "$name: place"
    says err "$text" "$name: why"
    check "$name: caret" grep -qE '^ *\^$' err
}
cat >program.hlo <<'HLO'
HloModule m, num_partitions=2
ENTRY e {
  p = f32[8] parameter(0), sharding={devices=[2]<=[2]}
  q = s32[8] parameter(1)
  t = (f32[8], s32[8]) tuple(p, q)
  b = pred[] parameter(2)
  ROOT c = (f32[8], s32[8]) select(b, t, t)
}
HLO
for verb in partition explain "run --on cpu:2" "emulate --topology v2-8" "check --max-bytes 1"; do
    # shellcheck disable=SC2086
    place "partitioning fails in ${verb%% *}" 4 7:8 "instruction %c: select of this form cannot be partitioned" $verb program.hlo
done
cat >program.hlo <<'HLO'
HloModule m
ENTRY e {
  p = f32[8] parameter(0)
  n = f32[8] negate(p)
  ROOT r = f32[8] custom-call(n), custom_call_target="nobody_knows"
}
HLO
place "an unknown custom call" 4 5:8 "nobody_knows" run program.hlo
place "an unknown custom call, evaluated" 4 5:8 "nobody_knows" run program.hlo --engine eval
deadlocked_program program.hlo
place "a deadlock" 6 9:8 "device 0 would wait forever for device 1, which takes another branch at %c" run program.hlo --partitioned
cp program.hlo elsewhere.hlo
exits 4 "a program on standard input" bash -c '"$MESHLO" partition - <elsewhere.hlo'
says err "<stdin>:17:3: error: " "a program on standard input: place"
cat >program.hlo <<'HLO'
HloModule m, num_partitions=2
ENTRY e {
  p = f32[8] parameter(0)
  q = f32[8] parameter(1)
  d = () custom-call(p, q), custom_call_target="InspectSharding", custom_call_has_side_effect=true
  ROOT r = f32[8] negate(p)
}
HLO
place "what no option is to blame for" 3 5:3 "InspectSharding takes one array" partition program.hlo
