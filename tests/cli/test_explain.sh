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
# Ulysses: the sequence is sharded outside of attention, the heads inside. In HLO text and in StableHLO.
cat >ulysses.mlir <<'MLIR'
module @ulysses attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["data"=2, "seq"=4]>
  func.func public @main(%x: tensor<4x512x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"seq"}, {}]>}, %wq: tensor<256x8x32xf32>, %wk: tensor<256x8x32xf32>, %wv: tensor<256x8x32xf32>, %wo: tensor<8x32x256xf32>) -> (tensor<4x512x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"seq"}, {}]>}) {
    %q0 = stablehlo.dot_general %x, %wq, contracting_dims = [2] x [0] : (tensor<4x512x256xf32>, tensor<256x8x32xf32>) -> tensor<4x512x8x32xf32>
    %k0 = stablehlo.dot_general %x, %wk, contracting_dims = [2] x [0] : (tensor<4x512x256xf32>, tensor<256x8x32xf32>) -> tensor<4x512x8x32xf32>
    %v0 = stablehlo.dot_general %x, %wv, contracting_dims = [2] x [0] : (tensor<4x512x256xf32>, tensor<256x8x32xf32>) -> tensor<4x512x8x32xf32>
    %q1 = sdy.sharding_constraint %q0 <@mesh, [{"data"}, {"seq"}, {}, {}]> : tensor<4x512x8x32xf32>
    %k1 = sdy.sharding_constraint %k0 <@mesh, [{"data"}, {"seq"}, {}, {}]> : tensor<4x512x8x32xf32>
    %v1 = sdy.sharding_constraint %v0 <@mesh, [{"data"}, {"seq"}, {}, {}]> : tensor<4x512x8x32xf32>
    %q = sdy.sharding_constraint %q1 <@mesh, [{"data"}, {}, {"seq"}, {}]> : tensor<4x512x8x32xf32>
    %k = sdy.sharding_constraint %k1 <@mesh, [{"data"}, {}, {"seq"}, {}]> : tensor<4x512x8x32xf32>
    %v = sdy.sharding_constraint %v1 <@mesh, [{"data"}, {}, {"seq"}, {}]> : tensor<4x512x8x32xf32>
    %s = stablehlo.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<4x512x8x32xf32>, tensor<4x512x8x32xf32>) -> tensor<4x8x512x512xf32>
    %e = stablehlo.exponential %s : tensor<4x8x512x512xf32>
    %o0 = stablehlo.dot_general %e, %v, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<4x8x512x512xf32>, tensor<4x512x8x32xf32>) -> tensor<4x8x512x32xf32>
    %o1 = stablehlo.transpose %o0, dims = [0, 2, 1, 3] : (tensor<4x8x512x32xf32>) -> tensor<4x512x8x32xf32>
    %o2 = sdy.sharding_constraint %o1 <@mesh, [{"data"}, {}, {"seq"}, {}]> : tensor<4x512x8x32xf32>
    %o = sdy.sharding_constraint %o2 <@mesh, [{"data"}, {"seq"}, {}, {}]> : tensor<4x512x8x32xf32>
    %y = stablehlo.dot_general %o, %wo, contracting_dims = [2, 3] x [0, 1] : (tensor<4x512x8x32xf32>, tensor<8x32x256xf32>) -> tensor<4x512x256xf32>
    return %y : tensor<4x512x256xf32>
  }
}
MLIR
exits 0 "explain: sequence parallelism: as HLO" meshlo convert ulysses.mlir --to hlo -o ulysses.hlo
for form in ulysses.mlir ulysses.hlo; do
    exits 0 "explain: sequence parallelism: $form" meshlo explain $form --on v5e-8 --budget 60s --json
    json "{g['kind'] for g in j['groups']} == {'sequence-parallel'} and sum(g['sites'] for g in j['groups']) == 4" "explain: sequence parallelism: $form: each exchange"
    exits 0 "explain: sequence parallelism: $form: in words" meshlo explain $form
    check "explain: sequence parallelism: $form: no warning" bash -c "! grep -q warning out"
