# SPDX-License-Identifier: Apache-2.0
# Passes by name, dumps in XLA's naming.
cat >twice.hlo <<'HLO'
HloModule twice
ENTRY main {
  x = f32[4] parameter(0)
  unused = f32[4] negate(x)
  a = f32[4] multiply(x, x)
  b = f32[4] multiply(x, x)
  ROOT s = f32[4] add(a, b)
}
HLO
exits 0 "opt" meshlo opt twice.hlo --passes cse,dce -o once.hlo
check "opt: one product is left" bash -c '[ "$(grep -c multiply once.hlo)" = 1 ] && ! grep -q negate once.hlo'
exits 0 "opt: default passes" meshlo opt twice.hlo
exits 0 "opt: list" meshlo opt --list-passes
says out "dce" "opt: list: a pass"
exits 2 "opt: unknown pass" meshlo opt twice.hlo --passes dcee
says err "did you mean dce" "opt: unknown pass: near match"
exits 2 "opt: no file" meshlo opt
exits 0 "opt: dumps" meshlo opt twice.hlo --passes cse,dce --dump-to dumps --dump-pass-re '.*' -o /dev/null
check "opt: dumps: names" bash -c 'ls dumps | grep -q "^module_0000.twice.*dce"'
exits 0 "optimised == unoptimised" meshlo opt "$SOURCE/examples/mlp_gradient_512.hlo" -o step.hlo
exits 0 "optimised == unoptimised: runs" meshlo run step.hlo --on v2-8 --compare eval --output optimised
exits 0 "optimised == unoptimised: the other" meshlo run "$SOURCE/examples/mlp_gradient_512.hlo" --on v2-8 --output plain
check "optimised == unoptimised: same loss" cmp optimised/0.npy plain/0.npy
exits 2 "opt: bad expression" meshlo opt twice.hlo --dump-to dumps --dump-pass-re '('
# Every pass and pipeline by its name, alone, on a program with something for most of them: the results stay.
cat >many.hlo <<'HLO'
HloModule many
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT
}
go {
  s = (s32[], f32[4,8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT
}
next {
  s = (s32[], f32[4,8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  v = f32[4,8] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  w = f32[4,8] tanh(v)
  ROOT t = (s32[], f32[4,8]) tuple(j, w)
}
twice {
  p = f32[4] parameter(0)
  ROOT r = f32[4] add(p, p)
}
ENTRY main {
  x = f32[4,8] parameter(0)
  w = f32[8,8] parameter(1)
  z = f32[] constant(0)
  y = f32[4,8] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  o = s32[] constant(0)
  s = (s32[], f32[4,8]) tuple(o, y)
  l = (s32[], f32[4,8]) while(s), condition=go, body=next
  v = f32[4,8] get-tuple-element(l), index=1
  r = f32[4] reduce(v, z), dimensions={1}, to_apply=add
  q = f32[4] sort(r), dimensions={0}, to_apply=less
  c = f32[4] call(q), to_apply=twice
  g = f32[8] constant({1, 2, 3, 4, 5, 6, 7, 8})
  bn = (f32[4,8], f32[8], f32[8]) batch-norm-training(v, g, g), epsilon=0.001, feature_index=1
  n = f32[4,8] get-tuple-element(bn), index=0
  t = f32[8,4] transpose(n), dimensions={1,0}
  u = f32[32] reshape(t)
  h = f32[8] slice(u), slice={[0:32:4]}
  k = f32[10] pad(h, z), padding=1_1
  m = f32[10] clamp(z, k, k)
  ROOT out = (f32[4], f32[8,4], f32[10]) tuple(c, t, m)
}
HLO
exits 0 "passes by name: plain" meshlo run many.hlo --output plain_many
names=$("$MESHLO" opt --list-passes | awk 'NF && $1 != "Pipelines:" { print $1 }')
check "passes by name: there are many" test "$(echo "$names" | wc -l)" -ge 30
for name in $names; do
    exits 0 "pass $name" meshlo opt many.hlo --passes "$name" -o after.hlo
    exits 0 "pass $name: its output is a program" meshlo run after.hlo --output after_many --compare eval
    check "pass $name: same results" python3 - <<'PY'
import glob, os, struct
def numbers(path):
    data = open(path, "rb").read()
    start = 10 + struct.unpack("<H", data[8:10])[0]
    return struct.unpack("<%df" % ((len(data) - start) // 4), data[start:])
files = sorted(os.path.basename(p) for p in glob.glob("plain_many/*.npy"))
assert files == sorted(os.path.basename(p) for p in glob.glob("after_many/*.npy")) and len(files) == 3, files
for name in files:
    for a, b in zip(numbers("plain_many/" + name), numbers("after_many/" + name), strict=True):
        assert abs(a - b) <= 1e-5 * max(1, abs(a)), (name, a, b)
PY
done
# The output can be read again: constants are whole, where XLA's to_string() leaves out those of more than ten elements.
cat >constants.hlo <<'HLO'
HloModule constants
ENTRY main {
  x = f32[12] parameter(0)
  c = f32[12] constant({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})
  t = (f32[2], s32[]) constant(({1, 2}, 3))
  ROOT r = f32[12] multiply(x, c)
}
HLO
exits 0 "bug: opt lost constants" meshlo opt constants.hlo --passes cse -o optimised.hlo
exits 0 "bug: partition lost constants" meshlo partition constants.hlo --mesh a=2 --shard p0=a -o partitioned.hlo
exits 0 "bug: partition lost constants: propagated" meshlo partition constants.hlo --mesh a=2 --shard p0=a --propagate-only -o propagated.hlo
check "bug: constants are in full" bash -c '! grep -F "{...}" optimised.hlo partitioned.hlo propagated.hlo'
exits 0 "bug: opt lost constants: the program" meshlo run constants.hlo --output whole
exits 0 "bug: opt lost constants: runs" meshlo run optimised.hlo --output optimised
exits 0 "bug: partition lost constants: runs" meshlo run partitioned.hlo --on cpu:2 --output partitioned
check "bug: opt lost constants: the same numbers" cmp whole/0.npy optimised/0.npy
check "bug: partition lost constants: the same numbers" cmp whole/0.npy partitioned/0.npy
exits 0 "bug: convert left constants out" meshlo convert constants.hlo -o converted.hlo
exits 0 "bug: convert left constants out: runs" meshlo run converted.hlo --output converted
check "bug: convert left constants out: the same numbers" cmp whole/0.npy converted/0.npy
for form in long short canonical; do
    exits 0 "convert: constants whole: $form" meshlo convert constants.hlo --print $form
    says out "constant({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})" "convert: constants whole: $form"
done
exits 0 "convert: --large-constants is the default" meshlo convert constants.hlo --large-constants
check "convert: --large-constants is the default" cmp out converted.hlo
exits 0 "convert: as XLA prints" meshlo convert constants.hlo --elide-constants
says out "f32[12]{0} constant({...})" "convert: as XLA prints"
exits 2 "convert: whole and short" meshlo convert constants.hlo --elide-constants --large-constants
exits 2 "convert: short constants of stablehlo" meshlo convert constants.hlo --to stablehlo --elide-constants
exits 2 "convert: constants of a proto" meshlo convert constants.hlo --to proto --large-constants -o /dev/null
