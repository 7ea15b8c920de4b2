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
exits 2 "vmap: no size" meshlo vmap squares.hlo
exits 2 "vmap: no list" meshlo vmap squares.hlo --size 2 --axes 0,
exits 3 "vmap: too few axes" meshlo vmap squares.hlo --size 2 --axes 0
says err "1 axes for the 2 parameters" "vmap: too few axes: why"
exits 4 "vmap: an op that cannot be mapped" meshlo vmap unknown.hlo --size 2
