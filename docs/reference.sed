# SPDX-License-Identifier: Apache-2.0
# Makes Doxygen's comments of ours, line by line: the text above a declaration, and the text after a member. The
# prose is plain text, in which *result, \n and @main mean themselves; examples and what is quoted are left as they are.
/^ *\/\/ {1,4}[^ ]/{
s/(^|[A-Za-z0-9 (])\*([A-Za-z0-9])/\1\\*\2/g
/`/!s/([^*]|^)([\\@])([^*])/\1\\\2\3/g
}
s@^([[:space:]]*)//($| )@\1///\2@
s@;([[:space:]]+)// @;\1///< @
