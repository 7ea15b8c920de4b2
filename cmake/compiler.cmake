# SPDX-License-Identifier: Apache-2.0
# Language, warnings, optimisation, sanitizers: the same for every file of the project.
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_C_FLAGS_RELEASE "-O3")  # asserts stay: they are cheap and they are the specification
set(CMAKE_C_FLAGS_DEBUG "-Og -g")
# For sanitizers: their reports need lines, while types and variables would take a fifth of the time to build.
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O1 -g1")
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)

add_compile_definitions(_GNU_SOURCE)
# The same bits from every compiler: no contraction of a*b+c that the source does not spell as fma(). Other instruction
# sets have kernels of their own, whose results may differ: docs/accuracy.md lists how.
add_compile_options(
  -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wwrite-strings -Wpointer-arith
  -Wundef -ffp-contract=off -fno-math-errno -fno-trapping-math -ffile-prefix-map=${CMAKE_SOURCE_DIR}/=)
if(CMAKE_C_COMPILER_ID MATCHES Clang)
  add_compile_options(-Wno-pass-failed)  # a loop that one of the compilers does not vectorise is no mistake
endif()
if(MESHLO_WERROR)
  add_compile_options(-Werror)
endif()
include(cmake/hardening.cmake)
if(MESHLO_SANITIZE)
  add_compile_options(-fsanitize=${MESHLO_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${MESHLO_SANITIZE})
endif()
if(MESHLO_COVERAGE)
  add_compile_options(--coverage)
  add_link_options(--coverage)
endif()
if(MESHLO_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
  # With UndefinedBehaviorSanitizer clang takes ten times as long for the kernels (gemm.isa.c: 235 s against 18), and the
  # tests run them under gcc's.
  set(MESHLO_KERNEL_OPTIONS -fno-sanitize=undefined)
  add_link_options(-fsanitize=address,undefined)
endif()
include_directories(${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/generated)
