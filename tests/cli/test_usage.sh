# SPDX-License-Identifier: Apache-2.0
# Usage: help, unknown names, exit code 2.
exits 2 "no verb" meshlo
says err "usage: meshlo VERB" "no verb: shows the usage"
exits 0 "help" meshlo --help
says out "Exit codes:" "help: exit codes"
exits 0 "manual of the command" meshlo --help=man
says out ".TH MESHLO" "manual of the command: roff"
exits 2 "unknown verb" meshlo conver x
for verb in $(meshlo --help | awk '/^  [a-z]+  / { print $1 }'); do
    exits 0 "help of $verb" meshlo "$verb" --help
    says out "Examples:" "help of $verb: examples"
    exits 2 "unknown option of $verb" meshlo "$verb" --no-such-option
    says err "--no-such-option" "unknown option of $verb: named"
    exits 0 "manual of $verb" meshlo "$verb" --help=man
done
exits 2 "near option" meshlo version --jsn
says err "did you mean --json" "near option: suggested"
exits 2 "too many arguments" meshlo version a
exits 0 "version" meshlo version
exits 0 "version json" meshlo version --json
json "j['version'] and j['cpu_features'] and 'hwloc' in j['libraries']" "version json: keys"
exits 0 "flags from the environment" env MESHLO_FLAGS=--json "$MESHLO" version
json "j['version']" "flags from the environment: used"
exits 2 "unwritable stdout" bash -c '"$MESHLO" version >/dev/full'
exits 2 "bug: unwritable stdout, help" bash -c '"$MESHLO" --help >/dev/full'
check "a reader that closes the pipe is not an error" bash -o pipefail -c '"$MESHLO" --help | head -c 1 >/dev/null'
check "completion: verbs" bash -c '. "$SOURCE/tools/completion.bash"; COMP_WORDS=("$MESHLO" ver); COMP_CWORD=1; _meshlo
    [ "${COMPREPLY[*]}" = version ]'
check "completion: options" bash -c '. "$SOURCE/tools/completion.bash"; COMP_WORDS=("$MESHLO" version --js); COMP_CWORD=2; _meshlo
    [ "${COMPREPLY[*]}" = --json ]'
