# Compares results with other libraries'.  A library that is not found when the test runs is
# skipped.
if(TARGET limber_cli)
  add_executable(compare_onednn peers/compare_onednn.c support/convs.c support/contexts.c)
  target_include_directories(compare_onednn PRIVATE support)
  target_link_libraries(compare_onednn PRIVATE limber_tools PkgConfig::CMOCKA)
  add_test(NAME peers_onednn COMMAND compare_onednn)
  set_tests_properties(peers_onednn PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 600)
endif()
add_test(NAME peers_torch COMMAND ${CMAKE_COMMAND} -E env
         LIMBER_LIBRARY=$<TARGET_FILE:limber> sh ${CMAKE_CURRENT_LIST_DIR}/torch.sh
         ${PROJECT_SOURCE_DIR}/bindings/python)
set_tests_properties(peers_torch PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 600)
if(LIMBER_SANITIZE)   # ASan's library would have to be loaded before Python
  set_tests_properties(peers_torch PROPERTIES DISABLED TRUE)
endif()
