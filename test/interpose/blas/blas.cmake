# A program runs with the library preloaded before a mock BLAS, with integers of 32 and of 64 bits.
foreach(bits 32 64)
  add_library(blas_mock_${bits} SHARED ${CMAKE_CURRENT_LIST_DIR}/mock.c)
  target_compile_definitions(blas_mock_${bits} PRIVATE INTEGER=int${bits}_t)
  set_target_properties(blas_mock_${bits} PROPERTIES C_VISIBILITY_PRESET default)
  add_executable(blas_program_${bits} ${CMAKE_CURRENT_LIST_DIR}/program.c)
  target_compile_definitions(blas_program_${bits} PRIVATE INTEGER=int${bits}_t)
  target_link_libraries(blas_program_${bits} PRIVATE blas_mock_${bits} m ${CMAKE_DL_LIBS})
  add_test(NAME blas_${bits} COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/blas.sh
           $<TARGET_FILE:limber_blas> $<TARGET_FILE:blas_program_${bits}>)
endforeach()

# The library is linked before the BLAS instead of preloaded.
add_executable(blas_linked ${CMAKE_CURRENT_LIST_DIR}/program.c)
target_compile_definitions(blas_linked PRIVATE INTEGER=int32_t)
target_link_libraries(blas_linked PRIVATE limber_blas blas_mock_32 m ${CMAKE_DL_LIBS})
target_link_options(blas_linked PRIVATE LINKER:--no-as-needed)

# Calls from a thread with a small stack, with a cold and a warm cache, with a report.
add_executable(blas_stack ${CMAKE_CURRENT_LIST_DIR}/stack.c)
target_link_libraries(blas_stack PRIVATE blas_mock_32 Threads::Threads)
foreach(contract native bits=40 correct)
  add_test(NAME blas_stack_${contract} COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/stack.sh
           $<TARGET_FILE:limber_blas> $<TARGET_FILE:blas_stack> ${contract})
endforeach()

# Processes that end in different ways, and their child processes.
add_executable(blas_ends ${CMAKE_CURRENT_LIST_DIR}/ends.c)
target_link_libraries(blas_ends PRIVATE blas_mock_32 Threads::Threads ${CMAKE_DL_LIBS})
add_test(NAME blas_ends COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/ends.sh $<TARGET_FILE:limber_blas>
         $<TARGET_FILE:blas_ends> $<$<TARGET_EXISTS:limber_cublas>:$<TARGET_FILE:limber_cublas>>)

# A mock BLAS of known speed, to test the estimates in reports.
add_library(blas_clock SHARED ${CMAKE_CURRENT_LIST_DIR}/clock.c)
set_target_properties(blas_clock PROPERTIES C_VISIBILITY_PRESET default)
add_executable(blas_clocked ${CMAKE_CURRENT_LIST_DIR}/clock.c)
target_compile_definitions(blas_clocked PRIVATE PROGRAM)
target_link_libraries(blas_clocked PRIVATE blas_clock)

if(TARGET limber_cli)
  add_test(NAME blas_control COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/control.sh
           $<TARGET_FILE:limber_blas> $<TARGET_FILE:blas_program_32> $<TARGET_FILE:limber_cli>
           $<TARGET_FILE:blas_linked> $<TARGET_FILE:blas_clocked>)
  add_test(NAME blas_capture COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/capture.sh
           $<TARGET_FILE:limber_blas> $<TARGET_FILE:blas_program_32> $<TARGET_FILE:limber_cli>)
endif()

# Plugins with a BLAS of their own, under the file names of NumPy's and SciPy's wheels and under
# plain names.
add_executable(blas_host ${CMAKE_CURRENT_LIST_DIR}/plugin.c)
target_link_libraries(blas_host PRIVATE ${CMAKE_DL_LIBS})
set(plugins)
foreach(plugin scipy_,_64_,64 scipy_,_,32 ,_,64)
  string(REPLACE "," ";" plugin "${plugin}")
  list(GET plugin 0 prefix)
  list(GET plugin 1 suffix)
  list(GET plugin 2 bits)
  set(name "${prefix}plugin${suffix}${bits}")
  foreach(part mock plugin)
    add_library(blas_${part}_${name} SHARED ${CMAKE_CURRENT_LIST_DIR}/${part}.c)
    target_compile_definitions(blas_${part}_${name} PRIVATE
      INTEGER=int${bits}_t PREFIX=${prefix} SUFFIX=${suffix})
    set_target_properties(blas_${part}_${name} PROPERTIES C_VISIBILITY_PRESET default)
  endforeach()
  target_compile_definitions(blas_plugin_${name} PRIVATE PLUGIN)
  target_link_libraries(blas_plugin_${name} PRIVATE blas_mock_${name})
  list(APPEND plugins $<TARGET_FILE:blas_plugin_${name}>)
