# Fortran and Python on the library as it was built; test/install.sh does the same with what is
# installed.
add_executable(bindings_layout ${CMAKE_CURRENT_LIST_DIR}/layout.c)
target_link_libraries(bindings_layout PRIVATE limber)

add_test(NAME bindings_python COMMAND ${CMAKE_COMMAND} -E env
         LIMBER_LIBRARY=$<TARGET_FILE:limber> sh ${CMAKE_CURRENT_LIST_DIR}/python.sh
         ${PROJECT_SOURCE_DIR}/bindings/python $<TARGET_FILE:bindings_layout>)
set_tests_properties(bindings_python PROPERTIES SKIP_RETURN_CODE 77)
