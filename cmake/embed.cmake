# SPDX-License-Identifier: Apache-2.0
# Files that are built into the library, so that they are always found.

# Makes a header generated/HEADER with the bytes of FILE as the array SYMBOL.
function(meshlo_embed file header symbol)
  file(READ ${CMAKE_SOURCE_DIR}/${file} bytes HEX)
  string(REGEX REPLACE "(................................)" "\\1\n    " bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(MAKE_C_IDENTIFIER "MESHLO_${header}_" guard)
  string(TOUPPER "${guard}" guard)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/${header} CONTENT
"// SPDX-License-Identifier: Apache-2.0
// Made by cmake/embed.cmake from ${file}.
#ifndef ${guard}
#define ${guard}

static const unsigned char ${symbol}[] = {
    ${bytes}
};

#endif
" @ONLY)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${file})
endfunction()

include(GNUInstallDirs)
# The RelaxNG schema of pod descriptions is installed too, for editors and users.
meshlo_embed(emulator/pod.rng emulator/pod_rng.h emu_pod_rng)
install(FILES ${CMAKE_SOURCE_DIR}/emulator/pod.rng DESTINATION ${CMAKE_INSTALL_DATADIR}/meshlo COMPONENT command)
# The style and the scripts of the reports's page.
meshlo_embed(emulator/report/page.css emulator/report/page_css.h emu_page_css)
meshlo_embed(emulator/report/base.js emulator/report/base_js.h emu_base_js)
meshlo_embed(emulator/report/page.js emulator/report/page_js.h emu_page_js)
meshlo_embed(emulator/report/compare.js emulator/report/compare_js.h emu_compare_js)
