# SPDX-License-Identifier: Apache-2.0
# bash completion for meshlo: the command itself knows its verbs, options and values, so that they are never out of date.
_meshlo() {
    local line=${COMP_LINE:0:COMP_POINT} words candidate
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    # bash splits words at '=' and ':' too, and replaces only what follows the last of them.
    local current=${words[-1]} before=
    [[ $current == *[=:]* ]] && before=${current%"${current##*[=:]}"}
    COMPREPLY=()
    while IFS=$'\t' read -r candidate _; do
        if [ "$candidate" = :files ]; then
            # Names are quoted and folders get a slash. Values are not: the quotes would hide '=' and ',' from the next Tab.
            compopt -o filenames 2>/dev/null
            mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "${current#"$before"}")
        else
            COMPREPLY+=("${candidate#"$before"}")
        fi
    done < <("${words[0]}" __complete -- "${words[@]:1}" 2>/dev/null)
    [[ ${#COMPREPLY[@]} = 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
}
complete -F _meshlo meshlo
