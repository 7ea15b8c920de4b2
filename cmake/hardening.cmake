# SPDX-License-Identifier: Apache-2.0
# Flags that make a memory error harder to exploit, in every build without sanitizers. tests/cli/hardening.sh reads the
# built binaries; SECURITY.md says what is promised.
include(CheckCCompilerFlag)
include(CheckPIESupported)
check_pie_supported()

# Sanitizers find more than these flags do, and fortified functions of the C library would hide calls from them.
set(MESHLO_HARDENED ON)
if(MESHLO_SANITIZE OR MESHLO_FUZZ)
  set(MESHLO_HARDENED OFF)
  return()
endif()

# Kernels have no arrays that input could overrun, and are called for as little as one element, in nanoseconds.
set(MESHLO_KERNEL_OPTIONS)
foreach(flag -fstack-protector-strong -fstack-clash-protection -fcf-protection=full)
  string(MAKE_C_IDENTIFIER "MESHLO_HAS${flag}" has)
  check_c_compiler_flag(${flag} ${has})
  if(${has})
    add_compile_options(${flag})
    if(flag STREQUAL "-fstack-protector-strong")
      set(MESHLO_KERNEL_OPTIONS -fno-stack-protector)
    endif()
  endif()
endforeach()
# Level 3 also checks sizes that are known only when the program runs. The C library warns about either level in code that
# is not optimised: a build type of the caller's own brings its own flags.
if(CMAKE_BUILD_TYPE MATCHES "^(Release|RelWithDebInfo|MinSizeRel|Debug)$")
  if(CMAKE_C_COMPILER_ID STREQUAL GNU AND CMAKE_C_COMPILER_VERSION VERSION_GREATER_EQUAL 12)
    add_compile_options(-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
  else()
    add_compile_options(-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
  endif()
endif()
# All symbols are found when the program starts, after which the tables of their addresses are read-only.
add_link_options(LINKER:-z,relro LINKER:-z,now LINKER:-z,noexecstack)
