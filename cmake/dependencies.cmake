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
pkg_check_modules(HWLOC QUIET IMPORTED_TARGET "hwloc>=2.0")
meshlo_require("${HWLOC_FOUND}" "hwloc 2" libhwloc-dev)

# Optional: processes that are the hosts of one machine exchange messages over UCX, and authenticate with libnettle. Both
# are opened when they are needed, so that only their headers count here. A build without refuses to join, by name.
set(MESHLO_UCX AUTO CACHE STRING "Messages between processes over UCX: ON, OFF or AUTO (if it is there)")
set(MESHLO_NETTLE AUTO CACHE STRING "Secrets between processes by libnettle: ON, OFF or AUTO (if it is there)")
function(meshlo_optional option module package)
  if(${option} STREQUAL OFF)
    return()
  endif()
  pkg_check_modules(FOUND_${option} QUIET ${module})
  if(${option} STREQUAL ON)
    meshlo_require("${FOUND_${option}_FOUND}" "${module} (-D${option}=OFF builds without)" ${package})
  endif()
  if(FOUND_${option}_FOUND)
    set(has_${option} ON PARENT_SCOPE)
    set(includes_${option} ${FOUND_${option}_INCLUDE_DIRS} PARENT_SCOPE)
  endif()
endfunction()
meshlo_optional(MESHLO_UCX "ucx>=1.13" libucx-dev)
meshlo_optional(MESHLO_NETTLE "nettle>=3.7" nettle-dev)

# The library does not start under every system that can run our programs; tests/support/runner does, and requires the
# headers only.
set(MESHLO_OWN_RUNNER ${CMAKE_CROSSCOMPILING} CACHE BOOL "Run the tests without Criterion's library")
if(MESHLO_TESTS)
  if(MESHLO_OWN_RUNNER)
    find_path(CRITERION_INCLUDES criterion/criterion.h)
    set(CRITERION_FOUND ${CRITERION_INCLUDES})
  else()
    pkg_check_modules(CRITERION QUIET IMPORTED_TARGET criterion)
  endif()
  meshlo_require("${CRITERION_FOUND}" "Criterion (needed by the tests; -DMESHLO_TESTS=OFF builds without)"
                 libcriterion-dev)
endif()
