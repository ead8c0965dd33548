# The LLVM backend: needs LLVM's C headers and clang of the same version to build, and opens
# libLLVM at run time only when a kernel must be compiled.
find_program(LIMBER_CLANG NAMES clang-${LIMBER_LLVM_VERSION} clang REQUIRED
             DOC "clang that turns the kernel's source into bitcode")
find_program(LIMBER_LLVM_CONFIG NAMES llvm-config-${LIMBER_LLVM_VERSION} llvm-config REQUIRED)
execute_process(COMMAND ${LIMBER_LLVM_CONFIG} --includedir
                OUTPUT_VARIABLE LIMBER_LLVM_INCLUDE OUTPUT_STRIP_TRAILING_WHITESPACE)

set(LIMBER_BITCODE ${CMAKE_CURRENT_BINARY_DIR}/limber_kernel.bc)
set(_kernel ${CMAKE_CURRENT_SOURCE_DIR}/backends/llvm/kernel)
add_custom_command(
  OUTPUT ${LIMBER_BITCODE}
  COMMAND ${LIMBER_CLANG} -std=gnu11 -O2 -Xclang -disable-llvm-passes -emit-llvm -c
          -ffp-contract=off -fno-math-errno -fno-builtin -ffreestanding -fPIC
          -fno-stack-protector -fno-unwind-tables -fno-asynchronous-unwind-tables
          -Wall -Wextra -I${CMAKE_CURRENT_SOURCE_DIR} -I${CMAKE_CURRENT_SOURCE_DIR}/include
          ${_kernel}/kernel.c -o ${LIMBER_BITCODE}
  DEPENDS ${_kernel}/kernel.c ${_kernel}/kernel.h ${CMAKE_CURRENT_SOURCE_DIR}/ir/prim.h
          ${CMAKE_CURRENT_SOURCE_DIR}/ir/prim_num.h ${CMAKE_CURRENT_SOURCE_DIR}/ir/ir.h
          ${CMAKE_CURRENT_SOURCE_DIR}/ir/crt.h ${CMAKE_CURRENT_SOURCE_DIR}/ir/ops.h
          ${CMAKE_CURRENT_SOURCE_DIR}/ir/attrs.h
          ${CMAKE_CURRENT_SOURCE_DIR}/backends/backend.h
  COMMENT "Kernel source to bitcode")
add_custom_target(limber_bitcode DEPENDS ${LIMBER_BITCODE})

file(GLOB LIMBER_LLVM_SOURCES CONFIGURE_DEPENDS backends/llvm/*.c)
list(APPEND LIMBER_SOURCES ${LIMBER_LLVM_SOURCES})
set_source_files_properties(${LIMBER_LLVM_SOURCES} PROPERTIES
  INCLUDE_DIRECTORIES ${LIMBER_LLVM_INCLUDE})
set_source_files_properties(backends/llvm/emit.c PROPERTIES
  COMPILE_DEFINITIONS "LIMBER_BITCODE=\"${LIMBER_BITCODE}\";LIMBER_LLVM_VERSION=${LIMBER_LLVM_VERSION}"
  OBJECT_DEPENDS ${LIMBER_BITCODE})
target_sources(limber PRIVATE ${LIMBER_LLVM_SOURCES})
target_compile_definitions(limber PRIVATE LIMBER_HAVE_LLVM)
add_dependencies(limber limber_bitcode)
