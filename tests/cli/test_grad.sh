# SPDX-License-Identifier: Apache-2.0
# Derivatives of programs: the gradient of a sum of squares is twice the argument, in every mode and of every format.
cat >squares.hlo <<'HLO'
HloModule squares, entry_computation_layout={(f32[3]{0}, f32[])->f32[]}
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
ENTRY main {
  x = f32[3] parameter(0)
  c = f32[] parameter(1)
  p = f32[3] multiply(x, x)
  z = f32[] constant(0)
  r = f32[] reduce(p, z), dimensions={0}, to_apply=sum
  ROOT y = f32[] multiply(r, c)
}
HLO
python3 - <<'PY'
import struct
def save(name, shape, values):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    open(name, "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack(f"<{len(values)}f", *values))
save("x.npy", "(3,)", [1, 2, 3])
save("c.npy", "()", [2])
save("twice.npy", "(3,)", [4, 8, 12])
save("value.npy", "()", [28])
save("slope.npy", "()", [14])
PY
exits 0 "grad" meshlo grad squares.hlo --wrt 0,1 -o gradient.hlo
exits 0 "grad: runs" meshlo run gradient.hlo --input p0=x.npy --input p1=c.npy --output results
check "grad: the value" cmp results/0.npy value.npy
check "grad: by the first parameter" cmp results/1.npy twice.npy
check "grad: by the second" cmp results/2.npy slope.npy
exits 0 "grad: StableHLO" meshlo convert squares.hlo --to stablehlo -o squares.mlir
exits 0 "grad: StableHLO: derivative" meshlo grad squares.mlir --mode grad --remat nothing -o bare.hlo
exits 0 "grad: StableHLO: runs" meshlo run bare.hlo --input p0=x.npy --input p1=c.npy --output bare
check "grad: StableHLO: gradient" cmp bare/0.npy twice.npy
exits 0 "grad: forward" meshlo grad squares.hlo --mode jvp -o forward.hlo
check "grad: forward: a tangent" grep -q "tangent = f32\[3\].* parameter(2)" forward.hlo
exits 0 "grad: vjp" meshlo grad squares.hlo --mode vjp -o reverse.hlo
check "grad: vjp: a cotangent" grep -q "cotangent = f32\[\].* parameter(2)" reverse.hlo
exits 0 "grad: of a gradient" meshlo grad gradient.hlo --mode vjp --wrt 0 -o second.hlo
exits 2 "grad: no list" meshlo grad squares.hlo --wrt 0,
exits 2 "grad: a number that does not fit" meshlo grad squares.hlo --wrt 99999999999999999999
exits 2 "grad: no mode" meshlo grad squares.hlo --mode backwards
exits 2 "grad: no policy" meshlo grad squares.hlo --remat some
exits 3 "grad: no such parameter" meshlo grad squares.hlo --wrt 2
says err "there is no parameter 2" "grad: no such parameter: why"
cat >unknown.hlo <<'HLO'
HloModule foreign
ENTRY main {
  x = f32[] parameter(0)
  ROOT y = f32[] custom-call(x), custom_call_target="mine"
}
HLO
exits 4 "grad: no derivative" meshlo grad unknown.hlo
says err "no derivative of the custom call to mine" "grad: no derivative: why"

# Mapped over an axis: two items, of the gradient above.
python3 - <<'PY'
import struct
def save(name, shape, values):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    open(name, "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack(f"<{len(values)}f", *values))
save("xs.npy", "(3, 2)", [1, 4, 2, 5, 3, 6])
save("both.npy", "(2, 3)", [4, 8, 12, 16, 20, 24])
PY
exits 0 "vmap" meshlo vmap bare.hlo --axes 1,- --size 2 -o mapped.hlo
exits 0 "vmap: runs" meshlo run mapped.hlo --input p0=xs.npy --input p1=c.npy --output mapped
check "vmap: a gradient for each item" cmp mapped/0.npy both.npy
exits 0 "vmap: all axes" meshlo vmap squares.hlo --size 4 --axis-name i
# bug: without it a TPU rounds the scaled values to bf16, which it does not in the operation itself.
cat >scaled.hlo <<'HLO'
HloModule scaled
ENTRY main {
  x = f32[2,4] parameter(0)
  y = f8e4m3fn[4,3] parameter(1)
  s = f8e8m0fnu[2,2] parameter(2)
  t = f8e8m0fnu[1,3] parameter(3)
  n = f8e4m3fn[2,4] convert(x)
  ROOT r = f32[2,3] scaled-dot(n, y, s, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
HLO
exits 0 "vmap: scaled-dot" meshlo vmap scaled.hlo --size 2 --axes 0,-,-,-
check "vmap: scaled-dot: not rounded" test "$(grep ' dot(' out | grep -c 'algorithm=dot_f32_f32_f32')" = 1
exits 0 "grad: scaled-dot" meshlo grad scaled.hlo --mode vjp
check "grad: scaled-dot: not rounded" test "$(grep ' dot(' out | grep -vc 'algorithm=dot_f32_f32_f32')" = 0
exits 2 "vmap: no size" meshlo vmap squares.hlo
exits 2 "vmap: no list" meshlo vmap squares.hlo --size 2 --axes 0,
exits 3 "vmap: too few axes" meshlo vmap squares.hlo --size 2 --axes 0
says err "1 axes for the 2 parameters" "vmap: too few axes: why"
says err "squares.hlo:13:8: error: 1 axes" "vmap: too few axes: where"
exits 3 "vmap: a size that fits nowhere" meshlo vmap squares.hlo --size 4611686018427387904
says err "squares.hlo:8:3: error: the array's size in bytes does not fit" "vmap: a size that fits nowhere: where"
exits 3 "grad: no parameter of that number" meshlo grad squares.hlo --wrt 7
says err "squares.hlo:13:8: error: there is no parameter 7" "grad: no parameter of that number: where"
exits 3 "grad: a parameter twice" meshlo grad squares.hlo --wrt 0,0
says err "squares.hlo:8:3: error: parameter 0, x, is named twice" "grad: a parameter twice: where"
exits 4 "vmap: an op that cannot be mapped" meshlo vmap unknown.hlo --size 2
# A step of gradient descent on c sum(x^2): x - 0.5 * 2 c x = -x for c = 2.
python3 - <<'PY'
import struct
header = "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }".ljust(117) + "\n"
open("negative.npy", "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack("<3f", -1, -2, -3))
PY
exits 0 "grad: training step" meshlo grad squares.hlo --optimizer sgd --learning-rate 0.5 -o sgd.hlo
check "grad: training step: donates the weight" grep -q "input_output_alias={ {0}: (0, {}, may-alias) }" sgd.hlo
exits 0 "grad: training step: runs" meshlo run sgd.hlo --input p0=x.npy --input p1=c.npy --output sgd
check "grad: training step: the new weight" cmp sgd/0.npy negative.npy
check "grad: training step: the loss" cmp sgd/1.npy value.npy
exits 0 "grad: adam" meshlo grad squares.mlir --optimizer adam --clip-norm 1 --learning-rate-parameter -o adam.hlo
check "grad: adam: two moments, a count and a rate" grep -q "f32\[3\]{0}, s32\[\], /\*index=5\*/f32\[\])->(f32\[3\], f32\[3\], f32\[3\], s32\[\], f32\[\])" adam.hlo
exits 2 "grad: unknown optimiser" meshlo grad squares.hlo --optimizer lion
says err "none of sgd, momentum, adam, adamw" "grad: unknown optimiser: named"
exits 2 "grad: a rate without an optimiser" meshlo grad squares.hlo --learning-rate 0.1
says err "--learning-rate needs --optimizer" "grad: a rate without an optimiser: said"
exits 2 "grad: decay of sgd" meshlo grad squares.hlo --optimizer sgd --weight-decay 0.1
says err "option of adamw" "grad: decay of sgd: said"
exits 2 "grad: an optimiser and a mode" meshlo grad squares.hlo --optimizer sgd --mode jvp
says err "excludes --mode" "grad: an optimiser and a mode: said"

# Through a manual region (jax.shard_map): each device has rows of x and a copy of w, and the loss leaves it in copies. The
# same program without a region has the same gradients. Only the loss and the gradient of w are sums over devices.
python3 - <<'PY'
import struct
def save(name, shape, values):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    open(name, "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack(f"<{len(values)}f", *values))
save("rows.npy", "(8, 2)", [i % 5 - 2 for i in range(16)])
save("weights.npy", "(2,)", [3, -2])
def program(name, partitions, enter, leave, count, meshes=""):
    open(name, "w").write(f"""HloModule m, num_partitions={partitions}{meshes}
sum {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}}
ENTRY e {{
  x = f32[8,2] parameter(0)
  w = f32[2] parameter(1)
{enter}
  v = f32[{count},2] broadcast(wl), dimensions={{1}}
  p = f32[{count},2] multiply(xl, v)
  q = f32[{count},2] multiply(p, p)
  z = f32[] constant(0)
  r = f32[] reduce(q, z), dimensions={{0,1}}, to_apply=sum
{leave}
}}
""")
program("plain.hlo", 1, "  xl = f32[8,2] copy(x)\n  wl = f32[2] copy(w)", "  ROOT y = f32[] copy(r)", 8)
def region(name, x, w, out, manual, groups, count):
    program(name, 8, f"""  xs = f32[8,2] custom-call(x), custom_call_target="Sharding", sharding={x}
  xl = f32[{count},2] custom-call(xs), custom_call_target="SPMDFullToShardShape", sharding={manual(2)}
  ws = f32[2] custom-call(w), custom_call_target="Sharding", sharding={w}
  wl = f32[2] custom-call(ws), custom_call_target="SPMDFullToShardShape", sharding={manual(1)}""",
            f"""  s = f32[] all-reduce(r), channel_id=1, replica_groups={groups}, use_global_device_ids=true, to_apply=sum
  l = f32[] custom-call(s), custom_call_target="Sharding", sharding={manual(0)}
  ROOT y = f32[] custom-call(l), custom_call_target="SPMDShardToFullShape", sharding={out}""", count)
region("manual.hlo", "{devices=[8,1]<=[8]}", "{replicated}", "{replicated}", lambda rank: "{manual}", "{{0,1,2,3,4,5,6,7}}", 1)
region("mixed.hlo", "{devices=[4,1,2]<=[8] last_tile_dim_replicate}", "{replicated}", "{replicated}",
       lambda rank: "{devices=[" + "1," * rank + "4,2]<=[8] last_tile_dims={manual, replicated}}", "{{0,2,4,6},{1,3,5,7}}", 2)
# The first of them as Shardy writes it: shardings are text, and the number of devices is that of the mesh.
def boundary(kind, shardings):
    return f"""frontend_attributes={{xla.sdy.{kind}_shardings="#sdy.sharding_per_value<[{shardings}]>",xla.sdy.manual_axes="#sdy<manual_axes{{\\"x\\"}}>"}}"""
enter = boundary("in", '<@mesh, [{\\"x\\"}, {}]>, <@mesh, [{}]>')
leave = boundary("out", "<@mesh, []>")
program("shardy.hlo", 1, f"""  t = (f32[1,2], f32[2]) custom-call(x, w), custom_call_target="xla.sdy.GlobalToLocalShape", {enter}
  xl = f32[1,2] get-tuple-element(t), index=0
  wl = f32[2] get-tuple-element(t), index=1""",
        f"""  s = f32[] all-reduce(r), channel_id=1, replica_groups={{{{0,1,2,3,4,5,6,7}}}}, use_global_device_ids=true, to_apply=sum
  ROOT y = f32[] custom-call(s), custom_call_target="xla.sdy.LocalToGlobalShape", {leave}""", 1, ', frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["x"=8]>}}')
PY
for name in plain manual mixed shardy; do
    exits 0 "grad: region: $name" meshlo grad $name.hlo --wrt 0,1 -o d_$name.hlo
    exits 0 "grad: region: $name: runs" meshlo run d_$name.hlo --input p0=rows.npy --input p1=weights.npy --output r_$name
    for result in 0 1 2; do check "grad: region: $name: result $result" cmp r_plain/$result.npy r_$name/$result.npy; done
done
for name in manual mixed shardy; do check "grad: region: $name: two sums over devices" test "$(grep -c ' all-reduce(' d_$name.hlo)" = 2; done
sed 's/SPMDFullToShardShape/xla.sdy.GlobalToLocalShape/; s/SPMDShardToFullShape/xla.sdy.LocalToGlobalShape/' manual.hlo >bare.hlo
exits 3 "grad: region: of Shardy without shardings" meshlo grad bare.hlo
says err "its shardings are missing" "grad: region: of Shardy without shardings: why"

# Loops that a limit ends early: none of them runs, what they do runs once, and their conditions may share parts.
# limited FILE LIMIT FACTOR CONDITION: x = x * FACTOR + y * FACTOR while CONDITION of `a` (i < LIMIT) and `b` (x[0] < 100).
limited() {
    cat >"$1" <<HLO
HloModule limited
more { s = (s32[], f32[4], f32[4]) parameter(0)
 i = s32[] get-tuple-element(s), index=0
 x = f32[4] get-tuple-element(s), index=1
 n = s32[] constant($2)
 a = pred[] compare(i, n), direction=LT
 first = f32[1] slice(x), slice={[0:1]}
 number = f32[] reshape(first)
 most = f32[] constant(100)
 b = pred[] compare(number, most), direction=LT
 $4 }
body { s = (s32[], f32[4], f32[4]) parameter(0)
 i = s32[] get-tuple-element(s), index=0
 x = f32[4] get-tuple-element(s), index=1
 y = f32[4] get-tuple-element(s), index=2
 one = s32[] constant(1)
 next = s32[] add(i, one)
 low = f32[] constant(0)
 high = f32[] constant(1)
 factor = f32[4] $3
 p = f32[4] multiply(x, factor)
 q = f32[4] multiply(y, factor)
 sum = f32[4] add(p, q)
 ROOT t = (s32[], f32[4], f32[4]) tuple(next, sum, y) }
add { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT c = f32[] add(a, b) }
ENTRY e {
 x = f32[4] parameter(0)
 y = f32[4] parameter(1)
 i = s32[] constant(0)
 t = (s32[], f32[4], f32[4]) tuple(i, x, y)
 w = (s32[], f32[4], f32[4]) while(t), condition=more, body=body
 r = f32[4] get-tuple-element(w), index=1
 z = f32[] constant(0)
 ROOT total = f32[] reduce(r, z), dimensions={0}, to_apply=add
}
HLO
}
limited none.hlo 0 "reverse(x), dimensions={0}" "ROOT c = pred[] and(a, b)"
exits 0 "grad: a limit of 0" meshlo grad none.hlo --wrt 0,1 -o none_grad.hlo
exits 0 "grad: a limit of 0: runs" meshlo run none_grad.hlo --seed 1 --print --json
json "[r['value'] for r in j['results'][1:]] == ['{1, 1, 1, 1}', '{0, 0, 0, 0}']" "grad: a limit of 0: the operands' derivatives"
limited random.hlo 3 "rng(low, high), distribution=rng_uniform" "ROOT c = pred[] and(a, b)"
exits 0 "grad: a random factor" meshlo grad random.hlo --wrt 0,1 -o random_grad.hlo
check "grad: a random factor: drawn once" test "$(grep -c ' rng(' random_grad.hlo)" = 1
parts="c0 = pred[] and(a, b)"
for k in $(seq 1 27); do parts="$parts
 c$k = pred[] and(c$((k - 1)), c$((k - 1)))"; done
limited shared.hlo 3 "reverse(x), dimensions={0}" "$parts
 ROOT c = pred[] and(c27, a)"
exits 0 "grad: a condition of shared parts" timeout 20 "$MESHLO" grad shared.hlo --wrt 0,1 -o shared_grad.hlo
