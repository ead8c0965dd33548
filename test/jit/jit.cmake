# How a process ends, with a library that is linked before libLLVM.
if(LIMBER_LLVM AND NOT LIMBER_SANITIZE AND NOT CMAKE_CROSSCOMPILING AND NOT LIMBER_TEST_BARE)
  execute_process(COMMAND ${LIMBER_LLVM_CONFIG} --link-shared --libfiles
                  OUTPUT_VARIABLE llvm_library OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(EXISTS "${llvm_library}")
    add_library(ending_gate MODULE ${CMAKE_CURRENT_LIST_DIR}/ending/gate.c)
    target_link_libraries(ending_gate PRIVATE ${llvm_library} ${CMAKE_DL_LIBS})
    target_link_options(ending_gate PRIVATE LINKER:--no-as-needed)
    add_executable(ending ${CMAKE_CURRENT_LIST_DIR}/ending/program.c)
    target_include_directories(ending PRIVATE ${PROJECT_SOURCE_DIR}/include)
    target_compile_definitions(ending PRIVATE LIMBER_SHARED="$<TARGET_FILE:limber>")
    target_link_libraries(ending PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
    set_target_properties(ending ending_gate PROPERTIES C_VISIBILITY_PRESET default)
    set_target_properties(ending PROPERTIES ENABLE_EXPORTS ON)
    add_dependencies(ending limber ending_gate)
    add_test(NAME ending COMMAND ${CMAKE_COMMAND} -E env LIMBER_KERNELS=both
             LIMBER_LLVM=$<TARGET_FILE:ending_gate> $<TARGET_FILE:ending>)
  endif()
endif()

# Counts the calls of each way's code by wrapping functions.
if(LIMBER_LLVM)
  test_program(jit/test_ways.c)
  target_link_options(test_ways PRIVATE -Wl,--wrap=limber_windows_run
                      -Wl,--wrap=limber_unpacked_run)
  test_run(test_ways)
endif()

# Counts the calls that a warm product makes, in a debugger.
if(LIMBER_LLVM AND NOT LIMBER_SANITIZE AND CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64" AND
   NOT CMAKE_CROSSCOMPILING)
  add_executable(warm_program ${PROJECT_SOURCE_DIR}/test/warm/program.c)
  set_target_properties(warm_program PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_link_options(warm_program PRIVATE -no-pie)
  target_link_libraries(warm_program PRIVATE limber_static)
  add_test(NAME warm COMMAND sh ${PROJECT_SOURCE_DIR}/test/warm/warm.sh
           $<TARGET_FILE:warm_program> native=60 correct=150 conv=130 batch=430)
  set_tests_properties(warm PROPERTIES SKIP_RETURN_CODE 77)
endif()
