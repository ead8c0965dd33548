# SPDX-License-Identifier: BSD-3-Clause
# The stand-ins for libcuda and libnvrtc, which run generated CUDA kernels on the CPU.  The threads
# of a kernel are fibres, which sanitizers cannot follow.
set(simt_folder ${CMAKE_CURRENT_LIST_DIR})

add_library(simt_cuda SHARED ${simt_folder}/driver.c ${simt_folder}/engine.c ${simt_folder}/shared.c
  ${simt_folder}/memory.c ${simt_folder}/order.c ${simt_folder}/streams.c ${simt_folder}/async.c
  ${simt_folder}/product.c ${simt_folder}/columns.c ${simt_folder}/dot.c ${simt_folder}/ptx.c
  ${simt_folder}/faults.c)
target_link_libraries(simt_cuda PRIVATE limber_static)
target_link_options(simt_cuda PRIVATE -Wl,--exclude-libs,ALL)

add_library(simt_nvrtc SHARED ${simt_folder}/nvrtc.c)
target_include_directories(simt_nvrtc PRIVATE ${PROJECT_SOURCE_DIR})
target_link_libraries(simt_nvrtc PRIVATE PkgConfig::XXHASH Threads::Threads)
if(LIMBER_CLANG)
  set(simt_compiler ${LIMBER_CLANG})
else()
  set(simt_compiler ${CMAKE_C_COMPILER})
endif()
target_compile_definitions(simt_nvrtc PRIVATE
  SIMT_FOLDER="${simt_folder}" SIMT_COMPILER="${simt_compiler}")

target_compile_options(simt_cuda PRIVATE -O3)    # its loops are what tests of GPUs take
foreach(library simt_cuda simt_nvrtc)
  if(LIMBER_SANITIZE)
    target_compile_options(${library} PRIVATE -fno-sanitize=all)
  endif()
endforeach()