endforeach()
add_test(NAME blas_plugins COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/plugins.sh
         $<TARGET_FILE:limber_blas> $<TARGET_FILE:blas_host> ${plugins})

add_test(NAME blas_programs COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/programs.sh
         $<TARGET_FILE:limber_blas>)

# Tests of all routines: exact integers, testers of the reference BLAS, and Limber as the program's
# libblas.
add_test(NAME blas_exact COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/exact.sh $<TARGET_FILE:limber_blas>)
add_test(NAME blas_payload COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/payload.sh
         $<TARGET_FILE:limber_blas>)
add_test(NAME blas_order COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/order.sh $<TARGET_FILE:limber_blas>)
add_test(NAME blas_vectors COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/vectors.sh
         $<TARGET_FILE:limber_blas>)
add_test(NAME blas_testers COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/testers.sh
         $<TARGET_FILE:limber_blas>)
add_test(NAME blas_lapack COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/lapack.sh
         $<TARGET_FILE:limber_blas>)
add_test(NAME blas_sparse COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/sparse.sh
         $<TARGET_FILE:limber_blas>)
set_tests_properties(blas_exact blas_order blas_vectors blas_lapack blas_sparse
  PROPERTIES SKIP_RETURN_CODE 77)
if(TARGET limber_libblas)
  add_test(NAME blas_whole COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/whole.sh
           $<TARGET_FILE_DIR:limber_libblas> $<TARGET_FILE_DIR:limber_libblas64>
           $<TARGET_FILE:limber_blas> $<TARGET_FILE:blas_mock_32> $<TARGET_FILE:blas_mock_64>)
endif()

# FlexiBLAS and libblastrampoline are replaced by stand-ins.
add_executable(blas_doors ${CMAKE_CURRENT_LIST_DIR}/doors/program.c)
target_link_libraries(blas_doors PRIVATE m ${CMAKE_DL_LIBS})
foreach(name flexiblas trampoline)
  add_library(blas_${name} SHARED ${CMAKE_CURRENT_LIST_DIR}/doors/${name}.c)
  set_target_properties(blas_${name} PROPERTIES C_VISIBILITY_PRESET default)
  target_link_libraries(blas_${name} PRIVATE ${CMAKE_DL_LIBS})
endforeach()
target_link_libraries(blas_flexiblas PRIVATE blas_mock_32)
target_link_options(blas_flexiblas PRIVATE LINKER:--no-as-needed)
foreach(bits 32 64)
  add_library(blas_behind_${bits} SHARED ${CMAKE_CURRENT_LIST_DIR}/mock.c)
  target_compile_definitions(blas_behind_${bits} PRIVATE INTEGER=int${bits}_t)
  set_target_properties(blas_behind_${bits} PROPERTIES C_VISIBILITY_PRESET default
                        OUTPUT_NAME blas_behind_${bits})
endforeach()
target_compile_definitions(blas_behind_64 PRIVATE SUFFIX=_64_)
add_test(NAME blas_doors COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/doors/doors.sh
         $<TARGET_FILE:blas_doors> $<TARGET_FILE_DIR:limber_flexiblas>
         $<TARGET_FILE:blas_flexiblas> $<TARGET_FILE:blas_trampoline>
         $<TARGET_FILE_DIR:blas_behind_32>/libblas_behind_ $<TARGET_FILE:limber_blas>)

add_executable(blas_quad ${CMAKE_CURRENT_LIST_DIR}/quad.c)
target_link_libraries(blas_quad PRIVATE limber_blas)
add_test(NAME blas_quad COMMAND blas_quad)
set_tests_properties(blas_quad PROPERTIES FAIL_REGULAR_EXPRESSION "is not computed")
