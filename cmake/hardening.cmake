# SPDX-License-Identifier: Apache-2.0
# Flags that make a memory error harder to exploit (MESHLO_HARDENING). tests/cli/hardening.sh reads the built binaries;
# SECURITY.md says what is promised.
include(CheckCCompilerFlag)
include(CheckPIESupported)
check_pie_supported()

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
# Sanitizers check more than the fortified functions of the C library do, which would hide calls from them. Level 3 also
# checks sizes that are known only when the program runs.
if(NOT MESHLO_SANITIZE AND NOT MESHLO_FUZZ)
  if(CMAKE_C_COMPILER_ID STREQUAL GNU AND CMAKE_C_COMPILER_VERSION VERSION_GREATER_EQUAL 12)
    add_compile_options(-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
  else()
    add_compile_options(-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
  endif()
endif()
# All symbols are found when the program starts, after which the tables of their addresses are read-only.
add_link_options(LINKER:-z,relro LINKER:-z,now LINKER:-z,noexecstack)
