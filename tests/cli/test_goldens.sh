# SPDX-License-Identifier: Apache-2.0
# Published numbers through the command: what JAX's documents and bug reports print, on the slices that printed it.
#
#   G1, G2, G4   JAX-101, "Parallel Evaluation in JAX": devices, convolution and its shares on a TPU v2 host
#   G7           jax#9973: a matrix product on a TPU and on a CPU
#   G10          jax.make_mesh of jax 0.10.2
#   G12          JAX tutorial "Distributed arrays and automatic parallelization": times on a TPU v2-8
#   G15          ColabFold#62: an error message of libtpu

# npy FILE SHAPE VALUES: an .npy file of f32 numbers; VALUES is a Python expression.
npy() {
    python3 - "$@" <<'PY'
import struct, sys
name, shape, values = sys.argv[1:]
numbers = list(eval(values))
head = "{'descr': '<f4', 'fortran_order': False, 'shape': %s, }" % shape
head += ' ' * (-(len(head) + 11) % 64) + '\n'
open(name, 'wb').write(b'\x93NUMPY\x01\x00' + struct.pack('<H', len(head)) + head.encode() + struct.pack('<%df' % len(numbers), *numbers))
PY
}
# floats FILE EXPRESSION NAME: with the numbers of an .npy file as the list v, the Python expression is true.
floats() {
    local message
    message=$(python3 -c "
import struct, sys
d = open('$1', 'rb').read()
start = 10 + struct.unpack('<H', d[8:10])[0]
v = list(struct.unpack('<%df' % ((len(d) - start) // 4), d[start:]))
sys.exit(0 if ($2) else str(v)[:400])" 2>&1)
    report $? "$3" "$message"
}

# G1: the eight cores of a TPU v2 host.
exits 0 "G1" meshlo devices v2-8 --json
json "[d['id'] for d in j] == list(range(8)) and [d['core_on_chip'] for d in j] == [0, 1] * 4" "G1: ids and cores"
json "[d['coords'] for d in j[::2]] == [[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]] and {d['process_index'] for d in j} == {0}" "G1: places"

# G2, G4: a window of three along each of eight rows; the same divided by the sums over the rows.
cat >convolve.hlo <<'HLO'
HloModule convolve
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
ENTRY main {
  x = f32[8,5] parameter(0)
  w = f32[3] parameter(1)
  k = f32[3,1,1] reshape(w)
  c = f32[8,5,1] reshape(x)
  y = f32[8,3,1] convolution(c, k), window={size=3}, dim_labels=b0f_0io->b0f
  r = f32[8,3] reshape(y)
  z = f32[] constant(0)
  t = f32[3] reduce(r, z), dimensions={0}, to_apply=add
  b = f32[8,3] broadcast(t), dimensions={1}
  n = f32[8,3] divide(r, b)
  ROOT o = (f32[8,3], f32[8,3]) tuple(r, n)
}
HLO
npy x.npy '(8, 5)' 'range(40)'
npy w.npy '(3,)' '(2, 3, 4)'
window="v == [b + 45 * i for i in range(8) for b in (11, 20, 29)]"
shares="max(abs(a - b) for a, b in zip(v, (x for i in range(8) for x in ((11 + 45 * i) / 1348, (20 + 45 * i) / 1420, (29 + 45 * i) / 1492)))) < 1e-7"
for where in "cpu:1" "v2-8" "v2-8 --mesh i=8 --shard p0=i,-" "cpu:8 --mesh i=4,k=2 --shard p0=i,k"; do
    # shellcheck disable=SC2086
    exits 0 "G2 on $where" meshlo run convolve.hlo --input p0=x.npy --input p1=w.npy --output out_g2 --on $where
    floats out_g2/0.npy "$window" "G2 on $where: 11 20 29 … 326 335 344"
    floats out_g2/1.npy "$shares" "G4 on $where: shares of the sums"
done
exits 0 "G4: sharded, it communicates" meshlo partition convolve.hlo --mesh i=8 --shard p0=i,- --json
json "[c['opcode'] for c in j['collectives']] == ['all-reduce']" "G4: sharded, it communicates: one sum"

# G7: one pass of bf16, as a TPU multiplies f32 by default (jax#9973), and f32.
cat >dot.hlo <<'HLO'
HloModule dot
ENTRY main {
  a = f32[2,2] parameter(0)
  b = f32[2,2] parameter(1)
  ROOT c = f32[2,2] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
HLO
npy a.npy '(2, 2)' '(.3744, .1656, .4707, .1663)'
npy b.npy '(2, 2)' '(.3946, .1186, .1569, .3145)'
tpu="0.17405128 0.09669876 0.21180916 0.10805416" cpu="0.17372088 0.09648504 0.21183069 0.10812637"
# digits NAME WANT ARGUMENTS…: the product to all eight digits.
digits() {
    local name=$1 want=$2
    shift 2
    exits 0 "$name" meshlo run dot.hlo --input p0=a.npy --input p1=b.npy --output out_g7 "$@"
    floats out_g7/0.npy "['%.8f' % x for x in v] == '$want'.split()" "$name: digits"
}
digits "G7 on a TPU" "$tpu" --on v2-8
digits "G7 on a later TPU, replicated" "$tpu" --on v5e-4 --mesh i=4
digits "G7 on a host" "$cpu" --on cpu
digits "G7 on a TPU, exact" "$cpu" --on v2-8 --numerics exact
digits "G7 on a host, as a TPU" "$tpu" --on cpu --numerics tpu
digits "G7 evaluated" "$tpu" --on v2-8 --engine eval

# G10: the order of devices in jax.make_mesh (jax 0.10.2 on the devices that we present); a line without $ compares the
# first ids.
while IFS='|' read -r slice mesh ids; do
    # shellcheck disable=SC2086
    exits 0 "G10: $slice as $mesh" meshlo topology "$slice" --mesh $mesh
    check "G10: $slice as $mesh: ids" grep -qE "^$ids" out
done <<'CASES'
v2-8|4,2|0 1 2 3 6 7 4 5
v3-8|4,2|0 1 2 3 6 7 4 5
v3-16|2,8|0 1 2 3 6 7 4 5 8 9 10 11 14 15 12 13
v3-16|4,4|0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15
cpu:8|4,2|0 1 2 3 4 5 6 7
v2-8|8|0 1 2 3 6 7 4 5$
v2-8|2,4|0 1 2 3 6 7 4 5$
v2-8|2,2,2|0 1 2 3 6 7 4 5$
v3:4x4|4,8|0 1 2 3 10 11 8 9 4 5 6 7 14 15 12 13 16 17 18 19 26 27 24 25 20 21 22 23 30 31 28 29$
v3:4x4|8,4|0 1 2 3 8 9 10 11 4 5 6 7 12 13 14 15 16 17 18 19 24 25 26 27 20 21 22 23 28 29 30 31$
v3:4x4|32|0 1 2 3 8 9 10 11 4 5 6 7 12 13 14 15 16 17 18 19 24 25 26 27 20 21 22 23 28 29 30 31$
v4:2x2x1|4|0 2 1 3$
v4:2x2x1|2,2|0 1 2 3$
v4:2x2x2|8|0 4 2 6 1 5 3 7$
v4:2x2x2|2,4|0 2 1 3 4 6 5 7$
v4:2x2x2|4,2|0 1 4 5 2 3 6 7$
v4:2x2x4|4,4|0 2 1 3 4 6 5 7 8 10 9 11 12 14 13 15$
v4:2x2x4|2,8|0 4 8 12 1 5 9 13 2 6 10 14 3 7 11 15$
v4:4x4x4|4,16|0 4 8 12 1 5 9 13 2 6 10 14 3 7 11 15 
v4:4x4x4|16,4|0 1 2 3 16 17 18 19 32 33 34 35 48 49 50 51 
v4:4x4x4|64|0 16 32 48 4 20 36 52 
v5:2x2x2|8|0 4 2 6 1 5 3 7$
v5:2x2x2|2,4|0 2 1 3 4 6 5 7$
v5:2x2x2|4,2|0 1 4 5 2 3 6 7$
v5e:2x2|4|0 1 3 2$
v5e:2x2|2,2|0 1 3 2$
v6e:2x2|4|0 1 3 2$
v5e:2x4|8|0 1 2 3 7 6 5 4$
v5e:2x4|2,4|0 1 2 3 7 6 5 4$
v5e:4x4|16|0 1 2 3 7 6 5 9 10 11 15 14 13 12 8 4$
v5e:4x4|4,4|0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15$
v5e:4x4|2,8 --split|0 4 1 5 2 6 3 7 8 12 9 13 10 14 11 15$
v5e:4x4|8,2 --split|0 1 4 5 8 9 12 13 2 3 6 7 10 11 14 15$
v6e:4x8|8,4|0 1 2 3 4 5 6 7 8 9 
v6e:4x8|4,8|0 4 8 12 16 20 24 28 1 5 
v5e:16x16|16,16|0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 
v5e:16x16|256|0 16 32 48 
tpu7x:2x2x1|8|0 1 2 3 6 7 4 5$
tpu7x:2x2x1|4,2|0 1 2 3 6 7 4 5$
tpu7x:2x2x1|2,1,4|0 1 2 3 6 7 4 5$
tpu7x:2x2x4|8,4|0 1 2 3 6 7 4 5 8 9 10 11 14 15 12 13 16 
CASES

# G12: products of 8192 x 8192 on v2-8, one device and eight, within 15 %.
cat >large.hlo <<'HLO'
HloModule large
ENTRY main {
  a = f32[8192,8192] parameter(0)
  b = f32[8192,8192] parameter(1)
  ROOT c = f32[8192,8192] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
HLO
exits 0 "G12: one device" meshlo emulate large.hlo --topology v2-8 --json
json "abs(j['step_seconds'] - 49.7e-3) < 0.15 * 49.7e-3" "G12: one device: 49.7 ms"
exits 0 "G12: eight devices" meshlo emulate large.hlo --topology v2-8 --mesh i=4,k=2 --shard p0=i,- --shard p1=-,k --json
json "abs(j['step_seconds'] - 7.47e-3) < 0.15 * 7.47e-3" "G12: eight devices: 7.47 ms"
json "j['num_devices'] == 8 and j['collective_seconds'] == 0" "G12: eight devices: without communication"

# G15: an array is padded to tiles of 8 x 128 (ColabFold#62): 122.5 MiB become 124.0 MiB.
printf 'HloModule padded, entry_computation_layout={(f32[512,245,256]{2,1,0:T(8,128)})->f32[512,245,256]{2,1,0:T(8,128)}}\nENTRY main {\n  ROOT p = f32[512,245,256]{2,1,0:T(8,128)} parameter(0)\n}\n' >padded.hlo
exits 0 "G15" meshlo emulate padded.hlo --topology v2-8 --json
json "j['argument_bytes'] == 512 * 248 * 256 * 4 == 124 << 20" "G15: padded bytes"
json "j['hbm_capacity_bytes'] == (8 << 30) - (530 << 20)" "G15: what a core has"
