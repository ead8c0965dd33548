# Results that must not change: problems with their plans, code and bits (README.md).
add_executable(corpus_replay corpus/replay.c corpus/words.c corpus/plain.c corpus/adapter.c)
target_link_libraries(corpus_replay PRIVATE
  test_support limber_static PkgConfig::CMOCKA PkgConfig::MPFR)
target_compile_definitions(corpus_replay PRIVATE $<$<BOOL:${LIMBER_LLVM}>:LIMBER_HAVE_LLVM>)
if(NOT LIMBER_SANITIZE)     # other tests run the same code under sanitizers
  set(parts corpus corpus_second corpus_third)  # the second tier runs the last two
  foreach(test ${parts})
    list(FIND parts ${test} part)
    math(EXPR part "${part} + 1")
    add_test(NAME ${test} COMMAND corpus_replay --part ${part}/3 ${CMAKE_CURRENT_SOURCE_DIR}/corpus)
    set_tests_properties(${test} PROPERTIES TIMEOUT 900)
  endforeach()
  if(LIMBER_LLVM AND NOT CMAKE_CROSSCOMPILING)
    add_test(NAME corpus_poorest COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/corpus/poorest.sh
             $<TARGET_FILE:corpus_replay> ${CMAKE_CURRENT_SOURCE_DIR}/corpus)
    set_property(TEST corpus_poorest APPEND PROPERTY ENVIRONMENT LIMBER_KERNELS=specialised)
  endif()
endif()
if(CMAKE_CROSSCOMPILING)     # there is no x86-64 code, and libLLVM is slow in an emulator
  foreach(test ${parts})
    set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT LIMBER_LLVM=/nonexistent)
  endforeach()
endif()
