# SPDX-License-Identifier: Apache-2.0
# Partitioning, its reports, and the messages about meshes and shardings that make no sense.
small=$SOURCE/examples/mlp_gradient_512.hlo
large=$SOURCE/examples/mlp_gradient_8192.hlo
exits 0 "partition" meshlo partition "$small" -o part.hlo
check "partition: local batch" grep -q "f32\[128,784\]" part.hlo
check "partition: marked" grep -q "num_partitions=8" part.hlo
exits 0 "partitioned text is a program" meshlo convert part.hlo
exits 0 "partition json" meshlo partition "$small" --json
json "j['num_partitions'] == 8 and j['collectives'] and j['seconds'] < 5" "partition json: head"
json "all(set(('name','opcode','bytes_per_device','group_size','num_groups','trip_count','reason','source')) <= set(c) for c in j['collectives'])" "partition json: keys"
json "j['total_bytes_per_device'] == sum(c['bytes_per_device'] * max(c['trip_count'], 1) for c in j['collectives'])" "partition json: total"
json "any('mlp_gradient.py' in c['source'] for c in j['collectives'])" "partition json: source lines"
exits 0 "explain" meshlo explain "$large"
says out "all-reduce" "explain: a collective"
says out "mlp_gradient.py" "explain: a source line"
exits 0 "explain to a file" meshlo explain "$large" -o reasons.txt
check "explain to a file: the table" grep -q "all-reduce" reasons.txt
exits 0 "explain to a file as JSON" meshlo explain "$large" --json -o reasons.json
check "explain to a file as JSON: is it" python3 -c "import json; assert json.load(open('reasons.json'))['collectives']"
exits 2 "explain to a folder that does not exist" meshlo explain "$large" -o /nonexistent/reasons.txt

# Loops in loops may run more often than a number here can say: the count ends at the greatest, and wraps to nothing else.
{
    cat <<'HLO'
HloModule nest, num_partitions=4
add { x = f32[] parameter(0)
 y = f32[] parameter(1)
 ROOT z = f32[] add(x, y) }
less { s = (s32[], f32[8]) parameter(0)
 i = s32[] get-tuple-element(s), index=0
 n = s32[] constant(2000000000)
 ROOT c = pred[] compare(i, n), direction=LT }
HLO
    for depth in 0 1 2; do
        printf '%s\n' "b$depth { s = (s32[], f32[8]) parameter(0)" " i = s32[] get-tuple-element(s), index=0" \
            " x = f32[8] get-tuple-element(s), index=1" " one = s32[] constant(1)" " j = s32[] add(i, one)"
        if [ $depth = 0 ]; then
            echo " y = f32[8] all-reduce(x), channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=add"
        else
            printf '%s\n' " k = s32[] constant(0)" " u = (s32[], f32[8]) tuple(k, x)" \
                " w = (s32[], f32[8]) while(u), condition=less, body=b$((depth - 1))" \
                " y = f32[8] get-tuple-element(w), index=1"
        fi
        echo " ROOT t = (s32[], f32[8]) tuple(j, y) }"
    done
    cat <<'HLO'
ENTRY e { x = f32[8] parameter(0)
 k = s32[] constant(0)
 u = (s32[], f32[8]) tuple(k, x)
 w = (s32[], f32[8]) while(u), condition=less, body=b2
 ROOT y = f32[8] get-tuple-element(w), index=1 }
HLO
} >nest.hlo
exits 0 "bug: immense counts" meshlo explain --partitioned nest.hlo --json
json "j['collectives'][0]['trip_count'] == 2**63 - 1 == j['total_bytes_per_device']" "bug: immense counts: the greatest"
exits 0 "propagate only" meshlo partition "$small" --propagate-only
says out "sharding={" "propagate only: shardings"

