# SPDX-License-Identifier: Apache-2.0
# Files in and out: names, links, permissions, devices and pipes, limits, signals, streams that are closed; and what a
# message makes of names with newlines and of terminal escapes.
printf 'HloModule m\nENTRY e {\n  p = f32[8] parameter(0)\n  ROOT r = f32[8] sine(p)\n}\n' >in.hlo
meshlo convert in.hlo -o want.hlo

# leaves NAME: nothing temporary is left in this folder.
leaves() { check "$1: nothing temporary is left" bash -c '! ls -A | grep -q meshlo-tmp'; }

for length in 244 245 250 255; do
    name=$(printf "n%.0s" $(seq "$length"))
    exits 0 "bug: a name of $length bytes" meshlo convert in.hlo -o "$name"
    check "bug: a name of $length bytes: written" cmp "$name" want.hlo
    rm "$name"
done
exits 2 "a name of 256 bytes" meshlo convert in.hlo -o "$(printf "n%.0s" $(seq 256))"
says err "File name too long" "a name of 256 bytes: why"

ln -s nothing_yet link.hlo
exits 0 "bug: a dangling link" meshlo convert in.hlo -o link.hlo
check "bug: a dangling link: still a link" test -L link.hlo
check "bug: a dangling link: what it points to" cmp nothing_yet want.hlo
ln -s missing/x into.hlo
exits 2 "a link into no folder" meshlo convert in.hlo -o into.hlo
ln -s circle circle
exits 2 "a circle of links" meshlo convert in.hlo -o circle
says err "symbolic links" "a circle of links: why"

echo old >mode.hlo
chmod 640 mode.hlo
exits 0 "an old file keeps its permissions" meshlo convert in.hlo -o mode.hlo
check "an old file keeps its permissions: kept" bash -c '[ "$(stat -c %a mode.hlo)" = 640 ]'

mkdir folder
exits 2 "a folder as output" meshlo convert in.hlo -o folder
exits 2 "a folder with a slash" meshlo convert in.hlo -o folder/
exits 2 "an empty name" meshlo convert in.hlo -o ''
says err "cannot write ''" "an empty name: why"
exits 2 "a name below a file" meshlo convert in.hlo -o in.hlo/x
leaves "outputs that cannot be"

mkfifo pipe
(cat pipe >from_pipe) &
exits 0 "a pipe" meshlo convert in.hlo -o pipe
wait
check "a pipe: still one" test -p pipe
check "a pipe: all of it" cmp from_pipe want.hlo
exits 0 "/dev/null" meshlo convert in.hlo -o /dev/null
check "/dev/null: still a device" test -c /dev/null
echo first >log
check "bug: appended standard output" bash -c '"$MESHLO" convert in.hlo -o /dev/stdout >>log; cat <(echo first) want.hlo | cmp - log'
check "a descriptor of the shell" bash -c '"$MESHLO" convert in.hlo -o /dev/fd/7 7>seven; cmp seven want.hlo'

# bug: on a terminal the line of progress was left before results that go there by name.
for call in 'partition -o' 'emulate --on v2-8 --trace' 'emulate --on v2-8 --report'; do
    read -ra words <<<"$call"
    check "bug: ${words[0]} ${words[*]: -1} /dev/stdout on a terminal" bash -c 'env -u NO_COLOR TERM=xterm python3 "$SOURCE/tests/cli/terminal.py" \
        "$MESHLO" "$@" >shown 2>&1 && grep -aqE "….{0,4}\[K(HloModule|\{|<!DOCTYPE)" shown' - "${words[0]}" in.hlo "${words[@]:1}" /dev/stdout
done

# Limits of sizes: 1 KiB, of which the message takes a part too.
python3 -c "
print('HloModule m\nENTRY e {')
print('  p = f32[8] parameter(0)')
for i in range(200): print(f'  v{i}.x = f32[8] sine(' + (f'v{i-1}.x' if i else 'p') + ')')
print('  ROOT r = f32[8] sine(v199.x)\n}')" >long.hlo
exits 6 "bug: a file beyond its limit" bash -c 'ulimit -f 1; exec "$MESHLO" convert long.hlo -o limited.hlo'
says err "File too large" "bug: a file beyond its limit: why"
check "bug: a file beyond its limit: nothing" test ! -e limited.hlo
leaves "bug: a file beyond its limit"
exits 6 "standard output beyond its limit" bash -c 'ulimit -f 1; exec "$MESHLO" convert long.hlo >limited.hlo'
says err "cannot write to standard output: File too large" "standard output beyond its limit: why"

# A signal while a large result is written: the temporary file goes, and so does the process.
printf 'HloModule m\nENTRY e {\n  ROOT i = f32[300000000] iota(), iota_dimension=0\n}\n' >large.hlo
for signal in TERM INT HUP; do
    rm -rf results
    "$MESHLO" run large.hlo --output results >out 2>err &
    pid=$!
    for _ in $(seq 3000); do
        compgen -G "results/.meshlo-tmp*" >/dev/null && break
        kill -0 $pid 2>/dev/null || break
        sleep 0.01
    done
    # A shell without job control starts its children with SIGINT ignored, which they then do not have.
    kill -$signal $pid 2>/dev/null
    wait $pid 2>/dev/null
    check "SIG$signal while a result is written" bash -c '! ls -A results | grep -q meshlo-tmp'
done
rm -rf results

