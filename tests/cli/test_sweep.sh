# SPDX-License-Identifier: Apache-2.0
# compare, sweep, slices, and the names that --shard takes.
cat >layers.hlo <<'HLO'
HloModule layers, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["data"=4, "model"=2]>}}
ENTRY main {
  x = f32[64,32] parameter(0), metadata={op_name="batch['x']"}, frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\"data\"}, {}]>"}
  params__layers___0___w__.1 = f32[32,64] parameter(1), metadata={op_name="params['layers'][0]['w']"}
  params__layers___1___w__.1 = f32[64,32] parameter(2)
  h = f32[64,64] dot(x, params__layers___0___w__.1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT y = f32[64,32] dot(h, params__layers___1___w__.1), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(f)/layers_1/dot"}
}
HLO
# propagated OPTION…: what propagation makes of it, without the program's own words.
propagated() { meshlo partition layers.hlo --propagate-only "$@" 2>&1; }
want=$(propagated --shard 'p1=-,model' --shard 'p2=model,-')
for spelling in "params['layers'][0]['w']=-,model|params.layers.1.w=model,-" "params__layers___0___w__.1=P(None, 'model')|p2=P('model')" \
    "params.layers.0.w=PartitionSpec(None, 'model',)|*.1.w=P('model', None)" "*.w=model,-|params['layers'][0]['w']=-,model" \
    "params.layers.?.w=model,-|p1=-,model"; do
    [ "$(propagated --shard "${spelling%|*}" --shard "${spelling#*|}")" = "$want" ]
    report $? "shard: $spelling" "$(propagated --shard "${spelling%|*}" --shard "${spelling#*|}" | head -3)"
done
exits 2 "shard: a name that nothing has" meshlo partition layers.hlo --shard "params['layers'][0]['v']=-"
says err "did you mean 'params['layers'][0]['w']'?" "shard: near match"
exits 2 "shard: a pattern that nothing matches" meshlo partition layers.hlo --shard '*.bias=-'
exits 2 "shard: a pattern of another rank" meshlo partition layers.hlo --shard '*.w=-,-,model'
exits 2 "shard: the same array by two names" meshlo partition layers.hlo --shard 'p1=-' --shard 'params.layers.0.w=model'
exits 2 "shard: two patterns for one array" meshlo partition layers.hlo --shard '*.w=-' --shard 'params*=model'

exits 0 "sweep" meshlo sweep layers.hlo --on v5e-4,v6e-8 --json
json "[(r['topology'], r['mesh']) for r in j if 'v5e' in r['topology']].sort() is None and len(j) == 4 + 6" "sweep: every factorisation and order once"
json "all(a['step_seconds'] <= b['step_seconds'] for a, b in zip(j, j[1:])) and all(r['fits'] and 0 < r['mfu'] < 1 for r in j)" "sweep: in order of time"
cp out swept.json
meshlo emulate layers.hlo --on v6e-8 --mesh model=2,data=4 --json >one.json
check "sweep: as emulate has it" python3 -c "
import json
one, rows = json.load(open('one.json')), json.load(open('swept.json'))
row = next(r for r in rows if (r['topology'], r['mesh']) == ('v6e-8', 'model=2,data=4'))
assert all(row[k] == one[k] for k in ('step_seconds', 'hbm_peak_bytes', 'mfu', 'hbm_capacity_bytes')), (row, one['step_seconds'])"
exits 0 "sweep: priced" meshlo sweep layers.hlo --on v5e-4 --mesh 'data=*,model=2' --price v5e=1.2 --tokens 64 --json
json "[abs(r['cost_per_step'] - 1.2 * 4 * r['step_seconds'] / 3600) < 1e-15 and abs(r['tokens_per_second'] * r['step_seconds'] - 64) < 1e-9 for r in j] == [True, True]" "sweep: prices and tokens"
exits 0 "sweep: first with a cache" meshlo sweep layers.hlo --on v5e-4 --cache cache --json
cp out first.json
sed -i '$d' cache # interrupted before the last
lines=$(wc -l <cache)
exits 0 "sweep: again" meshlo sweep layers.hlo --on v5e-4 --cache cache --json
check "sweep: the cache gives the same" cmp out first.json
check "sweep: only the last was made again" test "$(wc -l <cache)" = $((lines + 1))
# A line without its last number was taken for one, and what followed a cut line was lost.
sed -i '2s/ [01]$//; $s/ [0-9.e-]* [01]$//' cache
truncate -s -1 cache
lines=$(wc -l <cache)
exits 0 "sweep: short lines" meshlo sweep layers.hlo --on v5e-4 --cache cache --json
check "sweep: short lines: the same" cmp out first.json
check "sweep: short lines are made again" test "$(wc -l <cache)" = $((lines + 3))
exits 0 "sweep: after short lines" meshlo sweep layers.hlo --on v5e-4 --cache cache --json
check "sweep: after short lines: nothing is made again" test "$(wc -l <cache)" = $((lines + 3))
exits 0 "sweep: other shards" meshlo sweep layers.hlo --on v5e-4 --cache cache --shard p1=-,model --json
check "sweep: are other trials" bash -c "! cmp -s out first.json"
exits 2 "sweep: no cache" meshlo sweep layers.hlo --on v5e-4 --cache first.json
exits 2 "sweep: sizes that do not multiply up" meshlo sweep layers.hlo --on v5e-4 --mesh 'data=3,model=*'
says err "--mesh data=3,model=*: no such mesh has 4 devices" "sweep: sizes: why"
exits 2 "sweep: a misspelt axis" meshlo sweep layers.hlo --on v5e-4 --mesh 'date=*,model=*'
says err "did you mean 'data'" "sweep: near match"
exits 2 "sweep: a price that is no number" meshlo sweep layers.hlo --on v5e-4 --price v5e=cheap
exits 2 "sweep: a price of another generation" meshlo sweep layers.hlo --on v5e-4 --price v6e=1
exits 2 "sweep: no slice" meshlo sweep layers.hlo
exits 2 "bug: of two prices of a generation the last counted" meshlo sweep layers.hlo --on v5e-4 --price v5e=1 --price v5e=2
says err "--price v5e=2: v5e has a price already" "bug: of two prices of a generation the last counted: which"
cat >region.mlir <<'MLIR'
module {
  sdy.mesh @mesh = <["data"=4, "model"=2]>
  func.func public @main(%x: tensor<16x64xf32>) -> tensor<16x64xf32> {
    %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"data"}, {"model"}]>] out_shardings=[<@mesh, [{"data"}, {"model"}]>] manual_axes={"data"} (%y: tensor<4x64xf32>) {
      %1 = stablehlo.negate %y : tensor<4x64xf32>
      sdy.return %1 : tensor<4x64xf32>
    } : (tensor<16x64xf32>) -> tensor<16x64xf32>
    return %0 : tensor<16x64xf32>
  }
}
MLIR
exits 0 "bug: one mesh that a program has no layout for ended a sweep" meshlo sweep region.mlir --on v5e-8 --json
json "sorted(r['mesh'] for r in j) == ['data=4,model=2', 'model=2,data=4']" "bug: one mesh that a program has no layout for ended a sweep: the others"
says err "note: 4 of 6 meshes are left out: the program cannot be laid out on the mesh" "bug: one mesh that a program has no layout for ended a sweep: a note"
exits 2 "sweep: no mesh is left" meshlo sweep region.mlir --on v5e-8 --mesh 'data=2,model=*'
exits 4 "sweep: host devices" meshlo sweep layers.hlo --on cpu:4

