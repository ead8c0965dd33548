# A program that calls cuBLAS, a mock that computes, with liblimber_cublas before it: with matrices
# in host memory, and on a device, which is the harness's.
add_library(cublas_mock SHARED ${CMAKE_CURRENT_LIST_DIR}/mock.c
            ${PROJECT_SOURCE_DIR}/test/support/driver.c)
if(LIMBER_SANITIZE)     # functions of the real library are not told apart by type either
  target_compile_options(cublas_mock PRIVATE -fno-sanitize=function)
endif()
target_include_directories(cublas_mock PRIVATE ${PROJECT_SOURCE_DIR})
target_link_libraries(cublas_mock PRIVATE limber ${CMAKE_DL_LIBS})
add_executable(cublas_program ${CMAKE_CURRENT_LIST_DIR}/program.c
               ${PROJECT_SOURCE_DIR}/test/support/driver.c)
target_include_directories(cublas_program PRIVATE ${PROJECT_SOURCE_DIR})
target_link_libraries(cublas_program PRIVATE cublas_mock limber m ${CMAKE_DL_LIBS})
add_dependencies(cublas_program simt_cuda simt_nvrtc)
add_test(NAME cublas COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/cublas.sh
         $<TARGET_FILE:cublas_program> $<TARGET_FILE:limber_cublas>)
add_test(NAME cublas_gpu COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/gpu.sh
         $<TARGET_FILE:cublas_program> $<TARGET_FILE:limber_cublas> $<TARGET_FILE:simt_cuda>
         $<TARGET_FILE:simt_nvrtc>)
set_tests_properties(cublas cublas_gpu PROPERTIES TIMEOUT 600)
add_dependencies(test_cuda cublas_mock)     # which call it where they have to
add_dependencies(test_cuda_batch cublas_mock)
