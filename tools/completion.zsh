#compdef meshlo
# SPDX-License-Identifier: Apache-2.0
# zsh completion for meshlo: the command itself knows its verbs, options and values, so that they are never out of date.
_meshlo() {
    local candidate help
    local -a candidates helps
    while IFS=$'\t' read -r candidate help; do
        if [[ $candidate == :files ]]; then
            _files
        else
            candidates+=("$candidate")
            helps+=("$candidate  $help")
        fi
    done < <("${words[1]}" __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)
    (( $#candidates )) && compadd -l -d helps -- "${candidates[@]}"
}
_meshlo "$@"
