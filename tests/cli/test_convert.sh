# SPDX-License-Identifier: Apache-2.0
# Reading and writing programs, and the messages about bad ones.
small=$SOURCE/examples/mlp_gradient_512.hlo
exits 0 "convert" meshlo convert "$small" -o long.hlo
exits 0 "convert again" meshlo convert long.hlo -o again.hlo
check "print of parse is the text" cmp long.hlo again.hlo
for form in short canonical long; do
    exits 0 "convert $form" meshlo convert "$small" --print $form
    says out "HloModule" "convert $form: a module"
done
exits 0 "dot drawing" meshlo convert "$small" --to dot
says out "digraph" "dot drawing: a graph"
exits 0 "standard input" bash -c '"$MESHLO" convert - <"$0" >out.hlo' "$small"
check "standard input: same text" cmp long.hlo out.hlo
xz -k -c "$small" >small.hlo.xz
gzip -c "$small" >small.hlo.gz
for packed in xz gz; do
    exits 0 "compressed $packed" meshlo convert small.hlo.$packed -o unpacked.hlo
    check "compressed $packed: same text" cmp long.hlo unpacked.hlo
done
head -c 900 small.hlo.xz >cut.hlo.xz
exits 3 "cut xz" meshlo convert cut.hlo.xz
exits 2 "missing file" meshlo convert missing.hlo
says err "No such file" "missing file: why"
exits 2 "a folder" meshlo convert /tmp
exits 2 "unknown format" meshlo convert "$small" --to stablehl
says err "did you mean stablehlo" "unknown format: near match"
exits 2 "unwritable output" meshlo convert "$small" -o /nonexistent/out.hlo
echo old >kept.hlo
ln -s /dev/full full.hlo
exits 6 "full disk" meshlo convert "$small" -o full.hlo
exits 3 "parse error keeps the old output" meshlo convert cut.hlo.xz -o kept.hlo
check "the old output is still there" grep -qx old kept.hlo
check "nothing temporary is left" bash -c '! ls | grep -q "\.tmp-"'

# bad NAME EXIT TEXT…: the program TEXT is refused with this exit code, a place and a caret.
bad() {
    local name=$1 code=$2
    shift 2
    printf '%s\n' "$@" >bad.hlo
    exits "$code" "$name" meshlo convert bad.hlo
}

bad "empty program" 3 ""
bad "no program" 3 "hello, world"
bad "unknown op" 3 "HloModule m" "ENTRY e {" "  p = f32[2] parameter(0)" "  ROOT r = f32[2] frobnicate(p)" "}"
says err "bad.hlo:4:" "unknown op: place"
check "unknown op: caret" grep -qE '^ *\^' err
bad "unknown operand" 3 "HloModule m" "ENTRY e {" "  ROOT r = f32[2] negate(q)" "}"
says err "bad.hlo:3:" "unknown operand: place"
bad "unknown type" 3 "HloModule m" "ENTRY e {" "  ROOT p = f33[2] parameter(0)" "}"
bad "no closing brace" 3 "HloModule m" "ENTRY e {" "  ROOT p = f32[2] parameter(0)"
bad "shapes that disagree" 3 "HloModule m" "ENTRY e {" "  p = f32[2] parameter(0)" "  q = f32[3] parameter(1)" \
    "  ROOT r = f32[2] add(p, q)" "}"
bad "wrong result shape" 3 "HloModule m" "ENTRY e {" "  p = f32[2,3] parameter(0)" \
    "  ROOT r = f32[2,3] transpose(p), dimensions={1,0}" "}"
bad "overflowing dimensions" 3 "HloModule m" "ENTRY e {" \
    "  ROOT p = f32[4000000000,4000000000,4000000000] parameter(0)" "}"
