# SPDX-License-Identifier: Apache-2.0
# libmeshlo, shared and static, from the modules; its headers, pkg-config file and CMake package.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
include(cmake/public_headers.cmake)

get_property(modules GLOBAL PROPERTY MESHLO_MODULES)
get_property(links GLOBAL PROPERTY MESHLO_LINKS)
set(objects)
foreach(module IN LISTS modules)
  list(APPEND objects $<TARGET_OBJECTS:${module}>)
endforeach()
list(FILTER links EXCLUDE REGEX "^meshlo_")
list(REMOVE_DUPLICATES links)

add_library(meshlo SHARED ${objects})
set_target_properties(meshlo PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${MESHLO_SOVERSION}
                      LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/meshlo.map LINKER_LANGUAGE C)
target_link_options(meshlo PRIVATE -Wl,--version-script=${CMAKE_SOURCE_DIR}/cmake/meshlo.map)
if(NOT MESHLO_SANITIZE AND NOT MESHLO_FUZZ)
  target_link_options(meshlo PRIVATE -Wl,--no-undefined)
endif()
target_link_libraries(meshlo PRIVATE ${links})
target_include_directories(meshlo INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/meshlo>)

# The static one also keeps the internal symbols in reach of the tests and the command.
add_library(meshlo_static STATIC ${objects})
set_target_properties(meshlo_static PROPERTIES OUTPUT_NAME meshlo LINKER_LANGUAGE C)
target_link_libraries(meshlo_static PUBLIC ${links})

install(TARGETS meshlo EXPORT meshlo LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library
        NAMELINK_COMPONENT development)
target_include_directories(meshlo_static INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/meshlo>)
install(TARGETS meshlo_static EXPORT meshlo_static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
# In a file of its own: only a program that links the static library needs what that was linked with.
install(EXPORT meshlo_static NAMESPACE meshlo:: FILE meshloStaticTargets.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/meshlo COMPONENT development)
meshlo_public_headers(headers hlo transport spmd_partitioner compile targets emulator advice)
set_property(GLOBAL PROPERTY MESHLO_PUBLIC_HEADERS ${headers})
foreach(header IN LISTS headers)
  cmake_path(GET header PARENT_PATH folder)
  install(FILES ${CMAKE_SOURCE_DIR}/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/meshlo/${folder}
          COMPONENT development)
endforeach()
install(EXPORT meshlo NAMESPACE meshlo:: FILE meshloTargets.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/meshlo
        COMPONENT development)
configure_package_config_file(cmake/meshloConfig.cmake.in ${CMAKE_BINARY_DIR}/meshloConfig.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/meshlo)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/meshloConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/meshloConfig.cmake ${CMAKE_BINARY_DIR}/meshloConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/meshlo COMPONENT development)
# Its prefix is absolute, as everybody's; of a tree that was moved, `pkg-config --define-prefix` finds the place. Which prefix
# it is, is known when it is installed (`cmake --install --prefix`).
set(prefix "@prefix@")
configure_file(cmake/meshlo.pc.in ${CMAKE_BINARY_DIR}/meshlo.pc.in @ONLY)
install(CODE "
  cmake_path(ABSOLUTE_PATH CMAKE_INSTALL_PREFIX OUTPUT_VARIABLE prefix)
  set(file \"\${prefix}/${CMAKE_INSTALL_LIBDIR}/pkgconfig/meshlo.pc\")
  configure_file(\"${CMAKE_BINARY_DIR}/meshlo.pc.in\" \"\$ENV{DESTDIR}\${file}\" @ONLY)
  list(APPEND CMAKE_INSTALL_MANIFEST_FILES \"\${file}\")" COMPONENT development)
install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT development)
