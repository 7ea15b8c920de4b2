# SPDX-License-Identifier: Apache-2.0
# Debian packages, made by `cpack --config build/release/CPackConfig.cmake`:
#
#     libmeshlo0         the shared library
#     libmeshlo-dev      headers, static library, pkg-config file, CMake package, documents
#     meshlo             the command, its manual pages and completion
#     python3-meshlo     the Python module and the plugin for JAX; made where Python has cffi when CMake runs
#
# tests/packages/debian.sh installs them into an empty root. dpkg-shlibdeps (package dpkg-dev) finds what they depend on.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME meshlo)
set(CPACK_PACKAGE_CONTACT "Meshlo developers <meshlo@meshlo.dev>")
set(CPACK_PACKAGE_HOMEPAGE_URL ${PROJECT_HOMEPAGE_URL})
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_COMPONENTS_ALL library development command)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_STRIP_FILES ON)
# Any dpkg reads it, and it takes a tenth of the time of xz.
set(CPACK_DEBIAN_COMPRESSION_TYPE gzip)

# meshlo_package(COMPONENT NAME SECTION DEPENDS SUMMARY) The line breaks of a Debian description begin with a blank.
function(meshlo_package component name section depends summary)
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${name} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_DEPENDS "${depends}" PARENT_SCOPE)
  set(CPACK_COMPONENT_${upper}_DESCRIPTION "${summary}" PARENT_SCOPE)
endfunction()
set(same "(= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})")
meshlo_package(library libmeshlo${MESHLO_SOVERSION} libs "" "HLO compiler: the shared library
Partitions HLO and StableHLO programs for a mesh of devices, runs them on virtual
TPU devices and times them on a model of the slice.")
meshlo_package(development libmeshlo-dev libdevel "libmeshlo${MESHLO_SOVERSION} ${same}"
               "HLO compiler: headers, static library and documents")
meshlo_package(command meshlo devel "" "HLO compiler: the command
Partitions, runs, times, compares and searches for the sharding of a program.")

# What packages of programs that link the shared library depend on.
set(symbols ${CMAKE_BINARY_DIR}/debian/symbols)
add_custom_command(TARGET meshlo POST_BUILD BYPRODUCTS ${symbols} VERBATIM
                   COMMAND ${CMAKE_COMMAND} -DNM=${CMAKE_NM} -DLIBRARY=$<TARGET_FILE:meshlo>
                           -DSONAME=$<TARGET_SONAME_FILE_NAME:meshlo> -DPACKAGE=libmeshlo${MESHLO_SOVERSION}
                           -DRELEASE=${PROJECT_VERSION} -DOUTPUT=${symbols}
                           -P ${CMAKE_SOURCE_DIR}/cmake/debian_symbols.cmake)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${symbols})
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)

# Opened at run time: by processes that play the hosts of one slice, and for linear algebra.
foreach(component LIBRARY COMMAND PYTHON)
  set(CPACK_DEBIAN_${component}_PACKAGE_RECOMMENDS "libucx0, libnettle8, libopenblas0-pthread")
endforeach()

get_property(python_package GLOBAL PROPERTY MESHLO_PYTHON_PACKAGE)
if(python_package)
  list(APPEND CPACK_COMPONENTS_ALL python)
  meshlo_package(python python3-meshlo python "libmeshlo${MESHLO_SOVERSION} ${same}, python3, python3-cffi, python3-numpy"
                 "HLO compiler: Python module and plugin for JAX
Emulates, partitions, explains and runs what jax.jit(f).lower() gives; the plugin
makes JAX's devices look like those of a TPU slice.")
endif()
foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  string(TOUPPER ${component} upper)
  install(FILES LICENSE RENAME copyright DESTINATION share/doc/${CPACK_DEBIAN_${upper}_PACKAGE_NAME}
          COMPONENT ${component} EXCLUDE_FROM_ALL)
endforeach()
include(CPack)