bad "a dimension beyond 64 bits" 3 "HloModule m" "ENTRY e {" "  ROOT p = f32[99999999999999999999] parameter(0)" "}"
bad "a constant of too many numbers" 3 "HloModule m" "ENTRY e {" "  ROOT c = f32[2] constant({1, 2, 3})" "}"
bad "a huge constant without values" 3 "HloModule m" "ENTRY e {" "  ROOT c = f32[1000000000000] constant({1})" "}"
bad "a wrong attribute" 3 "HloModule m" "ENTRY e {" "  p = f32[2] parameter(0)" \
    "  ROOT r = f32[2] negate(p), dimensions={0}" "}"
bad "a broken sharding" 3 "HloModule m" "ENTRY e {" "  ROOT p = f32[2] parameter(0), sharding={devices=[2}" "}"
bad "parameter numbers with a hole" 3 "HloModule m" "ENTRY e {" "  ROOT p = f32[2] parameter(1)" "}"
bad "a name twice" 3 "HloModule m" "ENTRY e {" "  p = f32[2] parameter(0)" "  ROOT p = f32[2] negate(p)" "}"
bad "a token that is none, where a name should be" 3 "HloModule m" "%2 {" "  p = f32[] parameter(0)" "}"
bad "an unterminated string, where a name should be" 3 "HloModule m" "ENTRY \"x {" "  p = f32[] parameter(0)" "}"
printf 'ML\xefR\x0dStableHLO' >bytecode.mlir
exits 3 "cut bytecode" meshlo convert bytecode.mlir
echo 'module @m { func.func public @main() { return } }' >text.mlir
exits 0 "StableHLO text" meshlo convert text.mlir
says out "ENTRY %main" "StableHLO text: a module"
# An empty line is the tag of a protobuf's name, whose length the next letter would be.
printf '\nfunc.func @main(%%a: tensor<2xf32>) -> tensor<2xf32> { %%0 = stablehlo.abs %%a : tensor<2xf32> return %%0 : tensor<2xf32> }\n' >blank.mlir
exits 0 "StableHLO text after an empty line" meshlo convert blank.mlir
xz -k -c text.mlir >text.mlir.xz
exits 0 "compressed StableHLO text" meshlo convert text.mlir.xz
exits 0 "to StableHLO text" meshlo convert "$small" --to stablehlo -o small.mlir
exits 0 "from StableHLO text" meshlo convert small.mlir --to stablehlo --print short -o again.mlir
exits 0 "to StableHLO bytecode" meshlo convert "$small" --to bytecode --release 1.13.0 -o small.bc
exits 0 "to generic StableHLO text" meshlo convert small.mlir --to stablehlo --generic --print short -o generic.mlir
check "generic form: functions in quotes" grep -q "\"func.func\"() <{" generic.mlir
exits 0 "from generic StableHLO text" meshlo convert generic.mlir --to stablehlo --print short -o from_generic.mlir
check "generic form: the same program" cmp again.mlir from_generic.mlir
exits 0 "from StableHLO bytecode" meshlo convert small.bc --to stablehlo --print short -o from.mlir
check "text and bytecode: the same program" cmp again.mlir from.mlir
exits 2 "unknown release" meshlo convert "$small" --to bytecode --release 0.1.0
echo 'func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> { return %b : tensor<2xf32> }' >bad.mlir
exits 3 "bad StableHLO text" meshlo convert bad.mlir
says err "bad.mlir:1:62: error: %b is not defined here" "bad StableHLO text: place"
echo 'func.func @main(%a: tensor<2x!quant.uniform<i8:f32, 1.0>>) { return }' >quantized.mlir
exits 4 "quantized types" meshlo convert quantized.mlir
exits 0 "to protobuf" meshlo convert "$small" --to proto -o module.pb
exits 0 "from protobuf" meshlo convert module.pb -o from.hlo
check "from protobuf: same program" bash -c 'diff <(sed 1d long.hlo) <(sed 1d from.hlo)'
printf 'HloModule m, replica_count=2, num_partitions=4\n\nENTRY e {\n  ROOT p = f32[2] parameter(0)\n}\n' >counts.hlo
exits 0 "to protobuf with its configuration" meshlo convert counts.hlo --to proto --config -o counts.pb
exits 0 "from protobuf with its configuration" meshlo convert counts.pb
says out "replica_count=2, num_partitions=4" "the configuration has the counts"
head -c 3000 module.pb >cut.pb
exits 3 "cut protobuf" meshlo convert cut.pb
head -c 100000 /dev/zero | tr '\0' '(' >deep.hlo
exits 3 "deep nesting" meshlo convert deep.hlo
head -c 4096 /dev/urandom >noise.bin
for i in 1 2 3 4 5; do
    head -c $((i * 700)) "$small" >truncated.hlo
    exits 3 "program cut at $((i * 700)) bytes" meshlo convert truncated.hlo
