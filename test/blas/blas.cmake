# A program between the library that stands before its BLAS and a BLAS of our own, with integers of
# 32 and of 64 bits.
foreach(bits 32 64)
  add_library(blas_mock_${bits} SHARED ${CMAKE_CURRENT_SOURCE_DIR}/blas/mock.c)
  target_compile_definitions(blas_mock_${bits} PRIVATE INTEGER=int${bits}_t)
  set_target_properties(blas_mock_${bits} PROPERTIES C_VISIBILITY_PRESET default)
  add_executable(blas_program_${bits} ${CMAKE_CURRENT_SOURCE_DIR}/blas/program.c)
  target_compile_definitions(blas_program_${bits} PRIVATE INTEGER=int${bits}_t)
  target_link_libraries(blas_program_${bits} PRIVATE blas_mock_${bits} m)
  add_test(NAME blas_${bits} COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/blas/blas.sh
           $<TARGET_FILE:limber_blas> $<TARGET_FILE:blas_program_${bits}>)
endforeach()
