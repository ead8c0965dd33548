# A program that calls cuBLAS, a mock of which computes nothing, with liblimber_cublas before it.
add_library(cublas_mock SHARED cublas/mock.c)
target_include_directories(cublas_mock PRIVATE ${PROJECT_SOURCE_DIR})
add_executable(cublas_program cublas/program.c)
target_include_directories(cublas_program PRIVATE ${PROJECT_SOURCE_DIR})
target_link_libraries(cublas_program PRIVATE cublas_mock limber)
add_test(NAME cublas COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/cublas/cublas.sh
         $<TARGET_FILE:cublas_program> $<TARGET_FILE:limber_cublas>)
set_tests_properties(cublas PROPERTIES TIMEOUT 600)
