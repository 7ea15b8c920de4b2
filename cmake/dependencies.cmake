# SPDX-License-Identifier: Apache-2.0
# Finds the dependencies (docs/architecture.md explains what each is for) and names the Debian package of a missing one.
# packages.txt is the only list of these packages.
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(PkgConfig)
if(NOT PkgConfig_FOUND)
  message(FATAL_ERROR "pkg-config is missing. On Debian: apt install pkg-config   (or run ./setup)")
endif()

# `found` may be empty: pkg_check_modules() sets nothing for a module that is missing.
function(meshlo_require found what package)
  if(NOT found)
    message(FATAL_ERROR "${what} is missing. On Debian: apt install ${package}   (or run ./setup for everything)")
  endif()
endfunction()

find_package(LibXml2 QUIET)
meshlo_require("${LibXml2_FOUND}" "libxml2" libxml2-dev)
find_package(LibLZMA QUIET)
meshlo_require("${LIBLZMA_FOUND}" "liblzma" liblzma-dev)
find_package(ZLIB QUIET)
meshlo_require("${ZLIB_FOUND}" "zlib" zlib1g-dev)
pkg_check_modules(ZSTD QUIET IMPORTED_TARGET libzstd)
meshlo_require("${ZSTD_FOUND}" "libzstd" libzstd-dev)
pkg_check_modules(HWLOC QUIET IMPORTED_TARGET hwloc)
meshlo_require("${HWLOC_FOUND}" "hwloc" libhwloc-dev)

if(MESHLO_TESTS)
  pkg_check_modules(CRITERION QUIET IMPORTED_TARGET criterion)
  meshlo_require("${CRITERION_FOUND}" "Criterion (needed by the tests; -DMESHLO_TESTS=OFF builds without)"
                 libcriterion-dev)
endif()