done
# Ring attention: the keys, which are the values here, go around once.
cat >ring.mlir <<'MLIR'
module @ring attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["seq"=4, "model"=2]>
  func.func public @main(%q0: tensor<4x512x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {"seq"}, {}]>}, %k0: tensor<4x512x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {"seq"}, {}]>}) -> tensor<4x512x32xf32> {
    %kt = stablehlo.tanh %k0 : tensor<4x512x32xf32>
    %r = sdy.manual_computation(%q0, %kt) in_shardings=[<@mesh, [{?}, {"seq"}, {}]>, <@mesh, [{?}, {"seq"}, {}]>] out_shardings=[<@mesh, [{?}, {"seq"}, {}]>] manual_axes={"seq"} (%q: tensor<4x128x32xf32>, %k1: tensor<4x128x32xf32>) {
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %o0 = stablehlo.constant dense<0.0> : tensor<4x128x32xf32>
      %w:3 = stablehlo.while(%i = %zero, %k = %k1, %o = %o0) : tensor<i32>, tensor<4x128x32xf32>, tensor<4x128x32xf32>
      cond {
        %four = stablehlo.constant dense<4> : tensor<i32>
        %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %more : tensor<i1>
      } do {
        %s = stablehlo.dot_general %q, %k, batching_dims = [0] x [0], contracting_dims = [2] x [2] : (tensor<4x128x32xf32>, tensor<4x128x32xf32>) -> tensor<4x128x128xf32>
        %e = stablehlo.exponential %s : tensor<4x128x128xf32>
        %p = stablehlo.dot_general %e, %k, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<4x128x128xf32>, tensor<4x128x32xf32>) -> tensor<4x128x32xf32>
        %sum = stablehlo.add %o, %p : tensor<4x128x32xf32>
        %next = "stablehlo.collective_permute"(%k) {source_target_pairs = dense<[[0, 2], [2, 4], [4, 6], [6, 0], [1, 3], [3, 5], [5, 7], [7, 1]]> : tensor<8x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>} : (tensor<4x128x32xf32>) -> tensor<4x128x32xf32>
        %one = stablehlo.constant dense<1> : tensor<i32>
        %j = stablehlo.add %i, %one : tensor<i32>
        stablehlo.return %j, %next, %sum : tensor<i32>, tensor<4x128x32xf32>, tensor<4x128x32xf32>
      }
      sdy.return %w#2 : tensor<4x128x32xf32>
    } : (tensor<4x512x32xf32>, tensor<4x512x32xf32>) -> tensor<4x512x32xf32>
    return %r : tensor<4x512x32xf32>
  }
}
MLIR
exits 0 "bug: ring attention was called a pipeline" meshlo explain ring.mlir --on v5e-8 --budget 0s --json
json "[(g['kind'], g['axes']) for g in j['groups']] == [('sequence-parallel', 'seq')]" "bug: ring attention was called a pipeline: its kind"
exits 0 "changes of two parameters" meshlo explain "$SOURCE/examples/mlp_gradient_512.hlo" --on v5e-8
says out "shard params[1][0] as P(None, None)" "bug: a change of params[1][0] was said to be one of params[*][*]"

# Donation that is missing.
update() { # FIRST LINE: a step of gradient descent with momentum
    cat <<HLO
HloModule update, $1
ENTRY main {
  w = f32[4096,4096] parameter(0), metadata={op_name="params['w']"}
  m = f32[4096,4096] parameter(1), metadata={op_name="moments['w']"}
  x = f32[64,4096] parameter(2), metadata={op_name="x"}
  y = f32[64,4096] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  g = f32[4096,4096] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  n = f32[4096,4096] add(m, g)
  v = f32[4096,4096] subtract(w, n)
  ROOT r = (f32[4096,4096], f32[4096,4096]) tuple(v, n)
}
HLO
}
update "num_partitions=1" >kept.hlo
update "num_partitions=1, buffer_donor={ (0, {}), (1, {}) }" >given.hlo
exits 0 "explain: a missing donation" meshlo explain kept.hlo --on v5e-1
says out "what saves memory" "explain: a missing donation: what it is for"
says out "donate_argnames=('params', 'moments')" "explain: a missing donation in JAX's words"
exits 0 "explain: a missing donation: JSON" meshlo explain kept.hlo --on v5e-1 --json
cp out kept.json
exits 0 "explain: the donated program" meshlo emulate given.hlo --on v5e-1 --json
cp out given.json
check "explain: a donation keeps its promise" python3 -c "
import json
one, got = json.load(open('kept.json'))['donation'], json.load(open('given.json'))
assert (got['step_seconds'], got['hbm_peak_bytes']) == (one['step_seconds'], one['hbm_peak_bytes']), (one, got['hbm_peak_bytes'])"
exits 0 "explain: a donated program" meshlo explain given.hlo --on v5e-1 --json
json "'donation' not in j" "explain: what is donated is not suggested"
sum_of() { # NAMES OF BOTH PARAMETERS
    cat <<HLO
HloModule sum
ENTRY main {
  a = f32[1024,1024] parameter(0), metadata={op_name="$1"}
  b = f32[1024,1024] parameter(1), metadata={op_name="$2"}
  ROOT r = f32[1024,1024] add(a, b)
}
HLO
}
sum_of params gradients >sum.hlo
exits 0 "bug: both sides of a sum were said to be replaced" meshlo explain sum.hlo --on v5e-1
says out "donate_argnames=('params',))" "bug: both sides of a sum were said to be replaced: one is"
sum_of "['x']" "args[" >sum.hlo
exits 0 "bug: an argument without a name was donated" meshlo explain sum.hlo --on v5e-1
says out "donate ['x'], so" "bug: an argument without a name was donated: what it is called"
check "bug: an argument without a name was donated: no words of JAX" sh -c '! grep -q jax out'
