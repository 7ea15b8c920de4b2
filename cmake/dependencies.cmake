# SPDX-License-Identifier: Apache-2.0
# Finds what is borrowed (docs/architecture.md says what for) and names the Debian package when something is missing.
# packages.txt is the one list of these packages.
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(PkgConfig)
if(NOT PkgConfig_FOUND)
  message(FATAL_ERROR "pkg-config is missing. On Debian: apt install pkg-config   (or run ./setup)")
endif()

function(meshlo_require found what package)
  if(NOT ${found})
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

# The serial OpenBLAS, whatever the system's alternative is: we bring our own threads, and one call on one thread gives
# the same bits on every run.
set(openblas_folder /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-serial)
find_library(OPENBLAS_LIBRARY openblas HINTS ${openblas_folder})
find_path(OPENBLAS_INCLUDE cblas.h HINTS /usr/include/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-serial
          PATH_SUFFIXES openblas)
if(NOT OPENBLAS_LIBRARY OR NOT OPENBLAS_INCLUDE)
  meshlo_require(NO "OpenBLAS" libopenblas-serial-dev)
endif()
set(OPENBLAS_VERSION unknown)
if(EXISTS ${OPENBLAS_INCLUDE}/openblas_config.h)
  file(STRINGS ${OPENBLAS_INCLUDE}/openblas_config.h line REGEX "OPENBLAS_VERSION")
  string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" OPENBLAS_VERSION "${line}")
endif()
add_library(Meshlo::OpenBLAS UNKNOWN IMPORTED)
set_target_properties(Meshlo::OpenBLAS PROPERTIES IMPORTED_LOCATION ${OPENBLAS_LIBRARY}
                      INTERFACE_INCLUDE_DIRECTORIES ${OPENBLAS_INCLUDE})

if(MESHLO_TESTS)
  pkg_check_modules(CRITERION QUIET IMPORTED_TARGET criterion)
  meshlo_require("${CRITERION_FOUND}" "Criterion (needed by the tests; -DMESHLO_TESTS=OFF builds without)"
                 libcriterion-dev)
endif()
