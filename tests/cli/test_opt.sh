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
