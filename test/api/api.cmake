test_program(api/test_failing.c)
# the library's calls of these functions, which the test can make fail
foreach(name malloc calloc realloc aligned_alloc strdup free)
  target_link_options(test_failing PRIVATE -Wl,--wrap=${name})
endforeach()
test_run(test_failing)

test_program(api/test_hardened.c)
foreach(name mmap mprotect limber_llvm_object)
  target_link_options(test_hardened PRIVATE -Wl,--wrap=${name})
endforeach()
test_run(test_hardened)

test_program(api/test_embed.c)
target_compile_definitions(test_embed PRIVATE LIMBER_SHARED="$<TARGET_FILE:limber>")
test_run(test_embed)

# The example for GPUs, on the stand-ins for CUDA and without a device.
add_executable(example_gpu ${PROJECT_SOURCE_DIR}/examples/gpu.c)
target_link_libraries(example_gpu PRIVATE limber ${CMAKE_DL_LIBS})
add_dependencies(example_gpu simt_cuda simt_nvrtc)
add_test(NAME example_gpu COMMAND ${CMAKE_COMMAND} -E env LIMBER_CACHE=off
         LIMBER_CUDA=$<TARGET_FILE:simt_cuda> LIMBER_NVRTC=$<TARGET_FILE:simt_nvrtc>
         $<TARGET_FILE:example_gpu>)
set_tests_properties(example_gpu PROPERTIES PASS_REGULAR_EXPRESSION "\n0 of 3072 elements")
add_test(NAME example_no_gpu COMMAND ${CMAKE_COMMAND} -E env LIMBER_CUDA=/nonexistent
         $<TARGET_FILE:example_gpu>)
set_tests_properties(example_no_gpu PROPERTIES PASS_REGULAR_EXPRESSION "^no GPU here")

add_executable(example_layer ${PROJECT_SOURCE_DIR}/examples/layer.c)
target_link_libraries(example_layer PRIVATE limber)
add_test(NAME example_layer COMMAND ${CMAKE_COMMAND} -E env LIMBER_CACHE=off
         $<TARGET_FILE:example_layer>)
set_tests_properties(example_layer PROPERTIES PASS_REGULAR_EXPRESSION
                     "^fused and step by step: the same bits\na row .* sums up to 1\.00\n$")

foreach(name embed refine)
  add_executable(example_${name} ${PROJECT_SOURCE_DIR}/examples/${name}.c)
  target_link_libraries(example_${name} PRIVATE limber Threads::Threads m)
  add_test(NAME example_${name} COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/example_${name}.sh
           $<TARGET_FILE:example_${name}>)
endforeach()

# a program from outside cannot link a sanitized library
if(TARGET limber_cli AND NOT LIMBER_SANITIZE)
  add_test(NAME install COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/install.sh
           ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
  set_tests_properties(install PROPERTIES TIMEOUT 600)
endif()

# A program that was compiled for version 0.2 with the current library, and a check of the binary
# interface against version 0.2.
add_executable(abi_program ${CMAKE_CURRENT_LIST_DIR}/abi/program.c)
target_include_directories(abi_program BEFORE PRIVATE ${CMAKE_CURRENT_LIST_DIR}/abi/0.2)
target_link_libraries(abi_program PRIVATE limber)
add_test(NAME abi_program COMMAND abi_program)
if(NOT LIMBER_SANITIZE)
  add_test(NAME abi COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/abi.sh
           ${CMAKE_CURRENT_LIST_DIR}/abi/limber-0.2.abi $<TARGET_FILE:limber>
           ${PROJECT_SOURCE_DIR}/include)
  set(libraries $<TARGET_FILE:limber>)
  foreach(name limber_blas limber_libblas limber_libblas64 limber_cublas)
    if(TARGET ${name})
      list(APPEND libraries $<TARGET_FILE:${name}>)
    endif()
  endforeach()
  add_test(NAME needs COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/needs.sh ${PROJECT_SOURCE_DIR}
           ${libraries})
  add_test(NAME size COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/size.sh $<TARGET_FILE:limber>)
  set_tests_properties(abi size PROPERTIES SKIP_RETURN_CODE 77)
endif()

# The public headers as C++.
include(CheckLanguage)
# when cross-compiling, CMake would find a compiler for this machine
if(NOT CMAKE_CROSSCOMPILING)
  check_language(CXX)
endif()
if(CMAKE_CXX_COMPILER AND NOT LIMBER_SANITIZE)
  enable_language(CXX)
  add_executable(header_cpp ${CMAKE_CURRENT_LIST_DIR}/header.cpp)
  target_compile_options(header_cpp PRIVATE -Wpedantic -Wall -Wextra -Wshadow -Wconversion -Werror)
  set_target_properties(header_cpp PROPERTIES CXX_STANDARD 11 CXX_EXTENSIONS OFF)
  target_link_libraries(header_cpp PRIVATE limber)
  add_test(NAME header_cpp COMMAND header_cpp)
endif()
