# Compares results with those of other libraries, which are found at run time or skipped.
if(TARGET limber_cli)
  add_executable(compare_onednn peers/compare_onednn.c support/convs.c)
  target_include_directories(compare_onednn PRIVATE support)
  target_link_libraries(compare_onednn PRIVATE limber_tools PkgConfig::CMOCKA)
  add_test(NAME peers_onednn COMMAND compare_onednn)
  set_tests_properties(peers_onednn PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 600)
endif()
add_test(NAME peers_torch COMMAND ${CMAKE_COMMAND} -E env
         LIMBER_LIBRARY=$<TARGET_FILE:limber> sh ${CMAKE_CURRENT_LIST_DIR}/torch.sh
         ${PROJECT_SOURCE_DIR}/bindings/python)
set_tests_properties(peers_torch PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 600)
if(LIMBER_SANITIZE)   # Python comes before ASan's library
  set_tests_properties(peers_torch PROPERTIES DISABLED TRUE)
endif()
