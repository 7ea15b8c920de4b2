# SPDX-License-Identifier: Apache-2.0
# Slices, devices, meshes. Golden values: JAX-101 "Parallel Evaluation in JAX" and the JAX tutorial "Distributed arrays and
# automatic parallelization".
exits 0 "devices v2-8" meshlo devices v2-8
says out "TpuDevice(id=0, process_index=0, coords=(0,0,0), core_on_chip=0)" "devices v2-8: as JAX prints them"
exits 0 "devices json" meshlo devices v2-8 --json
json "[d['id'] for d in j] == list(range(8))" "devices json: ids"
json "j[3] == {'id': 3, 'process_index': 0, 'coords': [1, 0, 0], 'core_on_chip': 1, 'slice_index': 0, 'device_kind': 'TPU v2'}" "devices json: one device"
exits 0 "devices from the environment" env MESHLO_TOPOLOGY=v2-8 "$MESHLO" devices
exits 2 "no topology" meshlo devices
exits 0 "two slices" meshlo devices 2xv5e-16 --json
json "len(j) == 32 and j[-1]['slice_index'] == 1" "two slices: devices"
exits 0 "mesh order" meshlo topology v2-8 --mesh 4,2
check "mesh order: ids" grep -qx "0 1 2 3 6 7 4 5" out
exits 0 "mesh order, named axes" meshlo topology v2-8 --mesh x=4,y=2 --json
json "j['ids'] == [0, 1, 2, 3, 6, 7, 4, 5] and j['mesh'] == [4, 2]" "mesh order, named axes: ids"
exits 0 "topology" meshlo topology v5e:4x4
says out "4x4" "topology: shape"
says out "chip: 197 bf16 TFLOP/s, 820 GB/s of HBM, 16.0 GiB a device, links of 50 GB/s each way" "topology: the chip"
check "topology: one title" test "$(grep -c "TPU v5 lite" out)" = 1
exits 1 "a mesh that JAX refuses" meshlo topology v4:4x4x4 --mesh 2,32
exits 0 "a mesh that JAX splits" meshlo topology v4:4x4x4 --mesh 2,32 --split
exits 2 "unknown slice" meshlo topology v5x-16
says err "v5" "unknown slice: near matches"
exits 2 "mesh that does not fit" meshlo topology v2-8 --mesh 4,4
exits 2 "mesh without sense" meshlo topology v2-8 --mesh x=4,x=2
says err "twice" "mesh without sense: why"
exits 2 "mesh of no numbers" meshlo topology v2-8 --mesh x=four
exits 2 "mesh beyond everything" meshlo topology v2-8 --mesh 1000000,1000000,1000000
exits 0 "drawing" meshlo topology v5e:4x4 --svg slice.svg
check "drawing: is XML" python3 -c "import xml.dom.minidom as m; m.parse('slice.svg')"
exits 0 "hwloc topology" meshlo topology v5e:4x4 --hwloc slice.xml
check "hwloc topology: chips" grep -q TPUChip slice.xml
exits 4 "hwloc topology of a pod" meshlo topology v4-4096 --hwloc pod.xml
exits 1 "one mesh over two slices" meshlo topology 2xv5e-16 --mesh 32
exits 2 "drawing that cannot be written" meshlo topology v5e:4x4 --svg /nonexistent/slice.svg
exits 2 "missing XML file" meshlo topology ./missing.xml
echo "<pod" >broken.xml
exits 3 "broken XML file" meshlo topology ./broken.xml
echo '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><pod>&x;</pod>' >entity.xml
exits 3 "XML with entities" meshlo topology ./entity.xml
# boxes SPEC: the drawing of an 8192x8192 array on v2-8 under SPEC is that of the tutorial, on standard input.
boxes() {
    exits 0 "boxes of $1" meshlo shardings --mesh a=4,b=2 --shape 8192,8192 --spec "$1" --on v2-8
    cat >expected
    check "boxes of $1: as the tutorial draws them" diff <(head -n -1 out) expected
}
boxes a,b <<'BOX'
┌──────────┬──────────┐
│  TPU 0   │  TPU 1   │
├──────────┼──────────┤
│  TPU 2   │  TPU 3   │
├──────────┼──────────┤
│  TPU 6   │  TPU 7   │
├──────────┼──────────┤
│  TPU 4   │  TPU 5   │
└──────────┴──────────┘
BOX
boxes a,- <<'BOX'
┌───────────────────────┐
│        TPU 0,1        │
├───────────────────────┤
│        TPU 2,3        │
├───────────────────────┤
│        TPU 6,7        │
├───────────────────────┤
│        TPU 4,5        │
└───────────────────────┘
BOX
exits 2 "boxes: no mesh" meshlo shardings --shape 8 --spec a
exits 2 "boxes: no shape" meshlo shardings --mesh a=4 --spec a
exits 2 "boxes: unknown axis" meshlo shardings --mesh a=4 --shape 8 --spec b
# in_words WORDS ARGUMENT…: what the lines below the drawing say.
in_words() {
    local words=$1
    shift
    exits 0 "parts in words: $words" meshlo shardings "$@"
    check "parts in words: $words: said" grep -qxF "$words" out
}
in_words "A device holds [2048,4096], one of 8 parts of [8192,8192]." --mesh a=4,b=2 --shape 8192,8192 --spec a,b
in_words "A device holds bf16[2048,8192], one of 4 parts of bf16[8192,8192]: 32.0 MiB. Each part is on 2 devices." \
    --mesh a=4,b=2 --shape 'bf16[8192,8192]' --spec a,- --on v2-8
in_words "A device holds all of [8]." --mesh a=4 --shape 8 --spec -
in_words "A device holds s8[2,8,8], one of 4 parts of s8[8,8,8]: 128 B." --mesh a=4 --shape 's8[8,8,8]' --spec a,-,-
check "parts in words: three dimensions have no drawing" test "$(wc -l <out)" = 1
in_words "Dimension 0 is uneven: 13 elements in 4 parts are 3 of 4 and 1 of 1. Less: device 3." --mesh a=4 --shape 13 --spec a
in_words "Dimension 1 is uneven: 9 elements in 8 parts are 4 of 2, 1 of 1 and 3 that are empty. Less: devices 4,5,6,7." \
    --mesh a=8 --shape 4,9 --spec -,a
in_words "Dimension 0 is uneven: 3 elements in 4 parts are 3 of 1 and 1 that is empty. Less: device 3." --mesh a=4 --shape 3 --spec a
exits 2 "boxes: a shape that is none" meshlo shardings --mesh a=4 --shape 'f33[8]' --spec a
exits 2 "boxes: a tuple" meshlo shardings --mesh a=4 --shape '(f32[8])' --spec a
exits 2 "boxes: wrong rank" meshlo shardings --mesh a=4 --shape 8 --spec a,-
