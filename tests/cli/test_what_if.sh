# SPDX-License-Identifier: Apache-2.0
# --mesh on annotated programs: the same program written for two meshes. What JAX writes is in tests/jax.

# written_for DATA MODEL: one layer and its gradient, as StableHLO and as HLO text, annotated for data=DATA,model=MODEL.
written_for() {
    local name=$1_$2 devices=$(($1 * $2)) rows columns both
    cat >"$name.mlir" <<MLIR
module @layer attributes {mhlo.num_partitions = $devices : i32} {
  sdy.mesh @mesh = <["data"=$1, "model"=$2]>
  func.func public @main(%x: tensor<64x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %w: tensor<32x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}) -> (tensor<32x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}]>}) {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x32xf32>, tensor<32x64xf32>) -> tensor<64x64xf32>
    %1 = sdy.sharding_constraint %0 <@mesh, [{"data"}, {"model"}]> : tensor<64x64xf32>
    %2 = stablehlo.tanh %1 : tensor<64x64xf32>
    %3 = stablehlo.dot_general %x, %2, contracting_dims = [0] x [0] : (tensor<64x32xf32>, tensor<64x64xf32>) -> tensor<32x64xf32>
    return %3 : tensor<32x64xf32>
  }
}
MLIR
    rows="devices=[$1,1,$2]<=[$devices] last_tile_dim_replicate" columns="devices=[1,$2,$1]<=[$1,$2]T(1,0) last_tile_dim_replicate"
    both="devices=[$1,$2]<=[$devices]"
    # The list of the root alone is a device list, as XLA writes it.
    cat >"$name.hlo" <<HLO
HloModule layer, num_partitions=$devices, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["data"=$1, "model"=$2]>}}
ENTRY main {
  x = f32[64,32] parameter(0), sharding={$rows}, frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\"data\"}, {}]>"}
  w = f32[32,64] parameter(1), sharding={$columns}, frontend_attributes={xla.sdy.sharding="#sdy.sharding<mesh<[\"data\"=$1, \"model\"=$2]>, [{}, {\"model\"}]>"}
  d = f32[64,64] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = f32[64,64] custom-call(d), custom_call_target="Sharding", sharding={$both}
  t = f32[64,64] tanh(c)
  ROOT g = f32[32,64] dot(x, t), lhs_contracting_dims={0}, rhs_contracting_dims={0}, sharding={$both}
}
HLO
    cat >"$name.v3.hlo" <<HLO
HloModule layer, num_partitions=$devices
ENTRY main {
  x = f32[64,32] parameter(0), sharding={mesh[data=$1,model=$2], [{data}, {}]}
  w = f32[32,64] parameter(1), sharding={mesh[data=$1,model=$2], [{}, {model}]}
  d = f32[64,64] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = f32[64,64] custom-call(d), custom_call_target="Sharding", sharding={mesh[data=$1,model=$2], [{data}, {model}]}
  t = f32[64,64] tanh(c)
  ROOT g = f32[32,64] dot(x, t), lhs_contracting_dims={0}, rhs_contracting_dims={0}, sharding={mesh[data=$1,model=$2], [{data}, {model}]}
}
HLO
}
for shape in "4 2" "2 4" "2 2" "16 1"; do
    # shellcheck disable=SC2086
    written_for $shape