cat >dot.hlo <<'HLO'
HloModule dot
ENTRY main {
  x = f32[8,16] parameter(0)
  w = f32[16,4] parameter(1)
  ROOT y = f32[8,4] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
HLO
exits 0 "a mesh on the command line" meshlo partition dot.hlo --mesh a=4,b=2 --shard p0=a,b --shard p1=b,- --json
json "j['num_partitions'] == 8 and [c['opcode'] for c in j['collectives']] == ['all-reduce']" "a mesh on the command line: one all-reduce"
json "j['collectives'][0]['group_size'] == 2 and j['collectives'][0]['num_groups'] == 4" "a mesh on the command line: its groups"
json "j['collectives'][0]['bytes_per_device'] == 2 * 4 * 4" "a mesh on the command line: ring bytes"
exits 0 "without communication" meshlo partition dot.hlo --mesh a=4 --shard p0=a,- --json
json "j['collectives'] == [] and j['total_bytes_per_device'] == 0" "without communication: none"
exits 0 "uneven" meshlo partition dot.hlo --mesh a=3 --shard p0=a,-
exits 2 "mesh and count disagree" meshlo partition dot.hlo --mesh a=4 --num-partitions 6
exits 2 "no partitions" meshlo partition dot.hlo --num-partitions 0
exits 2 "unknown axis" meshlo partition dot.hlo --mesh batch=4 --shard p0=bach,-
says err "batch" "unknown axis: near match"
exits 2 "axis twice" meshlo partition dot.hlo --mesh a=4 --shard p0=a,a
exits 2 "wrong rank" meshlo partition dot.hlo --mesh a=4 --shard p0=a,-,-
exits 2 "unknown parameter" meshlo partition dot.hlo --mesh a=4 --shard p7=a,-
exits 2 "too few devices" meshlo partition "$small" --on v2-8 --mesh a=16
sed 's/parameter(0)/parameter(0), sharding={devices=[3,1]<=[3]}/' dot.hlo >three.hlo
exits 2 "sharding for another number of devices" meshlo partition three.hlo --mesh a=4
exits 0 "check" meshlo check dot.hlo --mesh a=4,b=2 --shard p0=a,b --shard p1=b,- --forbid all-gather --max-bytes 1KiB
exits 1 "check: forbidden" meshlo check dot.hlo --mesh a=4,b=2 --shard p0=a,b --shard p1=b,- --forbid all-gather,all-reduce
says err "all-reduce" "check: forbidden: named"
# A gather of two weights: one collective, two reasons.
cat >gathered.hlo <<'HLO'
HloModule gathered, num_partitions=4, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["data"=4]>}}
ENTRY main {
  x = f32[512,64] parameter(0), sharding={devices=[4,1]<=[4]}
  v = f32[64,64] parameter(1), sharding={devices=[4,1]<=[4]}
  w = f32[64,32] parameter(2), sharding={devices=[4,1]<=[4]}
  p = f32[512,64] dot(x, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={devices=[4,1]<=[4]}
  q = f32[512,32] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={devices=[4,1]<=[4]}
  ROOT t = (f32[512,64], f32[512,32]) tuple(p, q), sharding={{devices=[4,1]<=[4]}, {devices=[4,1]<=[4]}}
}
HLO
exits 1 "bug: the reasons of a combined collective were one sentence" meshlo check gathered.hlo --forbid all-gather
says err "    operand 1 of dot p is P('data', None), needed as P(None, None)" "bug: the reasons of a combined collective were one sentence: a line for the first, in JAX's words"
says err "    operand 1 of dot q is P('data', None), needed as P(None, None)" "bug: the reasons of a combined collective were one sentence: a line for the second"
exits 1 "check: too many bytes" meshlo check dot.hlo --mesh a=4,b=2 --shard p0=a,b --shard p1=b,- --max-bytes 8
meshlo partition dot.hlo --mesh a=4 --shard p0=a,- --json >baseline.json
exits 0 "check: baseline" meshlo check dot.hlo --mesh a=4 --shard p0=a,- --baseline baseline.json
exits 1 "check: above the baseline" meshlo check dot.hlo --mesh a=4,b=2 --shard p0=a,b --shard p1=b,- --baseline baseline.json
exits 2 "check: no rule" meshlo check dot.hlo
exits 2 "check: no collective" meshlo check dot.hlo --forbid all-gathr
says err "did you mean all-gather" "check: no collective: near match"
exits 2 "check: no number" meshlo check dot.hlo --max-bytes 3QiB
echo '{"collectives": 1}' >wrong.json
exits 3 "check: no report" meshlo check dot.hlo --baseline wrong.json
echo '{' >broken.json
exits 3 "check: broken JSON" meshlo check dot.hlo --baseline broken.json

# Each level calls the one below twice: it was walked through once for every way to come there.
{
    echo "HloModule deep, num_partitions=2"
    echo "add { a = f32[] parameter(0)"
    echo " b = f32[] parameter(1)"
    echo " ROOT s = f32[] add(a, b) }"
    echo "level0 { x = f32[8] parameter(0)"
    echo " ROOT y = f32[8] all-reduce(x), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true, to_apply=add }"
    for level in $(seq 1 40); do
        echo "level$level { x = f32[8] parameter(0)"
        echo " y = f32[8] call(x), to_apply=level$((level - 1))"
        echo " ROOT z = f32[8] call(y), to_apply=level$((level - 1)) }"
    done
    echo "ENTRY e { p = f32[8] parameter(0)"
    echo " ROOT r = f32[8] call(p), to_apply=level40 }"
} > deep.hlo
exits 0 "bug: calls of calls" meshlo partition deep.hlo --partitioned --json
json "len(j['collectives']) == 1 and j['collectives'][0]['trip_count'] == 2**40" "bug: calls of calls: counted"

# Einsums as TPU compilers write them, as convolutions, and gathers of known rows: their dimensions are seen for what
# they are before the program is partitioned.
known() { # known NAME SENT LINE…: the program of these lines on 8 devices sends SENT bytes, and computes the same
    local name=$1 sent=$2
    shift 2
    { printf '%s\n' "HloModule m, num_partitions=8" "ENTRY e {"; printf '  %s\n' "$@"; echo "}"; } >known.hlo
    exits 0 "partition: $name: explain" meshlo explain known.hlo --json
    json "j['total_bytes_per_device'] == $sent" "partition: $name: $sent bytes sent"
    exits 0 "partition: $name: same results" meshlo run known.hlo --on cpu:8 --compare eval
}
rows='sharding={devices=[8,1,1]<=[8]}' middle='sharding={devices=[1,8,1]<=[8]}' halves='sharding={devices=[8,1]<=[8]}'
known "products of a batch as a convolution" 0 "a = f32[8,16,32] parameter(0), $rows" "b = f32[8,32,16] parameter(1), $rows" \
    "ROOT r = f32[8,16,16] convolution(a, b), window={size=8 stride=7 lhs_dilate=8}, dim_labels=0bf_0io->0bf, $rows"
known "columns of a product as a convolution" 0 "a = f32[16,1,32] parameter(0)" "b = f32[8,32,24] parameter(1), $rows" \
    "ROOT r = f32[16,8,24] convolution(a, b), window={size=8 pad=7_7 rhs_reversal=1}, dim_labels=b0f_0io->b0f, $middle"
known "a gather of all rows" 0 "a = f32[64,32] parameter(0), $halves" "k = s32[64] iota(), iota_dimension=0" "i = s32[64,1] reshape(k)" \
    "ROOT r = f32[64,32] gather(a, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,32}, $halves"
# A text may leave out the values of a constant: they must not be read.
cat >unknown.hlo <<'HLO'
HloModule m
set { a = f32[] parameter(0)
  ROOT b = f32[] parameter(1) }
ENTRY e {
  x = f32[64,8] parameter(0), sharding={devices=[4,1]<=[4]}
  u = f32[40,8] parameter(1)
  i = s32[2] constant({...})
  ROOT s = f32[64,8] scatter(x, i, u), update_window_dims={0,1}, inserted_window_dims={}, scatter_dims_to_operand_dims={0,1}, index_vector_dim=0, to_apply=set
}
HLO
exits 0 "bug: constants that are left out" meshlo partition unknown.hlo
# A parameter of a loop may be called like a number of the program's parameters.
cat >named.hlo <<'HLO'
HloModule m
cond { p = (s32[], f32[8,8]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(3)
  ROOT l = pred[] compare(i, n), direction=LT }
body { p0 = (s32[], f32[8,8]) parameter(0)
  i = s32[] get-tuple-element(p0), index=0
  v = f32[8,8] get-tuple-element(p0), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  w = f32[8,8] sine(v)
  ROOT t = (s32[], f32[8,8]) tuple(j, w) }
ENTRY e { x = f32[8,8] parameter(0)
  z = s32[] constant(0)
  s = (s32[], f32[8,8]) tuple(z, x)
  l = (s32[], f32[8,8]) while(s), condition=cond, body=body
  ROOT r = f32[8,8] get-tuple-element(l), index=1 }
HLO
exits 0 "bug: p0 of a loop" meshlo partition named.hlo --mesh a=4 --shard p0=a,-
says out "(f32[2,8]{1,0})->f32[2,8]" "bug: p0 of a loop: the program's parameter is sharded"

# x[arange(n), i]: rows are looked up where they are, whether the batch divides evenly or not, over one axis or two.
for case in "16 8 " "14 8 " "16 4 ,2"; do
    read -r rows shards rest <<<"$case"
    replicate=${rest:+ last_tile_dim_replicate}
    cat > counted.hlo <<HLO
HloModule counted, num_partitions=8
ENTRY e {
 x = f32[$rows,10] parameter(0), sharding={devices=[$shards,1$rest]<=[8]$replicate}
 i = s32[$rows,1] parameter(1), sharding={devices=[$shards,1$rest]<=[8]$replicate}
 k = s32[$rows,1] iota(), iota_dimension=0
 j = s32[$rows,2] concatenate(k, i), dimensions={1}
 ROOT r = f32[$rows] gather(x, j), offset_dims={}, collapsed_slice_dims={0,1}, start_index_map={0,1}, index_vector_dim=1, slice_sizes={1,1}, sharding={devices=[$shards$rest]<=[8]$replicate}
}
HLO
    exits 0 "counted rows: $rows over $shards" meshlo explain counted.hlo --json
    json "j['total_bytes_per_device'] == 0" "counted rows: $rows over $shards send nothing"
done
