# SPDX-License-Identifier: Apache-2.0
# bash completion for meshlo: verbs and options are asked from the command itself, so that they are never out of date.
_meshlo() {
    local current=${COMP_WORDS[COMP_CWORD]} verb=${COMP_WORDS[1]}
    COMPREPLY=()
    if [ "$COMP_CWORD" = 1 ]; then
        mapfile -t COMPREPLY < <(compgen -W "$("${COMP_WORDS[0]}" --help 2>/dev/null |
            awk '/^  [a-z]+  / { print $1 }')" -- "$current")
    elif [[ $current == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$("${COMP_WORDS[0]}" "$verb" --help 2>/dev/null |
            awk '/^  -/ { print $1 }') --help" -- "$current")
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
    fi
}
complete -o filenames -F _meshlo meshlo
