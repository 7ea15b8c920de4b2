# SPDX-License-Identifier: Apache-2.0
# The `meshlo` command. It links the static library, so that the binary can be copied alone.
if(EXISTS ${CMAKE_SOURCE_DIR}/tools/main.c)
  add_executable(meshlo_command tools/main.c)
  set_target_properties(meshlo_command PROPERTIES OUTPUT_NAME meshlo)
  target_link_libraries(meshlo_command PRIVATE meshlo_tools)
  install(TARGETS meshlo_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT command)
  install(FILES tools/completion.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME meshlo
          COMPONENT command)
  install(FILES tools/completion.zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions RENAME _meshlo
          COMPONENT command)
  install(FILES tools/completion.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d RENAME meshlo.fish
          COMPONENT command)
endif()