done
# The step, its parts, bytes and memory; not the origin of the mesh.
answer() {
    "$MESHLO" emulate "$@" --topology v5e-16 --json | python3 -c "
import json, sys
j = json.load(sys.stdin)
print(j['step_seconds'], j['num_devices'], j['mesh'], j['collective_bytes_per_device'], j['hbm_peak_bytes'], j['links'],
      [(o['name'], o['start'], o['duration'], o['bytes']) for o in j['ops']])"
}
for format in mlir hlo v3.hlo; do
    for from in 4_2 2_4 2_2 16_1; do
        for to in 4_2 2_4 2_2 16_1; do
            # A device list does not say whether it uses an axis of one device.
            [ $format$from$to = hlo16_116_1 ] || [ $format$from != hlo16_1 ] || continue
            want=$(answer $to.$format) got=$(answer $from.$format --mesh data=${to%_*},model=${to#*_})
            [ -n "$want" ] && [ "$want" = "$got" ]
            report $? "what if: $from.$format as $to" "$(printf '%s\n%s' "$want" "$got" | cut -c1-300)"
        done
    done
done
[ "$(answer 4_2.hlo)" != "$(answer 2_4.hlo)" ]
report $? "what if: the meshes differ"
exits 2 "an axis of one device in a device list" meshlo emulate 16_1.hlo --topology v5e-16 --mesh data=4,model=2
says err "%c: its sharding is a device list, which does not say whether it uses the axis 'model' of one device" "an axis of one device: named"
exits 0 "another order of axes" meshlo run 4_2.mlir --mesh model=4,data=2 --compare eval
exits 0 "another number of devices" meshlo run 4_2.hlo --mesh data=2,model=3 --compare eval
exits 0 "propagation too" meshlo partition 4_2.hlo --mesh data=2,model=2 --propagate-only
says out '%d = f32[64,64]{1,0} dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={devices=[2,2]<=[4]}' "propagation too: on four devices"

# Who named the mesh.
exits 0 "the program's mesh" meshlo partition 4_2.mlir --json
json "(j['mesh'], j['mesh_source']) == ('data=4,model=2', \"the program's\")" "the program's mesh: in the report"
exits 0 "the mesh of the option" meshlo emulate 4_2.mlir --on v5e-16 --mesh data=2,model=4
says out "mesh: data=2,model=4 (--mesh)" "the mesh of the option: in the summary"
exits 0 "the mesh in run" meshlo run 4_2.hlo --json
json "j['mesh'] == 'data=4,model=2'" "the mesh in run: in the report"
exits 0 "the mesh in explain" meshlo explain 4_2.mlir
says out "mesh data=4,model=2 (the program's)" "the mesh in explain: in the last line"

# Axes.
exits 2 "a misspelt axis" meshlo emulate 4_2.mlir --on v5e-16 --mesh date=4,model=2
says err "neither the program nor --shard uses the axis 'date' (did you mean 'data'?); the program's axes: data, model" "a misspelt axis: near match"
exits 2 "an axis that is missing" meshlo emulate 4_2.hlo --on v5e-16 --mesh data=8
says err "%w: its sharding uses the axis 'model', which the mesh does not have" "an axis that is missing: named"
exits 0 "an axis of --shard" meshlo partition 4_2.mlir --mesh data=2,model=2,more=2 --shard p1=more,model
exits 2 "an axis that nothing uses" meshlo partition 4_2.mlir --mesh data=2,model=2,more=2
exits 2 "an axis that no --shard uses" meshlo partition 4_2.hlo --mesh data=4,model=1,spare=2 --shard p0=data,model

cat >two.hlo <<'HLO'
HloModule two
ENTRY main {
  x.1 = f32[16,64] parameter(0)
  scale = f32[] parameter(1)
  s = f32[16,64] broadcast(scale), dimensions={}
  ROOT y = f32[16,64] multiply(x.1, s)
}
HLO
exits 0 "bug: a plan that keeps all arrays whole could not be pasted" meshlo partition two.hlo --mesh data=4,model=2 --shard x.1=-,-
exits 0 "bug: a plan that leaves an axis out could not be pasted" meshlo emulate two.hlo --on v5e-8 --mesh data=4,model=2 --shard x.1=data,-
exits 2 "an axis that the --shard of some arrays leaves out" meshlo partition two.hlo --mesh data=4,model=2 --shard y=data,-
says err "no --shard uses the axis 'model'" "an axis that the --shard of some arrays leaves out: named"

# Programs that fix their own split.
awk 'NR == 2 { print "add {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] add(a, b)\n}" }
    sub(/ROOT g/, "r") { sub(/, sharding=.*/, "") }
    /^}$/ { print "  ROOT g = f32[32,64] all-reduce(r), channel_id=1, replica_groups={{0,1,2,3,4,5,6,7}}, use_global_device_ids=true, to_apply=add" }
    { print }' 4_2.hlo >groups.hlo
exits 2 "groups of device numbers" meshlo emulate groups.hlo --on v5e-16 --mesh data=2,model=4
says err "%g: all-reduce uses the device numbers of the program's own mesh" "groups of device numbers: named"
cat >region.mlir <<'MLIR'
module {
  sdy.mesh @mesh = <["data"=4, "model"=2]>
  func.func public @main(%x: tensor<16x64xf32>) -> tensor<16x64xf32> {
    %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"data"}, {}]>] out_shardings=[<@mesh, [{"data"}, {}]>] manual_axes={"data"} (%y: tensor<4x64xf32>) {
      %1 = stablehlo.negate %y : tensor<4x64xf32>
      sdy.return %1 : tensor<4x64xf32>
    } : (tensor<16x64xf32>) -> tensor<16x64xf32>
    return %0 : tensor<16x64xf32>
  }
}
MLIR
exits 0 "a manual region on its own mesh" meshlo emulate region.mlir --on v5e-16 --mesh data=4,model=2
exits 2 "a manual region on another mesh" meshlo emulate region.mlir --on v5e-16 --mesh data=2,model=4
says err "of a manual region, which the program has divided itself along the axis 'data' of 4 devices" "a manual region on another mesh: named"
# A region that is manual over model alone: data may change. Sums, a permute and a gather in it have device numbers.
cat >half.mlir <<'MLIR'
module {
  sdy.mesh @mesh = <["data"=2, "model"=4]>
  func.func public @main(%x: tensor<16x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}]>}) -> tensor<16x64xf32> {
    %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{?}, {"model", ?}]>] out_shardings=[<@mesh, [{?}, {?}]>] manual_axes={"model"} (%y: tensor<16x16xf32>) {
      %1 = "stablehlo.collective_permute"(%y) {source_target_pairs = dense<[[0, 1], [1, 2], [2, 3], [3, 0], [4, 5], [5, 6], [6, 7], [7, 4]]> : tensor<8x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>} : (tensor<16x16xf32>) -> tensor<16x16xf32>
      %2 = "stablehlo.all_reduce"(%1) ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %5 = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %5 : tensor<f32>
      }) {replica_groups = dense<[[0, 1], [2, 3], [4, 5], [6, 7]]> : tensor<4x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, use_global_device_ids} : (tensor<16x16xf32>) -> tensor<16x16xf32>
      %3 = "stablehlo.all_gather"(%2) {all_gather_dim = 1 : i64, replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>, use_global_device_ids} : (tensor<16x16xf32>) -> tensor<16x64xf32>
      sdy.return %3 : tensor<16x64xf32>
    } : (tensor<16x64xf32>) -> tensor<16x64xf32>
    return %0 : tensor<16x64xf32>
  }
}
MLIR
meshlo convert half.mlir --to hlo -o half.hlo
exits 0 "a region on its own mesh" meshlo run half.mlir --output own
for form in mlir hlo; do
    for mesh in data=4,model=4 model=4,data=2 model=4,data=3 data=1,model=4; do
        exits 0 "a region whose axis keeps its size: $form, $mesh" meshlo run half.$form --mesh $mesh --output other
        cmp -s own/0.npy other/0.npy
        report $? "a region whose axis keeps its size: $form, $mesh: the same numbers"
    done
