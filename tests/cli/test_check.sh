# SPDX-License-Identifier: Apache-2.0
# Budgets and baselines of bytes, time and memory; and what a run says of this host's memory.
step=$SOURCE/examples/mlp_gradient_8192.hlo
exits 1 "check: too many bytes" meshlo check "$step" --on v2-8 --max-bytes 1MiB
says err "one device sends 549.3 MiB (576020546 bytes), more than 1MiB" "check: too many bytes: with their unit"
exits 0 "check: within budgets" meshlo check "$step" --on v2-8 --max-step 1s --max-memory 4GiB --max-bytes 1GiB
says out "step 51." "check: within budgets: the step"
exits 1 "check: too slow" meshlo check "$step" --on v2-8 --max-step 20ms
says err "a step takes 51." "check: too slow: why"
exits 1 "check: too large" meshlo check "$step" --on v2-8 --max-memory 512MiB
says err "one device needs" "check: too large: why"
exits 1 "check: all broken rules" meshlo check "$step" --on v2-8 --max-memory 512MiB --max-step 20ms --forbid all-reduce --json
json "not j['ok'] and {f['rule'] for f in j['failures']} == {'max-memory', 'max-step', 'forbid'}" "check: JSON has all broken rules"
json "j['step_seconds'] > 0 and j['hbm_peak_bytes'] > 0 and j['collectives']" "check: JSON has what a baseline needs"
cp out check.json
exits 0 "check: a baseline of its own" meshlo check "$step" --on v2-8 --baseline check.json
exits 0 "check: a baseline of its own, as JSON" meshlo check "$step" --on v2-8 --baseline check.json --json
json "j['ok'] and j['failures'] == []" "check: a baseline of its own, as JSON: ok"
for verb in emulate explain partition; do
    meshlo "$verb" "$step" --on v2-8 --json >"$verb.json" 2>err
    exits 0 "check: a baseline of $verb" meshlo check "$step" --on v2-8 --baseline "$verb.json"
done
exits 0 "check: a baseline without a slice" meshlo check "$step" --baseline emulate.json
says err "not checked without a slice" "check: a baseline without a slice: said"
exits 1 "check: worse than the baseline" meshlo check "$step" --on v2-8 --mesh batch=8,model=1 --baseline check.json
says err "the baseline" "check: worse than the baseline: why"
python3 -c "
import json
j = json.load(open('check.json'))
j['step_seconds'] /= 1.05
json.dump(j, open('faster.json', 'w'))"
exits 1 "check: slower than the baseline" meshlo check "$step" --on v2-8 --baseline faster.json
exits 0 "check: within the tolerance" meshlo check "$step" --on v2-8 --baseline faster.json --tolerance 6%
exits 2 "check: time without a slice" meshlo check "$step" --max-step 20ms
says err "needs a slice" "check: time without a slice: said"
for wrong in "--max-step soon" "--max-step -1s" "--max-memory lots" "--max-bytes 1e99" "--tolerance 2%" \
    "--baseline missing.json" "--baseline check.json --tolerance 2"; do
    # shellcheck disable=SC2086
    exits 2 "check: $wrong" meshlo check "$step" --on v2-8 $wrong
done
echo '{"step_seconds": 1}' >none.json
exits 3 "check: a baseline that is none" meshlo check "$step" --on v2-8 --baseline none.json
exits 3 "check: a program as baseline (bug_baseline_that_does_not_parse_is_wrong_usage)" \
    meshlo check "$step" --on v2-8 --baseline "$step"

cat >wide.hlo <<'HLO'
HloModule wide
ENTRY main {
  x = f32[1048576] parameter(0)
  ROOT y = f32[1048576] negate(x)
}
HLO
exits 5 "run: more than this host has" env MESHLO_HOST_MEMORY=8MiB "$MESHLO" run wide.hlo
says err "needs 16.0 MiB of this host: inputs 4.0 MiB" "run: more than this host has: what it needs"
says err "it has 8.0 MiB" "run: more than this host has: what it has"
exits 0 "run: what this host has" env MESHLO_HOST_MEMORY=16MiB "$MESHLO" run wide.hlo --json
json "j['host_memory_bytes'] == 16 << 20" "run: JSON says what it needs"
exits 2 "run: a limit that is no size" env MESHLO_HOST_MEMORY=much "$MESHLO" run wide.hlo
cat >immense.hlo <<'HLO'
HloModule immense
ENTRY main {
  x = f32[1099511627776] parameter(0)
  ROOT y = f32[] constant(0)
}
HLO
exits 5 "run: no host has that" meshlo run immense.hlo
exits 0 "run: as a log" env MESHLO_LOG=1 "$MESHLO" run wide.hlo
says err "the run needs 16.0 MiB" "run: as a log: the need comes first"