done
printf '#x = loc(unknown)\nfunc.func @main() {\n  return\n}\n' >alias.mlir
exits 0 "StableHLO text that begins with an alias" meshlo convert alias.mlir

# Sizes that StableHLO leaves open.
cat >open.mlir <<'MLIR'
module @open {
  func.func public @main(%arg0: tensor<?x3xf32>) -> tensor<?x3xf32> {
    %0 = stablehlo.add %arg0, %arg0 : tensor<?x3xf32>
    %n = stablehlo.get_dimension_size %arg0, dim = 0 : (tensor<?x3xf32>) -> tensor<i32>
    %f = stablehlo.convert %n : (tensor<i32>) -> tensor<f32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %s0 = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
    %three = stablehlo.constant dense<3> : tensor<1xi32>
    %s = stablehlo.concatenate %s0, %three, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %b = stablehlo.dynamic_broadcast_in_dim %f, %s, dims = [] : (tensor<f32>, tensor<2xi32>) -> tensor<?x3xf32>
    %1 = stablehlo.multiply %0, %b : tensor<?x3xf32>
    return %1 : tensor<?x3xf32>
  }
}
MLIR
exits 4 "open sizes" meshlo convert open.mlir
exits 0 "open sizes, given" meshlo convert open.mlir --sizes p0=4,3
says out "(f32[4,3]{1,0})->f32[4,3]{1,0}" "open sizes, given: shapes"
exits 0 "open sizes, run" meshlo run open.mlir --sizes 0=4,3 --mesh a=2 --shard p0=a,- --compare eval
exits 3 "open sizes that do not fit" meshlo convert open.mlir --sizes p0=4,4
says err "cannot have the size 4 along dimension 1" "open sizes that do not fit: which"
exits 2 "sizes of no argument" meshlo convert open.mlir --sizes x=4,3
exits 2 "sizes of an immense argument" meshlo convert open.mlir --sizes p70000=4
says err "argument number too large" "sizes of an immense argument: said"
exits 2 "sizes given twice" meshlo convert open.mlir --sizes p0=4,3 --sizes 0=4,3
exits 2 "sizes that are no numbers" meshlo convert open.mlir --sizes p0=4,b
exits 3 "sizes of too many arguments" meshlo convert open.mlir --sizes p1=4
exits 2 "sizes of HLO text" meshlo convert counts.hlo --sizes p0=2

# Bytes that are no text would change the settings of a terminal; texts go there.
check "text to a terminal" python3 "$SOURCE/tests/cli/terminal.py" "$MESHLO" convert "$SOURCE/examples/mlp_gradient_512.hlo"
exits 2 "bytecode to a terminal" bash -c 'python3 "$SOURCE/tests/cli/terminal.py" "$MESHLO" convert "$SOURCE/examples/mlp_gradient_512.hlo" --to bytecode 2>&1 | tee got >&2; exit ${PIPESTATUS[0]}'
says err "the output is binary" "bytecode to a terminal: why"
exits 2 "a protobuf to a terminal" bash -c 'python3 "$SOURCE/tests/cli/terminal.py" "$MESHLO" convert "$SOURCE/examples/mlp_gradient_512.hlo" --to proto >&2'
