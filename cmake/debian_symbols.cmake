# SPDX-License-Identifier: Apache-2.0
# usage: cmake -DNM=… -DLIBRARY=… -DSONAME=… -DPACKAGE=… -DRELEASE=… -DOUTPUT=… -P debian_symbols.cmake
# Writes the symbols file of a Debian package (deb-symbols(5)): from which release on LIBRARY has each symbol that it
# exports, and the nodes of their versions, so that packages of programs depend on no later one than they need.
execute_process(COMMAND ${NM} --dynamic --defined-only --extern-only ${LIBRARY}
                OUTPUT_VARIABLE listed COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^ \n]+@@?[^ \n]+" symbols "${listed}")
list(TRANSFORM symbols REPLACE "@@" "@")
string(REGEX MATCHALL " A [^ \n]+" nodes "${listed}")
list(TRANSFORM nodes REPLACE " A ([^@]+).*" "\\1@\\1")
list(APPEND symbols ${nodes})
list(REMOVE_DUPLICATES symbols)
list(SORT symbols)
list(TRANSFORM symbols REPLACE "(.+)" " \\1 ${RELEASE}\n")
list(JOIN symbols "" lines)
file(WRITE ${OUTPUT} "${SONAME} ${PACKAGE} #MINVER#\n${lines}")
