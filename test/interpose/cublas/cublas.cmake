# A program that calls cuBLAS, a mock of which computes nothing, with liblimber_cublas before it.
add_library(cublas_mock SHARED ${CMAKE_CURRENT_LIST_DIR}/mock.c)
target_include_directories(cublas_mock PRIVATE ${PROJECT_SOURCE_DIR})
add_executable(cublas_program ${CMAKE_CURRENT_LIST_DIR}/program.c)
target_include_directories(cublas_program PRIVATE ${PROJECT_SOURCE_DIR})
target_link_libraries(cublas_program PRIVATE cublas_mock limber)
add_test(NAME cublas COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/cublas.sh
         $<TARGET_FILE:cublas_program> $<TARGET_FILE:limber_cublas>)
set_tests_properties(cublas PROPERTIES TIMEOUT 600)

# The same on a device: the harness's, with a mock that computes.
add_library(cublas_gpu_mock SHARED ${CMAKE_CURRENT_LIST_DIR}/gpu_mock.c ${CMAKE_CURRENT_LIST_DIR}/gpu_open.c)
if(LIMBER_SANITIZE)     # functions of the real library are not told apart by type either
  target_compile_options(cublas_gpu_mock PRIVATE -fno-sanitize=function)
endif()
target_include_directories(cublas_gpu_mock PRIVATE ${PROJECT_SOURCE_DIR})
target_link_libraries(cublas_gpu_mock PRIVATE limber ${CMAKE_DL_LIBS})
add_executable(cublas_gpu ${CMAKE_CURRENT_LIST_DIR}/gpu.c ${CMAKE_CURRENT_LIST_DIR}/gpu_open.c)
target_include_directories(cublas_gpu PRIVATE ${PROJECT_SOURCE_DIR})
target_link_libraries(cublas_gpu PRIVATE cublas_gpu_mock limber ${CMAKE_DL_LIBS})
add_dependencies(cublas_gpu simt_cuda simt_nvrtc)
add_test(NAME cublas_gpu COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/gpu.sh
         $<TARGET_FILE:cublas_gpu> $<TARGET_FILE:limber_cublas> $<TARGET_FILE:simt_cuda>
         $<TARGET_FILE:simt_nvrtc>)
set_tests_properties(cublas_gpu PROPERTIES TIMEOUT 600)
add_dependencies(test_cuda cublas_gpu_mock)     # which calls it where it has to
