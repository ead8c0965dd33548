# The program exports its __cxa_atexit, so that libLLVM finds it before the C library's.
test_program(${CMAKE_CURRENT_LIST_DIR}/test_opening.c)
set_target_properties(test_opening PROPERTIES ENABLE_EXPORTS ON)
test_run(test_opening)
