# SPDX-License-Identifier: Apache-2.0
# What collectives are for, and suggestions that keep their promise when they are pasted.
cat >embed.hlo <<'HLO'
HloModule embed, num_partitions=8, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["data"=4, "model"=2]>}}
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
ENTRY main {
  table = f32[8192,512] parameter(0), sharding={devices=[2,4]<=[4,2]T(1,0)}, metadata={op_name="params['embed']"}
  up = f32[512,2048] parameter(1), sharding={devices=[4,2]<=[8]}, metadata={op_name="params['layers'][0]['up']"}
  down = f32[2048,512] parameter(2), sharding={devices=[2,4]<=[4,2]T(1,0)}, metadata={op_name="params['layers'][0]['down']"}
  tokens = s32[4096] parameter(3), sharding={devices=[4,2]<=[8] last_tile_dim_replicate}, metadata={op_name="tokens"}
  x = f32[4096,512] gather(table, tokens), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,512}, metadata={op_name="jit(step)/embed/gather" source_file="/home/me/model.py" source_line=12}
  h = f32[4096,2048] dot(x, up), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(step)/layers_0/up/dot_general" source_file="/home/me/model.py" source_line=20}
  t = f32[4096,2048] tanh(h)
  y = f32[4096,512] dot(t, down), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(step)/layers_0/down/dot_general" source_file="/home/me/model.py" source_line=21}
  s = f32[4096,512] multiply(y, y)
  z = f32[] constant(0)
  ROOT loss = f32[] reduce(s, z), dimensions={0,1}, to_apply=sum
}
HLO
exits 0 "explain: without a slice" meshlo explain embed.hlo
says out "share        sent      times  what" "explain: without a slice: bytes"
says out "FSDP weight gather" "explain: a kind"
says out "params['layers'][*]['up']" "explain: a parameter, its layer left open"
says out "model.py:21" "explain: a source line"
says out "with a slice" "explain: without a slice: what to add"
check "explain: no instruction's name" bash -c "! grep -qE 'dot[.][0-9]|all-reduce[.][0-9]' out"
exits 0 "explain: each collective" meshlo explain embed.hlo --each
says out "needed as" "explain: each collective: why"
exits 2 "explain: each as JSON" meshlo explain embed.hlo --each --json
exits 2 "explain: a budget that is no time" meshlo explain embed.hlo --on v5e-8 --budget soon
exits 0 "explain: on a slice" meshlo explain embed.hlo --on v5e-8 --budget 60s
says out "for the network; peak memory" "explain: the step"
says out "the embedding params['embed'] is sharded" "explain: the embedding is the cause"
says out "what helps, of" "explain: changes that help"
says out "as P(" "explain: changes in JAX's words"
cp out table
exits 0 "explain: JSON" meshlo explain embed.hlo --on v5e-8 --budget 60s --json
cp out explain.json
json "set(j) >= set('num_partitions mesh collectives total_bytes_per_device groups by_kind by_axes suggestions step_seconds tried complete'.split())" "explain: keys"
json "sum(g['bytes_per_device'] for g in j['groups']) == j['total_bytes_per_device']" "explain: groups are all of it"
json "j['complete'] and j['suggestions'] and all(s['step_seconds'] < j['step_seconds'] for s in j['suggestions'])" "explain: only what helps"
python3 - "$MESHLO" >pasted.sh <<'PY'
import json, shlex, sys
for number, one in enumerate(json.load(open("explain.json"))["suggestions"]):
    print(shlex.join([sys.argv[1], "emulate", "embed.hlo", "--on", "v5e-8", "--json", *one["options"]]), f"> pasted{number}.json")
PY
check "explain: suggestions can be pasted" bash -e pasted.sh
check "explain: suggestions keep their promise" python3 -c "
import json
for number, one in enumerate(json.load(open('explain.json'))['suggestions']):
    got = json.load(open(f'pasted{number}.json'))
    assert (got['step_seconds'], got['hbm_peak_bytes']) == (one['step_seconds'], one['hbm_peak_bytes']), (one, got['step_seconds'])"
exits 0 "explain: nothing is tried" meshlo explain embed.hlo --on v5e-8 --budget 0s --json
json "j['tried'] == 0 and not j['suggestions']" "explain: nothing is tried: nothing is suggested"
cat >sound.hlo <<'HLO'
HloModule sound, num_partitions=8, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["data"=8]>}}
ENTRY main {
  x = f32[4096,4096] parameter(0), sharding={devices=[8,1]<=[8]}
  ROOT y = f32[4096,4096] tanh(x), sharding={devices=[8,1]<=[8]}
}
HLO
exits 0 "explain: a sound plan" meshlo explain sound.hlo --on v5e-8
check "explain: a sound plan has no warning" bash -c "! grep -q warning out"
exits 0 "explain: one device" meshlo explain sound.hlo --on v5e-8 --mesh data=1
