# SPDX-License-Identifier: Apache-2.0
# The RelaxNG schema of pod descriptions: built into the library, so that it is always found, and installed
# for editors and users.
include(GNUInstallDirs)
set(schema ${CMAKE_SOURCE_DIR}/emulator/pod.rng)
file(READ ${schema} bytes HEX)
string(REGEX REPLACE "(................................)" "\\1\n    " bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/emulator/pod_rng.h CONTENT
"// SPDX-License-Identifier: Apache-2.0
// Made by cmake/schema.cmake from emulator/pod.rng.
#ifndef MESHLO_EMULATOR_POD_RNG_H_
#define MESHLO_EMULATOR_POD_RNG_H_

static const unsigned char emu_pod_rng[] = {
    ${bytes}
};

#endif
" @ONLY)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${schema})
install(FILES ${schema} DESTINATION ${CMAKE_INSTALL_DATADIR}/meshlo)
