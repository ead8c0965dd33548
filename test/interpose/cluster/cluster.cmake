# Programs of many processes: MPI programs with the library preloaded before their BLAS, and ranks
# that share one cache.
if(NOT LIMBER_LLVM)
  message(STATUS "The LLVM backend is not built: programs of many processes are not tested")
  return()
endif()
pkg_check_modules(OMPI IMPORTED_TARGET ompi-c)
find_library(LIMBER_SCALAPACK scalapack-openmpi)
if(TARGET limber_cli AND OMPI_FOUND AND LIMBER_SCALAPACK)
  add_executable(cluster_pblas ${CMAKE_CURRENT_LIST_DIR}/pblas.c)
  target_link_libraries(cluster_pblas PRIVATE ${LIMBER_SCALAPACK} PkgConfig::OMPI m)
  add_library(cluster_calls MODULE ${CMAKE_CURRENT_LIST_DIR}/calls.c)
  target_link_libraries(cluster_calls PRIVATE ${CMAKE_DL_LIBS})
  set_target_properties(cluster_calls PROPERTIES C_VISIBILITY_PRESET default)
  add_test(NAME cluster_pblas COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/pblas.sh
           $<TARGET_FILE:limber_blas> $<TARGET_FILE:cluster_pblas> $<TARGET_FILE:cluster_calls>
           $<TARGET_FILE:limber_cli>)
  add_test(NAME cluster_hpl COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/hpl.sh
           $<TARGET_FILE:limber_blas>)
else()
  set(absent "libscalapack-openmpi-dev or libopenmpi-dev was absent when this was built")
  message(STATUS "${absent}: MPI programs are not tested")
  foreach(name pblas hpl)
    add_test(NAME cluster_${name} COMMAND sh -c
             "echo 'SKIPPED: ${absent}'; exit 77")
  endforeach()
endif()
# these tests need kernels, so code paths that need no plan are disabled
set_property(TEST cluster_pblas APPEND PROPERTY ENVIRONMENT LIMBER_WAYS=-planless)
set_tests_properties(cluster_pblas cluster_hpl PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 600)

add_executable(cluster_storm ${CMAKE_CURRENT_LIST_DIR}/storm.c)
target_link_libraries(cluster_storm PRIVATE limber m)
add_library(cluster_server MODULE ${CMAKE_CURRENT_LIST_DIR}/server.c)
target_link_libraries(cluster_server PRIVATE ${CMAKE_DL_LIBS})
set_target_properties(cluster_server PROPERTIES C_VISIBILITY_PRESET default)
add_executable(cluster_nodes ${CMAKE_CURRENT_LIST_DIR}/nodes.c)
target_link_libraries(cluster_nodes PRIVATE limber_static)
add_test(NAME cluster_cache COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/cache.sh
         $<TARGET_FILE:cluster_storm> $<TARGET_FILE:cluster_server> $<TARGET_FILE:cluster_nodes>)
set_tests_properties(cluster_cache PROPERTIES TIMEOUT 600 SKIP_RETURN_CODE 77 ENVIRONMENT
                     LIMBER_KERNELS=specialised)    # prebuilt kernels are in no cache
