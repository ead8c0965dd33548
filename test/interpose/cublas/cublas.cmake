# A program that calls cuBLAS, a mock cuBLAS that computes, and liblimber_cublas preloaded before
# the mock: with matrices in host memory, and on the harness's device.
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

# Two mock cuBLAS with symbol versions, as NVIDIA's libraries have, and modules that are linked with
# one of them.
add_executable(cublas_host ${CMAKE_CURRENT_LIST_DIR}/plugin.c)
target_link_libraries(cublas_host PRIVATE ${CMAKE_DL_LIBS})
set(plugins)
foreach(version 12 13)
  add_library(cublas_mock_${version} SHARED ${CMAKE_CURRENT_LIST_DIR}/mock.c
              ${PROJECT_SOURCE_DIR}/test/support/driver.c)
  target_include_directories(cublas_mock_${version} PRIVATE ${PROJECT_SOURCE_DIR})
  set(versions ${CMAKE_CURRENT_BINARY_DIR}/cublas_${version}.map)
  file(WRITE ${versions} "libcublas.so.${version} { global: *; };\n")
  set_target_properties(cublas_mock_${version} PROPERTIES OUTPUT_NAME cublas SOVERSION ${version}
                        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/cublas_${version})
  target_link_options(cublas_mock_${version} PRIVATE LINKER:--version-script=${versions})
  target_link_libraries(cublas_mock_${version} PRIVATE limber ${CMAKE_DL_LIBS})
  add_library(cublas_plugin_${version} SHARED ${CMAKE_CURRENT_LIST_DIR}/plugin.c)
  target_compile_definitions(cublas_plugin_${version} PRIVATE PLUGIN)
  set_target_properties(cublas_plugin_${version} PROPERTIES C_VISIBILITY_PRESET default)
  target_link_libraries(cublas_plugin_${version} PRIVATE cublas_mock_${version})
  if(LIMBER_SANITIZE)
    target_compile_options(cublas_mock_${version} PRIVATE -fno-sanitize=function)
    target_compile_options(cublas_plugin_${version} PRIVATE -fno-sanitize=function)
  endif()
  list(APPEND plugins $<TARGET_FILE:cublas_plugin_${version}>)
endforeach()
add_test(NAME cublas_plugins COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/plugins.sh
         $<TARGET_FILE:limber_cublas> $<TARGET_FILE:cublas_host>
         ${CMAKE_CURRENT_BINARY_DIR}/cublas_12:${CMAKE_CURRENT_BINARY_DIR}/cublas_13 ${plugins})

add_dependencies(test_cuda cublas_mock)     # which call it where they have to
add_dependencies(test_cuda_batch cublas_mock)
