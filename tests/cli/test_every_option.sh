# SPDX-License-Identifier: Apache-2.0
# Every option of every verb that takes a value, as --help lists them, with a value that means nothing: exit code 2, and a
# message that names the option (or, of an option that names a file, the file). And the page of the command says what the
# command says.
cat >dot.hlo <<'HLO'
HloModule dot
ENTRY main {
  x = f32[8,16] parameter(0)
  w = f32[16,4] parameter(1)
  ROOT y = f32[8,4] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
HLO
echo 'func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> { return %x : tensor<?xf32> }' >open.mlir
check "docs/cli.md is what the command says" python3 "$SOURCE/docs/make_cli.py" "$MESHLO" --check

# What else a call of a verb needs, so that nothing but the option is wrong.
declare -A rest=([convert]="dot.hlo" [opt]="dot.hlo" [grad]="dot.hlo --mode vjp" [vmap]="dot.hlo --size 2" [partition]="dot.hlo --mesh a=4" [run]="dot.hlo --mesh a=4"
    [emulate]="dot.hlo --mesh a=4 --topology v2-8" [explain]="dot.hlo --mesh a=4" [check]="dot.hlo --mesh a=4 --forbid all-gather"
    [devices]="" [topology]="v2-8" [shardings]="--mesh a=4 --shape 8 --spec a" [version]=""
    [slices]="" [compare]="dot.hlo dot.hlo --on v2-8" [sweep]="dot.hlo --on v2-8 --mesh a=*"
    [plan]="dot.hlo --on v2-8 --budget 1s" [launch]="true --on v5e-16")
# And what an option needs beside it.
declare -A with=([release]="--to bytecode" [rtol]="--compare eval" [atol]="--compare eval" [dump-pass-re]="--dump-to dumps")
# One value for each kind of option: text that no list, name, number or path can be read from.
value_of() {
    case $1 in
        OUT | DIR | FILE | F.*) echo "dot.hlo/rubbish" ;;
        RE) echo "(rubbish" ;;
        *) echo "rub;bish" ;;
    esac
}
verbs=$(sed -n 's/^CLI_VERB(\(.*\))/\1/p' "$SOURCE/tools/verbs.def")
swept=0
for verb in $verbs; do
    [ -n "${rest[$verb]+there}" ] || report 1 "every option: $verb has no call here"
    while read -r option value _; do
        name=${option##*-}
        [ "$option" = "-o" ] || name=${option#--}
        arguments=$(echo "${rest[$verb]}" | sed "s/$option [^ ]*//")
        [ "$name" = sizes ] && arguments=${arguments//dot.hlo/open.mlir} && arguments=${arguments//--mesh a=4/}
        [ "$verb $name" = "shardings mesh" ] && arguments="--shape 8 --spec a"
        rubbish=$(value_of "$value")
        # shellcheck disable=SC2086
        exits 2 "every option: $verb $option" meshlo "$verb" $arguments ${with[$name]:-} "$option" "$rubbish"
        if grep -qF -- "$option" err || { [[ $rubbish = */* ]] && grep -qF -- "$rubbish" err; }; then
            report 0 "every option: $verb $option: named"
        else
            report 1 "every option: $verb $option: named" "$(cat err)"
        fi
        swept=$((swept + 1))
    done < <(meshlo "$verb" --help | sed -n '/^Options:/,/^Examples:/p' | grep -E '^  -(o|-[a-z-]+) [^ ]' | sed -E 's/^  //')
done
check "every option: many" test "$swept" -ge 45

# Options that another one leaves without a meaning.
while IFS='|' read -r part line; do
    [ -n "$part" ] || continue
    # shellcheck disable=SC2086
    exits 2 "without a meaning: $line" meshlo $line
    says err "$part" "without a meaning: $line: why"
done <<'CASES'
--device-assignment does not apply to --propagate-only|partition dot.hlo --mesh a=4 --propagate-only --device-assignment 0,1,2,3
--async does not apply to --propagate-only|partition dot.hlo --mesh a=4 --propagate-only --async
--on: unknown topology|partition dot.hlo --mesh a=4 --propagate-only --on v9-9
does not name 4 devices|partition dot.hlo --mesh a=4 --device-assignment 0,1
4 is not a device of cpu:4|partition dot.hlo --mesh a=4 --device-assignment 0,1,2,4
0 is not a device of v2-8, or is listed twice|check dot.hlo --mesh a=4 --on v2-8 --forbid all-gather --device-assignment 0,0,1,2
--passes does not apply to --list-passes|opt --list-passes --passes nope
-o does not apply to --list-passes|opt --list-passes -o list
CASES
exits 0 "an assignment that fits" meshlo partition dot.hlo --mesh a=4 --on v2-8 --device-assignment 3,2,1,0
exits 2 "rubbish in MESHLO_FLAGS" env MESHLO_FLAGS="--mesh rubbish" "$MESHLO" partition dot.hlo
says err "--mesh rubbish" "rubbish in MESHLO_FLAGS: named"
exits 2 "rubbish in MESHLO_TOPOLOGY" env MESHLO_TOPOLOGY=rubbish "$MESHLO" run dot.hlo
says err "unknown topology 'rubbish'" "rubbish in MESHLO_TOPOLOGY: named"
exits 0 "no home, no environment" env -i "$MESHLO" run dot.hlo --seed 1

# Inputs that no one gave.
exits 0 "missing inputs" meshlo run dot.hlo
says err "note: 2 of 2 inputs are not given (0, 1) and generated from seed 0" "missing inputs: said"
exits 0 "missing inputs and a seed" meshlo run dot.hlo --seed 0
check "missing inputs and a seed: nothing to say" test ! -s err
python3 - <<'PY'
head = b"{'descr': '<f8', 'fortran_order': False, 'shape': (8, 16), }".ljust(117) + b"\n"
open("f64.npy", "wb").write(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head + b"\0" * 1024)
PY
exits 2 "an input of another type" meshlo run dot.hlo --input w=f64.npy
says err "--input w=f64.npy: f64.npy: the file has f64[8,16], but the program expects f32[16,4]" "an input of another type: said"
exits 2 "an input too many" meshlo run dot.hlo --input 2=f64.npy
says err "no parameter '2'; the program has 2 inputs" "an input too many: said"

# Little of everything: an exit code of the documented set, and a reason. AddressSanitizer reserves more addresses than any
# of these limits allows.
limits="30000 40000 60000 80000 120000 200000"
ldd "$MESHLO" | grep -q libasan && limits=
for kilobytes in $limits; do
    for line in "convert dot.hlo" "opt dot.hlo" "partition dot.hlo --mesh a=4" "run dot.hlo --seed 1" "emulate dot.hlo --topology v2-8" \
        "devices v2-8" "topology v2-8" "check dot.hlo --mesh a=4 --forbid all-gather"; do
        bash -c "ulimit -v $kilobytes; exec \"\$MESHLO\" $line" >out 2>err
        code=$?
        # 127: the loader itself had no room.
        case $code in 0 | 127) report 0 "memory" ;; 6) if [ -s err ]; then report 0 "memory"; else report 1 "$kilobytes KB: $line: no word"; fi ;;
            *) report 1 "$kilobytes KB: $line" "exit code $code: $(head -c 500 err)" ;; esac
    done
done
exits 0 "few descriptors" bash -c 'ulimit -n 12; exec "$MESHLO" convert dot.hlo'
exits 0 "no threads" bash -c 'ulimit -u 1; exec "$MESHLO" run dot.hlo --seed 1'
exits 0 "a small stack" bash -c 'ulimit -s 128; exec "$MESHLO" run dot.hlo --seed 1'