# Streams that are closed: the first file must not become one of them.
exits 0 "standard input closed" bash -c 'exec "$MESHLO" convert in.hlo -o closed.hlo <&-'
check "standard input closed: written" cmp closed.hlo want.hlo
exits 2 "standard input closed, and read" bash -c 'exec "$MESHLO" convert - <&-'
exits 2 "standard output closed" bash -c 'exec "$MESHLO" convert in.hlo >&-'
says err "Bad file descriptor" "standard output closed: why"
exits 0 "standard output closed, and not needed" bash -c 'exec "$MESHLO" convert in.hlo -o closed.hlo >&-'
check "standard output closed, and not needed: written" cmp closed.hlo want.hlo
echo "MESHLO" >bad.hlo
check "standard error closed" bash -c '"$MESHLO" convert bad.hlo 2>&-; [ $? = 3 ]'
check "all closed" bash -c '"$MESHLO" run in.hlo --seed 1 --output closed_run <&- >&- 2>&-; [ $? = 2 ] && [ -s closed_run/0.npy ]'

# Inputs that are none.
: >empty.hlo
exits 3 "an empty program" meshlo convert empty.hlo
says err "error: empty.hlo is empty" "an empty program: why"
exits 3 "an empty standard input" bash -c '"$MESHLO" convert - </dev/null'
says err "error: standard input is empty" "an empty standard input: why"
printf ' \n\t\n' >empty.hlo
exits 3 "bug: a program of blanks ended where a name was expected" meshlo convert empty.hlo
says err "error: empty.hlo is empty" "bug: a program of blanks: why"
exits 2 "a folder as program" meshlo convert folder
says err 'error: folder is a folder, not a program, and has no file' "a folder as program: why"

# bug: a folder of XLA's dumps was refused with "Is a directory" alone. JAX dumps small programs beside the step.
mkdir -p dumps/module_0009.before_optimizations.txt
cp long.hlo dumps/module_0002.jit_step.before_optimizations.txt
cp long.hlo dumps/module_0002.jit_step.hlo
for number in 1 3 4; do cp in.hlo dumps/module_000$number.jit_add.before_optimizations.txt; done
cp long.hlo dumps/module_0002.jit_step.after_optimizations.txt
for call in convert opt partition run 'emulate --on v2-8' explain 'plan --on v2-8' 'check --forbid all-gather' 'compare --on v2-8 in.hlo' \
    'sweep --on v2-8 --mesh x=*' grad 'vmap --size 2'; do
    read -ra words <<<"$call"
    exits 2 "bug: ${words[0]}: a folder of dumps" meshlo "${words[@]}" dumps
    says err 'dumps is a folder, not a program; did you mean dumps/module_0002.jit_step.before_optimizations.txt, dumps/module_0001.jit_add.before_optimizations.txt, dumps/module_0003.jit_add.before_optimizations.txt or one of 2 more?' \
        "bug: ${words[0]}: a folder of dumps: its programs"
done
mkdir one
cp in.hlo one/step.mlir.xz
exits 2 "a folder of one program" meshlo convert one/
says err 'one/ is a folder, not a program; did you mean one/step.mlir.xz?' "a folder of one program: its name"
: >empty.npy
exits 2 "an empty array" meshlo run in.hlo --input p0=empty.npy
exits 2 "a folder as array" meshlo run in.hlo --input p0=folder
exits 2 "an empty archive" bash -c ': >empty.npz; exec "$MESHLO" run in.hlo --input empty.npz'

# Names in messages: one line, and nothing for the terminal.
printf 'ENTRY\n' >$'new\nline.hlo'
exits 3 "a path with a newline" meshlo convert $'new\nline.hlo'
says err 'new\x0aline.hlo:' "a path with a newline: escaped"
exits 2 "a missing path with an escape" meshlo convert $'\e[31mred'
says err '\x1b[31mred' "a missing path with an escape: escaped"
exits 2 "an option with an escape" meshlo convert in.hlo --to $'\e]0;title\a'
says err '\x1b]0;title\x07' "an option with an escape: escaped"
exits 2 "a verb with an escape" meshlo $'\e[31mred'
says err '\x1b[31mred' "a verb with an escape: escaped"
printf 'HloModule m\nENTRY e {\n  p = f32[8] parameter(0)\n  ROOT r = f32[8] \033[31mnope(p)\n}\n' >escape.hlo
exits 3 "a line with an escape" meshlo convert escape.hlo
check "a line with an escape: escaped" bash -c '! grep -q $(printf "\033") err'
exits 2 "several lines in an option" meshlo partition in.hlo --mesh $'a=\nerror: all is well'
check "several lines in an option: one" bash -c '[ "$(wc -l <err)" = 1 ]'

# A module's name is no path.
printf 'HloModule m\nENTRY e {\n  ROOT p = f32[8] parameter(0)\n}\n' | sed '1s,m$,"../../up",' >up.hlo
mkdir -p a/b
if meshlo opt up.hlo --dump-to a/b >out 2>err; then
    check "a module's name with slashes" bash -c 'ls a/b | grep -q "module_0000.*up" && [ "$(ls a)" = b ]'
fi

# bug: a file that cannot be written was reported after the work whose result it would be, a search of a minute for
# plan. Now the program is not even read.
for verb_option in 'plan -o' 'emulate --trace' 'emulate --report' 'emulate --xplane' 'compare -o' 'compare --report' 'sweep -o' 'sweep --cache' \
    'explain -o' 'partition -o' 'convert -o' 'opt -o' 'grad -o' 'vmap -o' 'topology --svg' 'topology --hwloc'; do
    read -r verb option <<<"$verb_option"
    exits 2 "$verb_option: a file that cannot be written" meshlo "$verb" missing.hlo "$option" no/such/file
    says err 'cannot write no/such/file' "$verb_option: a file that cannot be written: first"
done
mkdir -p folder
exits 2 "a folder instead of a file" meshlo plan missing.hlo -o folder
says err 'cannot write folder: Is a directory' "a folder instead of a file: first"
