# A set-user-id program that is linked with the library before its BLAS, and the command-line tool.
add_executable(secure_program ${CMAKE_CURRENT_LIST_DIR}/program.c)
target_link_libraries(secure_program PRIVATE limber_blas limber blas_mock_32)
target_link_options(secure_program PRIVATE LINKER:--no-as-needed)  # not the system's BLAS
add_library(secure_trap MODULE ${CMAKE_CURRENT_LIST_DIR}/trap.c)
add_executable(secure ${CMAKE_CURRENT_LIST_DIR}/secure.c)
target_link_libraries(secure PRIVATE limber)
# The tool's run path begins at the tool's own folder, where a copied program finds no library.
add_executable(secure_cli ${PROJECT_SOURCE_DIR}/tools/cli/limber.c)
target_link_libraries(secure_cli PRIVATE limber_tools)
add_test(NAME secure COMMAND secure $<TARGET_FILE:secure_program> $<TARGET_FILE:secure_trap>
         $<TARGET_FILE:secure_cli>)
set_tests_properties(secure PROPERTIES SKIP_RETURN_CODE 77)
