# Tests the Fortran and Python bindings with the library in the build folder.  test/api/install.sh
# tests the installed bindings.
add_executable(bindings_layout ${CMAKE_CURRENT_LIST_DIR}/layout.c)
target_link_libraries(bindings_layout PRIVATE limber)

add_test(NAME bindings_python COMMAND ${CMAKE_COMMAND} -E env
         LIMBER_LIBRARY=$<TARGET_FILE:limber> sh ${CMAKE_CURRENT_LIST_DIR}/python.sh
         ${PROJECT_SOURCE_DIR}/bindings/python $<TARGET_FILE:bindings_layout>
         $<TARGET_FILE:simt_cuda> $<TARGET_FILE:simt_nvrtc>)
set_tests_properties(bindings_python PROPERTIES SKIP_RETURN_CODE 77)
if(TARGET limber_blas AND TARGET limber_cli AND NOT LIMBER_SANITIZE)
  add_test(NAME starts COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/starts.sh ${PROJECT_BINARY_DIR}
           ${PROJECT_SOURCE_DIR}/bindings/python $<TARGET_FILE:limber>)
  set_tests_properties(starts PROPERTIES SKIP_RETURN_CODE 77)
endif()
if(TARGET limber_numpy AND NOT LIMBER_SANITIZE)
  foreach(part "" _whole)
    add_test(NAME numpy_loops${part} COMMAND ${CMAKE_COMMAND} -E env
             LIMBER_LIBRARY=$<TARGET_FILE:limber> sh ${CMAKE_CURRENT_LIST_DIR}/numpy.sh
             ${PROJECT_SOURCE_DIR}/bindings/python ${part})
    set_tests_properties(numpy_loops${part} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 900)
  endforeach()
  add_test(NAME jax_products COMMAND ${CMAKE_COMMAND} -E env
           LIMBER_LIBRARY=$<TARGET_FILE:limber> sh ${CMAKE_CURRENT_LIST_DIR}/jax.sh
           ${PROJECT_SOURCE_DIR}/bindings/python)
  set_tests_properties(jax_products PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 900)
endif()
if(TARGET limber_cli)
  set(cli LIMBER_CLI=$<TARGET_FILE:limber_cli>)
endif()
add_test(NAME applications COMMAND ${CMAKE_COMMAND} -E env LIMBER_LIBRARY=$<TARGET_FILE:limber>
         ${cli} sh ${PROJECT_SOURCE_DIR}/test/applications/applications.sh)
set_tests_properties(applications PROPERTIES SKIP_RETURN_CODE 77)

# This test builds the wheel, which takes minutes.
find_package(Python3 COMPONENTS Interpreter QUIET)
if(NOT Python3_EXECUTABLE)
  set(Python3_EXECUTABLE /usr/bin/python3)
endif()
if(NOT LIMBER_SANITIZE)
  add_test(NAME wheel COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/wheel.sh ${PROJECT_SOURCE_DIR}
           ${Python3_EXECUTABLE} $<TARGET_FILE:bindings_layout>)
  set_tests_properties(wheel PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 900)
endif()

if(NOT LIMBER_SANITIZE)
  add_test(NAME rust COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/rust.sh
           ${PROJECT_SOURCE_DIR}/bindings/rust $<TARGET_FILE_DIR:limber>
           $<TARGET_FILE:bindings_layout>)
  set_tests_properties(rust PROPERTIES SKIP_RETURN_CODE 77)
endif()

if(TARGET limber_fortran)
  include(${CMAKE_CURRENT_LIST_DIR}/layout.cmake)
  foreach(name ${CMAKE_CURRENT_BINARY_DIR}/layout.f90 ${CMAKE_CURRENT_LIST_DIR}/test_fortran.F90
          ${PROJECT_SOURCE_DIR}/examples/fortran.f90)
    get_filename_component(target ${name} NAME_WE)
    add_executable(bindings_fortran_${target} ${name})
    target_link_libraries(bindings_fortran_${target} PRIVATE limber_fortran)
    target_compile_definitions(bindings_fortran_${target} PRIVATE
      $<$<BOOL:${LIMBER_REAL128}>:LIMBER_REAL128>)
  endforeach()
  add_test(NAME bindings_fortran COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/fortran.sh
           $<TARGET_FILE:bindings_layout> $<TARGET_FILE:bindings_fortran_layout>
           $<TARGET_FILE:bindings_fortran_test_fortran> $<TARGET_FILE:bindings_fortran_fortran>)
else()
  add_test(NAME bindings_fortran COMMAND sh -c
           "echo 'the Fortran module was not built: no compiler, or LIMBER_FORTRAN=OFF'; exit 77")
  set_tests_properties(bindings_fortran PROPERTIES SKIP_RETURN_CODE 77)
endif()
