test_program(tools/test_output.c ${PROJECT_SOURCE_DIR}/tools/output.c)
test_run(test_output)
if(NOT TARGET limber_cli)
  return()
endif()
add_test(NAME cuda_tool COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/cuda.sh
         $<TARGET_FILE:limber_cli> $<TARGET_FILE:simt_cuda> $<TARGET_FILE:simt_nvrtc>
         $<TARGET_FILE:collect_cubins>)
add_test(NAME ladder COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/ladder.sh $<TARGET_FILE:limber_cli>
         $<TARGET_FILE:simt_cuda> $<TARGET_FILE:simt_nvrtc>)
add_test(NAME reproduce COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/reproduce.sh $<TARGET_FILE:limber_cli>)
set_tests_properties(reproduce PROPERTIES TIMEOUT 600)
add_test(NAME tools COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/tools.sh $<TARGET_FILE:limber_cli>)
set_tests_properties(tools PROPERTIES TIMEOUT 900
  ENVIRONMENT "ASAN_OPTIONS=allocator_may_return_null=1")
if(TARGET limber_blas AND NOT LIMBER_SANITIZE)    # ASan's library would have to come before it
  set(door $<TARGET_FILE:limber_blas> $<TARGET_FILE:blas_program_32>)
endif()
add_test(NAME terminal COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/terminal.sh $<TARGET_FILE:limber_cli>
         ${door})
add_test(NAME files COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/files.sh $<TARGET_FILE:limber_cli>)

add_test(NAME report COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/report.sh $<TARGET_FILE:limber_cli>)
set_tests_properties(report PROPERTIES TIMEOUT 900)
add_test(NAME words COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/words.sh $<TARGET_FILE:limber_cli>
         ${PROJECT_SOURCE_DIR})
if(NOT LIMBER_SANITIZE)
  add_test(NAME bench COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/bench.sh $<TARGET_FILE:limber_cli>)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    add_test(NAME old_cpu COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/old_cpu.sh
             $<TARGET_FILE:limber_cli>)
    add_test(NAME isa COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/isa.sh $<TARGET_FILE:limber_cli>)
    set_tests_properties(old_cpu isa PROPERTIES SKIP_RETURN_CODE 77)
  endif()
  find_package(Python3 COMPONENTS Interpreter QUIET)
  if(Python3_EXECUTABLE)
    add_test(NAME suites COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/suites.py)
  endif()
  add_test(NAME package COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/package.sh
           ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
  add_test(NAME recipes COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/recipes.sh ${PROJECT_SOURCE_DIR})
  set_tests_properties(package recipes PROPERTIES SKIP_RETURN_CODE 77)
endif()

# `limber gpu` with mock libraries of NVIDIA's, which are found before installed ones.
foreach(pair cuda:libcuda.so.1 cublas:libcublas.so.13
        cublaslt:libcublasLt.so.13 cudnn:libcudnn.so.9 nvml:libnvidia-ml.so.1)
  string(REPLACE ":" ";" pair ${pair})
  list(GET pair 0 mock)
  list(GET pair 1 file)
  add_library(mock_${mock} SHARED ${CMAKE_CURRENT_LIST_DIR}/gpu_mock/${mock}.c)
  target_link_libraries(mock_${mock} PRIVATE m)
  set_target_properties(mock_${mock} PROPERTIES PREFIX "" SUFFIX "" OUTPUT_NAME ${file}
    C_VISIBILITY_PRESET default LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/gpu_mock)
endforeach()
add_test(NAME gpu_bench COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/gpu.sh
         $<TARGET_FILE:limber_cli> ${CMAKE_CURRENT_BINARY_DIR}/gpu_mock
         $<TARGET_FILE:simt_cuda> $<TARGET_FILE:simt_nvrtc> $<TARGET_FILE:idle_cublas>)
set_tests_properties(gpu_bench PROPERTIES TIMEOUT 600)

# The runner of tools/gpu.sh, with a device that hangs, is lost or gives wrong results.
find_package(Python3 COMPONENTS Interpreter QUIET)
if(Python3_EXECUTABLE)
  add_test(NAME gpu_steps COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/gpu_steps.py
           ${PROJECT_SOURCE_DIR}/tools/gpu.py $<TARGET_FILE:limber_cli> $<TARGET_FILE:simt_cuda>
           $<TARGET_FILE:simt_nvrtc> $<TARGET_FILE:timed_cuda>)
  set_tests_properties(gpu_steps PROPERTIES TIMEOUT 900)
  add_test(NAME gpu_all_steps COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/gpu_steps.py
           ${PROJECT_SOURCE_DIR}/tools/gpu.py $<TARGET_FILE:limber_cli> $<TARGET_FILE:simt_cuda>
           $<TARGET_FILE:simt_nvrtc> $<TARGET_FILE:timed_cuda> $<TARGET_FILE:gpu_smoke>)
  set_tests_properties(gpu_all_steps PROPERTIES TIMEOUT 900)
endif()
