# Tests run on a GPU if LIMBER_TEST_GPU is set, otherwise on the simulation (simt), once for each of
# these compute capabilities.
set(test_cuda_on 75 80 90 100 120)
set(test_cuda_batch_on 75 80 90 100 120)
set(test_cuda_calls_on 75 90 103 120)
set(test_cuda_complex_on 80 90)
set(test_cuda_conv_on 75 90 100)
set(test_cuda_groups_on 80 90 100)
set(test_cuda_launches_on 80 90 100 120)
set(test_cuda_mixed_on 80 90 100)
set(test_cuda_remainders_on 75 80 90 100)
set(test_cuda_slices_on 75 80 90 100)
set(test_cuda_split_on 80 90 100 103)
set(test_cuda_steps_on 75 90)
set(test_cuda_tensor_on 75 89 90 100)
set(test_cuda_unit_on 80 90)
set(test_cuda_mx_on 100 120)
set(test_cuda_ladder_on 80 90)
foreach(name test_cuda test_cuda_batch test_cuda_calls test_cuda_complex test_cuda_conv
        test_cuda_groups test_cuda_ladder test_cuda_launches test_cuda_mixed test_cuda_remainders
        test_cuda_slices test_cuda_split test_cuda_steps test_cuda_tensor test_cuda_unit
        test_cuda_mx)
  test_program(cuda/${name}.c)
  list(APPEND gpu_programs ${name})
  add_test(NAME ${name}_gpu COMMAND ${CMAKE_COMMAND} -E env LIMBER_TEST_GPU=1
           $<TARGET_FILE:${name}>)
  set_tests_properties(${name}_gpu PROPERTIES LABELS gpu SKIP_RETURN_CODE 77)
  if(LIMBER_SANITIZE AND ${name} STREQUAL test_cuda_mx)
    set(${name}_on 120)
  elseif(LIMBER_SANITIZE)
    set(${name}_on 90)             # tests of host code need one capability
  endif()
  foreach(capability ${${name}_on})
    add_test(NAME ${name}_${capability} COMMAND ${CMAKE_COMMAND} -E env SIMT_CC=${capability}
             $<TARGET_FILE:${name}>)
  endforeach()
endforeach()

add_test(NAME test_cuda_launches_old_driver COMMAND ${CMAKE_COMMAND} -E env SIMT_CC=90
         SIMT_DRIVER=12020 SIMT_NVRTC=12 $<TARGET_FILE:test_cuda_launches>)

find_package(Python3 COMPONENTS Interpreter QUIET)
if(Python3_EXECUTABLE)
  add_test(NAME gpu_estimates COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/estimate.py
           ${PROJECT_SOURCE_DIR}/docs/measured/gpu-estimates.md)
endif()

add_library(kept_nvrtc SHARED cuda/kept_nvrtc.c)
target_link_libraries(kept_nvrtc PRIVATE PkgConfig::XXHASH ${CMAKE_DL_LIBS})
test_program(cuda/test_cubin.c)
target_compile_definitions(test_cubin PRIVATE KEPT_NVRTC="$<TARGET_FILE:kept_nvrtc>")
add_dependencies(test_cubin kept_nvrtc)

# A machine with a GPU builds this target: it measures and runs the tests labelled gpu
# (tools/gpu.sh).
add_custom_target(gpu DEPENDS ${gpu_programs})
if(TARGET limber_cli)
  add_dependencies(gpu limber_cli timed_cuda)
endif()

# Kernels are compiled on this machine and copied to the one with the GPU (tools/gpu.sh --collect).
add_executable(collect_cubins cuda/collect.c)
target_link_libraries(collect_cubins PRIVATE test_support)
add_library(idle_cublas SHARED cuda/idle_cublas.c)
set_target_properties(idle_cublas PROPERTIES PREFIX "" SUFFIX "" OUTPUT_NAME libcublas.so.13
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/idle)
add_custom_target(collect DEPENDS gpu collect_cubins idle_cublas simt_cuda simt_nvrtc)

# Runs small products by each kind of kernel, and reports wrong ones.
file(GLOB smoke CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/smoke/*.c)
test_program(cuda/gpu_smoke.c ${smoke})
test_program(cuda/test_gpu_smoke.c)
target_compile_definitions(test_gpu_smoke PRIVATE GPU_SMOKE="$<TARGET_FILE:gpu_smoke>")
add_dependencies(test_gpu_smoke gpu_smoke)
if(NOT LIMBER_SANITIZE)            # reports on kernels, which no sanitizer follows
  foreach(capability 75 80 90 100 120)
    add_test(NAME gpu_smoke_${capability} COMMAND ${CMAKE_COMMAND} -E env SIMT_CC=${capability}
             $<TARGET_FILE:test_gpu_smoke> kinds)
  endforeach()
  foreach(capability 80 90 100)    # those for which faults are planted
    add_test(NAME test_gpu_smoke_${capability} COMMAND ${CMAKE_COMMAND} -E env
             SIMT_CC=${capability} $<TARGET_FILE:test_gpu_smoke>)
  endforeach()
endif()

# A library in the place of NVRTC, to test the cache of NVRTC's output.
add_library(fake_nvrtc SHARED cuda/fake_nvrtc.c)
set_target_properties(fake_nvrtc PROPERTIES OUTPUT_NAME nvrtc
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/fake)
test_program(cuda/test_kept_nvrtc.c)
target_compile_definitions(test_kept_nvrtc PRIVATE
  KEPT_NVRTC="$<TARGET_FILE:kept_nvrtc>" FAKE_NVRTC="$<TARGET_FILE:fake_nvrtc>")
add_dependencies(test_kept_nvrtc kept_nvrtc fake_nvrtc)
test_run(test_kept_nvrtc)
if(NOT LIMBER_SANITIZE)            # of kernels alone, which no sanitizer follows
  add_test(NAME gpu_layouts COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/layouts.sh
           ${PROJECT_SOURCE_DIR}/backends/cuda/kernel)
  set_tests_properties(gpu_layouts PROPERTIES TIMEOUT 900 SKIP_RETURN_CODE 77)
  add_test(NAME test_cubin COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/cubin.sh
           $<TARGET_FILE:test_cubin>)
  set_tests_properties(test_cubin PROPERTIES TIMEOUT 900 SKIP_RETURN_CODE 77)
else()
  test_program(cuda/test_simt.c)   # built alone, since the stand-ins are not sanitized
endif()