# Large enough for a slice to add up what bytes add up.
sed -e 's/f32\[64,64\]/f32[2048,8192]/' -e '/parameter(0)/s/\[64,32\]/[2048,32]/' -e '/parameter(1)/s/\[32,64\]/[32,8192]/' \
    -e '/parameter(2)/s/\[64,32\]/[8192,2048]/' -e '/ROOT/s/\[64,32\]/[2048,2048]/' layers.hlo >wide.hlo
exits 0 "compare" meshlo compare wide.hlo --on v5e-8 --mesh data=4,model=2 --mesh data=1,model=8 --shard 'p1=-,model;p2=model,-' --json
json "[p['mesh'] for p in j['programs']] == ['data=4,model=2', 'data=1,model=8'] and j['programs'][0]['step_seconds'] > 0" "compare: the programs"
json "[(d['collective'], d['scope'], len(d['bytes']), d['counts']) for d in j['differences'] if 'scope' in d] == [('all-reduce', 'jit(f)/layers_*', 2, [1, 1])]" "compare: what differs"
meshlo partition wide.hlo --mesh data=1,model=8 --shard p1=-,model --shard p2=model,- --json >part.json
json "sum(d['bytes'][1] for d in j['differences']) == json.load(open('part.json'))['total_bytes_per_device']" "compare: bytes as partition counts them"
exits 0 "compare: a table" meshlo compare layers.hlo layers.hlo --on v5e-8
says out "the collectives are the same" "compare: nothing differs"
exits 1 "compare: a limit" meshlo compare layers.hlo --on v6e-8,v5e-8 --fail-if 'step>1%'
says err "--fail-if step>1%" "compare: a limit: which"
exits 0 "compare: within the limit" meshlo compare layers.hlo --on v5e-8,v6e-8 --fail-if 'step>1%' --fail-if 'peak>100%'
exits 2 "compare: one alternative" meshlo compare layers.hlo --on v5e-8
exits 2 "compare: no such metric" meshlo compare layers.hlo layers.hlo --on v5e-8 --fail-if 'speed>5%'
exits 2 "compare: a mesh that is too large" meshlo compare layers.hlo layers.hlo --on v5e-4 --mesh data=4,model=2

exits 0 "slices" meshlo slices --json
json "{'v2', 'v5e', 'v6e'} <= {g['generation'] for g in j} and all(g['slices'] and g['bf16_flops_per_chip'] > 1e13 for g in j)" "slices: the generations"
json "[s['num_devices'] for g in j if g['generation'] == 'v5e' for s in g['slices'] if s['name'] == 'v5e-16'] == [16]" "slices: a slice"
exits 0 "slices: a list" meshlo slices
says out "v5e-16" "slices: a name"
