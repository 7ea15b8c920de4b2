# SPDX-License-Identifier: Apache-2.0
# The search for shardings. What it finds must be no worse than what people write by hand, and must be what it says.
exits 0 "plan: the tutorial's network" meshlo plan "$SOURCE/examples/mlp_gradient_8192.hlo" --on v2-8 --json
cp out plan.json
meshlo emulate "$SOURCE/examples/mlp_gradient_8192.hlo" --on v2-8 --json >hand.json
json "j['step_seconds'] <= json.load(open('hand.json'))['step_seconds'] and j['fits']" "plan: no worse than 4x2 by hand"
cat >layers.hlo <<'HLO'
HloModule layers
ENTRY main {
  x = f32[512,256] parameter(0), metadata={op_name="x"}
  w0 = f32[256,1024] parameter(1), metadata={op_name="params[0]['up']"}
  v0 = f32[1024,256] parameter(2), metadata={op_name="params[0]['down']"}
  w1 = f32[256,1024] parameter(3), metadata={op_name="params[1]['up']"}
  v1 = f32[1024,256] parameter(4), metadata={op_name="params[1]['down']"}
  a = f32[512,1024] dot(x, w0), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ta = f32[512,1024] tanh(a)
  b = f32[512,256] dot(ta, v0), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = f32[512,1024] dot(b, w1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  tc = f32[512,1024] tanh(c)
  ROOT d = f32[512,256] dot(tc, v1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
HLO
exits 0 "plan: from no annotations" meshlo plan layers.hlo --on v5e-4 --json
cp out plan.json
json "set(j) >= set('topology mesh shardings step_seconds hbm_peak_bytes fits evaluated front'.split())" "plan: keys"
json "set(j['shardings']) == {'x', \"params[0]['up']\", \"params[0]['down']\", \"params[1]['up']\", \"params[1]['down']\"}" "plan: parameters by name"
json "any(abs(f['step_seconds'] - j['step_seconds']) == 0 for f in j['front'])" "plan: on its own front"
for by_hand in "data=4 x=data,-" "model=4 *.up=-,model *.down=model,-" "data=2,model=2 x=data,- *.up=-,model *.down=model,-" \
    "data=4 x=data,- *.up=data,- *.down=data,-"; do
    read -r mesh shards <<<"$by_hand"
    options=()
    set -f
    for shard in $shards; do options+=(--shard "$shard"); done
    set +f
    meshlo emulate layers.hlo --on v5e-4 --mesh "$mesh" "${options[@]}" --json >hand.json
    check "plan: no worse than $by_hand" python3 -c "
import json
assert json.load(open('plan.json'))['step_seconds'] <= json.load(open('hand.json'))['step_seconds']"
done
exits 0 "plan: again" meshlo plan layers.hlo --on v5e-4 --json
check "plan: the same twice" cmp out plan.json
exits 0 "plan: as options" meshlo plan layers.hlo --on v5e-4
{ printf '%s emulate layers.hlo --on v5e-4 --json ' "$MESHLO" && grep '^--' out | tr '\n' ' '; } >pasted.sh
check "plan: pasted" bash -c "bash pasted.sh >pasted.json"
check "plan: pasted, it takes what was promised" python3 -c "
import json
assert json.load(open('plan.json'))['step_seconds'] == json.load(open('pasted.json'))['step_seconds']"
check "plan: equal layers are one line" test "$(grep -c "params\[\*\]\['up'\]" out)" = 1
{
    echo "HloModule deep"
    echo "ENTRY main {"
    echo "  x0 = f32[64,128] parameter(0), metadata={op_name=\"x\"}"
    for i in $(seq 12); do
        echo "  w$i = f32[128,256] parameter($((2 * i - 1))), metadata={op_name=\"params[$i]['up']\"}"
        echo "  v$i = f32[256,128] parameter($((2 * i))), metadata={op_name=\"params[$i]['down']\"}"
        echo "  a$i = f32[64,256] dot(x$((i - 1)), w$i), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
        echo "  t$i = f32[64,256] tanh(a$i)"
        echo "  b$i = f32[64,128] dot(t$i, v$i), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
        echo "  c$i = f32[64,128] cosine(b$i)"
        echo "  d$i = f32[64,128] multiply(c$i, x$((i - 1)))"
        echo "  x$i = f32[64,128] add(d$i, b$i)"
    done
    echo "  ROOT r = (f32[64,128]) tuple(x12)"
    echo "}"
} >deep.hlo
exits 0 "plan: many equal layers" meshlo plan deep.hlo --on v5e-4 --mesh data=2,model=2
{ printf '%s emulate deep.hlo --on v5e-4 --json ' "$MESHLO" && grep '^--' out | tr '\n' ' '; } >pasted.sh
check "plan: many equal layers: pasted" bash -c "bash pasted.sh >pasted.json"
check "plan: many equal layers: the step is that of the whole program" python3 -c "
import json, re
shown = re.search(r'step ([0-9.]+) µs', open('out', encoding='utf-8').read())
assert abs(float(shown[1]) * 1e-6 - json.load(open('pasted.json'))['step_seconds']) < 1e-9"
exits 0 "plan: the program" meshlo plan layers.hlo --on v5e-4 -o planned.hlo
exits 0 "plan: what was written takes what was promised" meshlo emulate planned.hlo --on v5e-4 --json
json "(j['step_seconds'], j['hbm_peak_bytes'], j['mesh']) == tuple(json.load(open('plan.json'))[k] for k in ('step_seconds', 'hbm_peak_bytes', 'mesh'))" "plan: step, memory and mesh as promised"
exits 0 "plan: it computes the same" meshlo run planned.hlo --on v5e-4 --numerics exact --compare eval
exits 0 "plan: kept" meshlo plan layers.hlo --on v5e-4 --mesh 'data=2,model=2' --keep "params[0]['up']=model,data" --json
json "j['shardings'][\"params[0]['up']\"] == 'model,data' and j['mesh'] == 'data=2,model=2'" "plan: kept as it was"
cat >huge.hlo <<'HLO'
HloModule huge
ENTRY main {
  x = f32[65536,65536] parameter(0)
  ROOT y = f32[65536,65536] add(x, x)
}
HLO
exits 0 "plan: made to fit" meshlo plan huge.hlo --on v5e-16 --json
json "j['fits'] and j['shardings']['x'] != '-,-'" "plan: fits in parts"
exits 5 "plan: nothing fits" meshlo plan huge.hlo --on v5e-1
says err "no plan was found that fits" "plan: nothing fits: why"
exits 2 "plan: sizes that do not multiply up" meshlo plan layers.hlo --on v5e-4 --mesh 'data=3,model=*'
exits 2 "plan: names that match nothing" meshlo plan layers.hlo --on v5e-4 --keep 'params[2]=data'
# bug: a wrong --keep was reported as a --shard that was not given.
for keep in 'rub;bish' 'params[0]' 'p99=data,-' "params[0]['up']=data,-,-"; do
    exits 2 "plan: --keep '$keep'" meshlo plan layers.hlo --on v5e-4 --keep "$keep"
    says err "error: --keep '$keep': " "plan: --keep '$keep': the option"
    check "plan: --keep '$keep': no other option" bash -c '! grep -q -e --shard err'
done
exits 2 "plan: no time" meshlo plan layers.hlo --on v5e-4 --budget soon
exits 2 "plan: a list of slices that ends with a comma" meshlo plan layers.hlo --on v5e-4,
says err "error: --on: 'v5e-4,' has no name of a slice between commas" "plan: a list that ends with a comma: why"
exits 2 "plan: a slice that is named twice" meshlo plan layers.hlo --on v5e-4,v6e-4,v5e-4
says err "error: --on: 'v5e-4,v6e-4,v5e-4' names the slice v5e-4 twice" "plan: a slice twice: why"
exits 2 "plan: cost without prices" meshlo plan layers.hlo --on v5e-4 --objective cost
exits 0 "bug: --price was ignored without --objective cost" meshlo plan layers.hlo --on v5e-4,v6e-4 --price v5e=1.2 --budget 20s
says out ", cost " "bug: --price was ignored without --objective cost: what a step costs"
check "a slice without a price has no cost" bash -c "! grep 'on v6e-4' out | grep -q 'cost '"
exits 0 "plan: a price, as JSON" meshlo plan layers.hlo --on v5e-4 --mesh data=4,model=1 --price v5e=9 --budget 20s --json
json "abs(j['cost_per_step'] - 9 * 4 * j['step_seconds'] / 3600) < 1e-12 and j['front'][0]['cost_per_step'] == j['cost_per_step']" "plan: a price, as JSON: what a step costs"
exits 0 "plan: by cost" meshlo plan layers.hlo --on v5e-4,v6e-4 --objective cost --price v5e=1 --price v6e=100 --json
json "j['topology'] == 'v5e-4'" "plan: by cost: the cheaper"
exits 4 "plan: host devices" meshlo plan layers.hlo --on cpu:4
cat >lists.hlo <<'HLO'
HloModule lists, num_partitions=4
ENTRY main {
  x = f32[512,256] parameter(0), sharding={devices=[2,2]<=[4]}
  w = f32[256,1024] parameter(1)
  ROOT a = f32[512,1024] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
HLO
exits 0 "plan: meshes that the program does not fit are left out" meshlo plan lists.hlo --on v5e-4 --json
says err "2 of 3 meshes are left out" "plan: meshes are left out: said"
json "j['mesh'] == 'data=2,model=2'" "plan: the mesh that is left"
exits 2 "plan: no mesh is left" meshlo plan lists.hlo --on v5e-4 --mesh data=4,model=1
exits 2 "plan: a budget of 0 was the default of a minute" meshlo plan lists.hlo --on v5e-4 --budget 0s
says err "more time than 0" "plan: a budget of 0: why"

# Repairs: a training step of equal layers on a machine whose memory it exceeds.
python3 - >loss.hlo <<'PY'
print("HloModule loss\nsum {\n  p = f32[] parameter(0)\n  q = f32[] parameter(1)\n  ROOT s = f32[] add(p, q)\n}\nENTRY main {")
print("  x0 = f32[256,64] parameter(0), metadata={op_name=\"x\"}")
for i in range(8):
    print(f"  w{i} = f32[64,256] parameter({2 * i + 1}), metadata={{op_name=\"params[{i}]['up']\"}}")
    print(f"  v{i} = f32[256,64] parameter({2 * i + 2}), metadata={{op_name=\"params[{i}]['down']\"}}")
for i in range(8):
    print(f"  a{i} = f32[256,256] dot(x{i}, w{i}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}")
    print(f"  t{i} = f32[256,256] tanh(a{i})")
    print(f"  g{i} = f32[256,256] sine(t{i})")
    print(f"  b{i} = f32[256,64] dot(g{i}, v{i}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}")
    print(f"  x{i + 1} = f32[256,64] add(x{i}, b{i})")
print("  sq = f32[256,64] multiply(x8, x8)\n  zero = f32[] constant(0)")
print("  ROOT r = f32[] reduce(sq, zero), dimensions={0,1}, to_apply=sum\n}")
PY
pod() {
    cat <<XML
<tpupod version="1">
 <chip kind="small" like="v5e" cores="1" megacore="false">
  <hbm bytes="4194304" usable="$1" bps="8.20e11"/>
  <core hz="1.5e9"><mxu count="4" dim="128"/><vpu lanes="128" sublanes="8" alus="4"/><vmem bytes="65536" bps="1.78e13"/></core>
  <peak dtype="bf16" flops="1.97e14"/></chip>
 <host bounds="$2" pcie_bps="1.5e10" hwloc="host-v5e.xml"/>
 <ici link_bps="5.5e10" hop_ns="1000" eff="0.9" wrap="full-axis"/>
 <slice name="small" dims="$3" wrap="false false"/>
 <dcn host_bps="2.5e10" latency_ns="20000"/>
</tpupod>
XML
}
pod 3670016 "1 1 1" "1 1" >one.xml
pod 1500000 "2 2 1" "2 2" >four.xml
pod 500000 "1 1 1" "1 1" >tiny.xml
exits 0 "plan: a training step" meshlo grad loss.hlo --wrt 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16 -o step.hlo
exits 5 "plan: repairs: too large as it is" meshlo emulate step.hlo --on one.xml
exits 0 "plan: repairs: made to fit" meshlo plan step.hlo --on one.xml -o repaired.hlo --json
json "j['fits'] and j['repair'] == 'recompute-scopes' and j['front'][0]['repair'] == 'recompute-scopes'" "plan: repairs: by computing again"
cp out plan.json
exits 0 "plan: repairs: what was written fits" meshlo emulate repaired.hlo --on one.xml --json
json "(j['step_seconds'], j['hbm_peak_bytes']) == tuple(json.load(open('plan.json'))[k] for k in ('step_seconds', 'hbm_peak_bytes'))" "plan: repairs: step and memory as promised"
exits 0 "plan: repairs: in words" meshlo plan step.hlo --on one.xml
says out "meshlo opt FILE --passes recompute-scopes -o OUT" "plan: repairs: what to do"
exits 0 "plan: repairs: by hand" meshlo opt step.hlo --passes recompute-scopes -o by_hand.hlo
exits 0 "plan: repairs: by hand it fits too" meshlo emulate by_hand.hlo --on one.xml --json
json "j['step_seconds'] == json.load(open('plan.json'))['step_seconds']" "plan: repairs: by hand it takes the same"
exits 0 "plan: repairs: the numbers before" meshlo run step.hlo --on cpu --seed 0 --output before
exits 0 "plan: repairs: the numbers after" meshlo run repaired.hlo --on cpu --seed 0 --output after
check "plan: repairs: the same bits" diff -r before after
exits 0 "plan: repairs: on four devices" meshlo plan step.hlo --on four.xml -o four.hlo --json
json "j['fits'] and j['repair'].startswith('recompute')" "plan: repairs: on four devices: said"
exits 0 "plan: repairs: on four devices: it computes the same" meshlo run four.hlo --on cpu:4 --numerics exact --compare eval
exits 5 "plan: repairs: not even then" meshlo plan step.hlo --on tiny.xml
says err "no plan was found that fits" "plan: repairs: not even then: why"

# The same layers as a loop: what it stacks for the backward part.
cat >loops.hlo <<'HLO'
HloModule loops
sum {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q)
}
body {
  s = (s32[], f32[256,64], f32[8,64,256], f32[8,256,64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[256,64] get-tuple-element(s), index=1
  ws = f32[8,64,256] get-tuple-element(s), index=2
  vs = f32[8,256,64] get-tuple-element(s), index=3
  zero = s32[] constant(0)
  one = s32[] constant(1)
  w1 = f32[1,64,256] dynamic-slice(ws, i, zero, zero), dynamic_slice_sizes={1,64,256}
  w = f32[64,256] reshape(w1)
  v1 = f32[1,256,64] dynamic-slice(vs, i, zero, zero), dynamic_slice_sizes={1,256,64}
  v = f32[256,64] reshape(v1)
  a = f32[256,256] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[256,256] tanh(a)
  g = f32[256,256] sine(t)
  b = f32[256,64] dot(g, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  y = f32[256,64] add(x, b)
  j = s32[] add(i, one)
  ROOT r = (s32[], f32[256,64], f32[8,64,256], f32[8,256,64]) tuple(j, y, ws, vs)
}
condition {
  s = (s32[], f32[256,64], f32[8,64,256], f32[8,256,64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(8)
  ROOT c = pred[] compare(i, n), direction=LT
}
ENTRY main {
  x = f32[256,64] parameter(0)
  ws = f32[8,64,256] parameter(1)
  vs = f32[8,256,64] parameter(2)
  zero = s32[] constant(0)
  state = (s32[], f32[256,64], f32[8,64,256], f32[8,256,64]) tuple(zero, x, ws, vs)
  loop = (s32[], f32[256,64], f32[8,64,256], f32[8,256,64]) while(state), condition=condition, body=body
  y = f32[256,64] get-tuple-element(loop), index=1
  sq = f32[256,64] multiply(y, y)
  nought = f32[] constant(0)
  ROOT r = f32[] reduce(sq, nought), dimensions={0,1}, to_apply=sum
}
HLO
exits 0 "plan: loops: a training step" meshlo grad loops.hlo --wrt 1,2 -o loops_step.hlo
exits 5 "plan: loops: too large as it is" meshlo emulate loops_step.hlo --on one.xml
exits 0 "plan: loops: made to fit" meshlo plan loops_step.hlo --on one.xml -o loops_repaired.hlo --json
json "j['fits'] and j['repair'] == 'recompute-scopes'" "plan: loops: by computing again"
cp out plan.json
exits 0 "plan: loops: what was written fits" meshlo emulate loops_repaired.hlo --on one.xml --json
json "j['hbm_peak_bytes'] == json.load(open('plan.json'))['hbm_peak_bytes']" "plan: loops: memory as promised"
exits 0 "plan: loops: the numbers before" meshlo run loops_step.hlo --on cpu --seed 0 --output loops_before
exits 0 "plan: loops: the numbers after" meshlo run loops_repaired.hlo --on cpu --seed 0 --output loops_after
check "plan: loops: the same bits" diff -r loops_before loops_after
exits 0 "plan: loops: the evaluator before" meshlo run loops_step.hlo --engine eval --seed 0 --output loops_eval
exits 0 "plan: loops: the evaluator after" meshlo run loops_repaired.hlo --engine eval --seed 0 --output loops_eval_after
check "plan: loops: the evaluator: the same bits" diff -r loops_eval loops_eval_after

# Annotations of values inside, where the shardings of parameters that are kept meet.
cat >conflict.hlo <<'HLO'
HloModule conflict
ENTRY main {
  x = f32[4096,2048] parameter(0), metadata={op_name="x"}
  w = f32[2048,4096] parameter(1), metadata={op_name="w"}
  v = f32[4096,2048] parameter(2), metadata={op_name="v"}
  a = f32[4096,4096] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(step)/up/dot_general"}
  t = f32[4096,4096] tanh(a)
  b = f32[4096,2048] dot(t, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(step)/down/dot_general"}
  u = f32[4096,2048] tanh(b)
  ROOT c = f32[4096,4096] dot(u, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}, metadata={op_name="jit(step)/last/dot_general"}
}
HLO
exits 0 "plan: inside: as it is" meshlo emulate conflict.hlo --on v5e-8 --mesh data=8 --shard x=-,data --shard w=data,- --shard v=-,- --json
cp out before.json
exits 0 "plan: inside" meshlo plan conflict.hlo --on v5e-8 --mesh data=8 --keep x=-,data --keep w=data,- --keep v=-,- --json -o inside.hlo
cp out plan.json
json "j['inside'] == ['a=data,-'] and j['step_seconds'] < 0.99 * json.load(open('before.json'))['step_seconds']" "plan: inside: annotated, and faster"
exits 0 "plan: inside: the program" meshlo emulate inside.hlo --on v5e-8 --json
json "j['step_seconds'] == json.load(open('plan.json'))['step_seconds']" "plan: inside: the program takes what was promised"
exits 0 "plan: inside: as options" meshlo plan conflict.hlo --on v5e-8 --mesh data=8 --keep x=-,data --keep w=data,- --keep v=-,-
says out "with_sharding_constraint(x, P('data', None)) where x is the result of jit(step)/up/dot_general" "plan: inside: in JAX's words"
{ printf '%s emulate conflict.hlo --on v5e-8 --json ' "$MESHLO" && grep '^--' out | tr '\n' ' '; } >pasted.sh
check "plan: inside: pasted" bash -c "bash pasted.sh >pasted.json"
check "plan: inside: pasted, it takes what was promised" python3 -c "
import json
assert json.load(open('plan.json'))['step_seconds'] == json.load(open('pasted.json'))['step_seconds']"
sed 's/4096/64/g; s/2048/32/g' inside.hlo >inside_small.hlo
exits 0 "plan: inside: it computes the same" meshlo run inside_small.hlo --on cpu:8 --numerics exact --compare eval
