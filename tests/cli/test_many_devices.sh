# SPDX-License-Identifier: Apache-2.0
# More devices than any slice has: what the engine keeps for each device, each group and each message must stay right, and
# linear (benchmarks/measurements.md has the times), when there are tens of thousands of them.
cat >sum.hlo <<'HLO'
HloModule sum
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
ENTRY e {
  p = f32[16384] parameter(0)
  s = f32[16384] negate(p)
  z = f32[] constant(0)
  ROOT r = f32[] reduce(s, z), dimensions={0}, to_apply=add
}
HLO
cat >reverse.hlo <<'HLO'
HloModule reverse
ENTRY e {
  p = f32[16384] parameter(0)
  ROOT r = f32[16384] reverse(p), dimensions={0}
}
HLO
exits 0 "a sum over 16,384 devices" meshlo run sum.hlo --mesh x=16384 --shard p0=x --seed 1 --compare eval --json
json "j['equal'] and j['num_devices'] == 16384" "a sum over 16,384 devices: equal"
exits 0 "a reversal over 16,384 devices" meshlo run reverse.hlo --mesh x=16384 --shard p0=x --shard r0=x --seed 1 --compare eval --json
json "j['equal']" "a reversal over 16,384 devices: equal"

# ring N STEP: each device sends its element to the one STEP further on, and all but the first send what they received once
# more: the messages of a chain arrive in an order that no order of devices matches.
ring() {
    python3 - "$1" "$2" <<'PY'
import sys
n, step = int(sys.argv[1]), int(sys.argv[2])
pairs = "{" + ",".join("{%d,%d}" % (i, (i + step) % n) for i in range(n)) + "}"
route = "frontend_attributes={_xla_send_recv_source_target_pairs=%s}" % pairs
print(f"""HloModule ring, num_partitions={n}
ENTRY e {{
  p = f32[1] parameter(0)
  t = token[] after-all()
  s = (f32[1], u32[], token[]) send(p, t), channel_id=1, {route}
  d = token[] send-done(s), channel_id=1
  v = (f32[1], u32[], token[]) recv(t), channel_id=1, {route}
  w = (f32[1], token[]) recv-done(v), channel_id=1
  x = f32[1] get-tuple-element(w), index=0
  second = (f32[1], u32[], token[]) send(x, t), channel_id=2, {route}
  sent = token[] send-done(second), channel_id=2
  begun = (f32[1], u32[], token[]) recv(t), channel_id=2, {route}
  came = (f32[1], token[]) recv-done(begun), channel_id=2
  ROOT y = f32[1] get-tuple-element(came), index=0
}}""")
PY
}
# turned STEP: the results are the inputs, two steps on.
turned() {
    python3 - "$1" <<'PY'
import sys
read = lambda path: open(path, "rb").read()[128:]
values, out, step = read("ring.npy"), read("results/0.npy"), 4 * 2 * int(sys.argv[1])
sys.exit(not (out and out == values[-step % len(values):] + values[:-step % len(values)]))
PY
}
python3 - <<'PY'
import struct
head = b"{'descr': '<f4', 'fortran_order': False, 'shape': (8192, 1), }".ljust(117) + b"\n"
open("ring.npy", "wb").write(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head + struct.pack("<8192f", *range(8192)))
PY
for step in 1 -1; do
    ring 8192 $step >ring.hlo
    exits 0 "8,192 devices in a ring, $step" meshlo run ring.hlo --partitioned --per-device --input p0=ring.npy --output results
    check "8,192 devices in a ring, $step: two steps on" turned $step
done

# A chain in which each device waits for its neighbour, and the first for the last: seen before the run, and named.
cat >chain.py <<'PY'
n = 4096
pairs = "{" + ",".join("{%d,%d}" % (i, (i - 1) % n) for i in range(n)) + "}"
route = "frontend_attributes={_xla_send_recv_source_target_pairs=%s}" % pairs
print(f"""HloModule chain, num_partitions={n}
ENTRY e {{
  p = f32[1] parameter(0)
  t = token[] after-all()
  v = (f32[1], u32[], token[]) recv(t), channel_id=1, {route}
  w = (f32[1], token[]) recv-done(v), channel_id=1
  x = f32[1] get-tuple-element(w), index=0
  u = token[] get-tuple-element(w), index=1
  s = (f32[1], u32[], token[]) send(x, u), channel_id=1, {route}
  ROOT d = token[] send-done(s), channel_id=1
}}""")
PY
python3 chain.py >chain.hlo
exits 6 "a chain that is closed" meshlo run chain.hlo --partitioned --per-device
says err "device 0 would wait forever at recv-done" "a chain that is closed: named"