done
exits 0 "groups on another mesh" meshlo partition half.mlir --mesh model=4,data=3
says out "replica_groups={{0,3},{1,4},{2,5},{6,9},{7,10},{8,11}}" "groups on another mesh: of three, in the order of the axes"
says out "source_target_pairs={{0,3},{1,4},{2,5},{3,6},{4,7},{5,8},{6,9},{7,10},{8,11},{9,0},{10,1},{11,2}}" "pairs on another mesh"
exits 2 "a region whose axis changes" meshlo partition half.mlir --mesh data=2,model=2
says err "divided itself along the axis 'model' of 4 devices" "a region whose axis changes: named"
sed 's/"data"=2, "model"=4/"data"=8, "model"=1/; s/tensor<16x16xf32>/tensor<16x64xf32>/g; s/%1 = .*/%1 = stablehlo.negate %y : tensor<16x64xf32>/; s/dense<.*tensor<4x2xi64>/dense<[[0], [1], [2], [3], [4], [5], [6], [7]]> : tensor<8x1xi64>/; s/%3 = .*/%3 = stablehlo.negate %2 : tensor<16x64xf32>/' half.mlir >alone.mlir
exits 0 "sums along an axis of one device" meshlo partition alone.mlir
exits 2 "bug: sums along an axis of one device stayed sums of one device where it grew" meshlo partition alone.mlir --mesh data=1,model=8
says err "the axis 'model' of one device" "bug: sums along an axis of one device stayed sums of one device where it grew: named"
# Groups along an axis that changes, or that are not the same along it.
sed 's/\[\[0, 1\], \[2, 3\], \[4, 5\], \[6, 7\]\]/[[0, 4], [1, 5], [2, 6], [3, 7]]/' half.mlir >across.mlir
exits 2 "groups along an axis that changes" meshlo partition across.mlir --mesh data=4,model=4
says err "all-reduce uses the device numbers of the program's own mesh along the axis 'data', whose size changes" "groups along an axis that changes: named"
exits 0 "groups along an axis that only moves" meshlo partition across.mlir --mesh model=4,data=2
says out "replica_groups={{0,1},{2,3},{4,5},{6,7}}" "groups along an axis that only moves: renumbered"
sed 's/\[4, 5\], \[6, 7\]\]/[4, 6], [5, 7]]/' half.mlir >unlike.mlir
exits 2 "groups that differ along an axis that changes" meshlo partition unlike.mlir --mesh data=4,model=4
says err "and not the same ones along the axis 'data', whose size changes" "groups that differ along an axis that changes: named"
printf 'HloModule lists\nENTRY main {\n  p = f32[8,8] parameter(0), sharding={devices=[4,2]<=[8]}\n  ROOT q = f32[8,8] negate(p)\n}\n' >lists.hlo
exits 0 "a device list that the axes express" meshlo partition lists.hlo --mesh rows=4,columns=2
exits 2 "a device list that they do not" meshlo partition lists.hlo --mesh rows=2,columns=4
says err "lists.hlo:3:3: error: the program cannot be laid out on the mesh rows=2,columns=4: instruction %p: its sharding {devices=[4,2]<=[8]} is a list of devices" "a device list that they do not: named"
exits 2 "a device list of another number" meshlo partition lists.hlo --mesh rows=4
says err "is a list of 8 devices, which names no axes" "a device list of another number: named"

# One option for one thing.
exits 0 "--on is --topology" meshlo emulate 4_2.mlir --on v5e-16
exits 0 "--topology is --on" meshlo run 4_2.mlir --topology v5e-16
exits 2 "an option of another verb" meshlo run 4_2.mlir --trace t.json
says err "meshlo run has no such option, meshlo emulate does" "an option of another verb: whose"
exits 2 "--shard of a plan" meshlo plan 4_2.mlir --on v5e-8 --shard p0=data
says err "meshlo plan has --keep for that" "--shard of a plan: named"
exits 2 "--keep of a run" meshlo run 4_2.mlir --keep p0=data
says err "meshlo run has --shard for that" "--keep of a run: named"
exits 0 "flags for another verb in the environment" env MESHLO_FLAGS="--trace t.json --json" "$MESHLO" run 4_2.mlir
says err "note: MESHLO_FLAGS: meshlo run has no option --trace" "flags for another verb: a note"
json "j['num_devices'] == 8" "flags for another verb: the others hold"
exits 0 "-V" meshlo -V
