# The LLVM backend: needs LLVM's C headers and clang of the same version to build, and opens
# libLLVM at run time only when a kernel must be compiled.
find_program(LIMBER_CLANG NAMES clang-${LIMBER_LLVM_VERSION} clang REQUIRED
             DOC "clang that turns the kernel's source into bitcode")
find_program(LIMBER_LLVM_CONFIG NAMES llvm-config-${LIMBER_LLVM_VERSION} llvm-config REQUIRED)
execute_process(COMMAND ${LIMBER_LLVM_CONFIG} --version
                OUTPUT_VARIABLE _version OUTPUT_STRIP_TRAILING_WHITESPACE)
string(REGEX MATCH "^[0-9]+" _major "${_version}")
# The default stands for any; a version that was asked for is to be had.
if(NOT _major EQUAL LIMBER_LLVM_VERSION AND (_major LESS 19 OR NOT LIMBER_LLVM_VERSION EQUAL 19))
  message(FATAL_ERROR "LIMBER_LLVM_VERSION is ${LIMBER_LLVM_VERSION}, and ${LIMBER_LLVM_CONFIG} is "
          "of LLVM ${_version}.  The build needs LLVM 19 or newer: -DLIMBER_LLVM_VERSION=N in a new "
          "folder, or -DLIMBER_LLVM=OFF.")
endif()
execute_process(COMMAND ${LIMBER_LLVM_CONFIG} --includedir
                OUTPUT_VARIABLE LIMBER_LLVM_INCLUDE OUTPUT_STRIP_TRAILING_WHITESPACE)

find_program(LIMBER_OPT NAMES opt-${LIMBER_LLVM_VERSION} opt REQUIRED
             DOC "LLVM's optimiser, which tidies the bitcode ahead of time")

set(LIMBER_BITCODE ${CMAKE_CURRENT_BINARY_DIR}/bitcode)
file(MAKE_DIRECTORY ${LIMBER_BITCODE})
set(_kernel ${CMAKE_CURRENT_SOURCE_DIR}/backends/llvm/kernel)
file(GLOB _headers CONFIGURE_DEPENDS ir/*.h ir/*/*.h backends/*.h
     backends/llvm/kernel/*.h include/limber/*.h)
set(LIMBER_BITCODE_FILES)
set(_tidy sroa,early-cse,simplifycfg,instcombine<no-verify-fixpoint>,simplifycfg)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ir/words.h)
file(STRINGS ir/words.h _kinds REGEX "F\\(LIMB_KIND, ")
string(REGEX REPLACE "[^;]*F\\(LIMB_KIND, ([a-z]+)[^;]*" "\\1" _kinds "${_kinds}")
set(_sysroot)
if(CMAKE_SYSROOT)       # of a cross-build: clang is told as the compiler is
  set(_sysroot --sysroot=${CMAKE_SYSROOT})
endif()
if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  set(_bitcode_for --target=aarch64-unknown-linux-gnu -march=armv8-a)
else()
  set(_bitcode_for -march=x86-64-v4 -mprefer-vector-width=512)
endif()
foreach(kind ${_kinds})
  set(_bc ${LIMBER_BITCODE}/kernel_${kind}.bc)
  set(_half)
  if(kind STREQUAL half AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    set(_half -mavx512fp16)
  elseif(kind STREQUAL half)
    set(_half -march=armv8.2-a+fp16+bf16)
  endif()
  add_custom_command(
    OUTPUT ${_bc}
    COMMAND ${LIMBER_CLANG} -std=gnu11 -O2 -Xclang -disable-llvm-passes -emit-llvm -c
            -DKERNEL_LIMB_KIND=LIMB_KIND_${kind} -DKERNEL_LIMB_KIND_${kind}
            ${_bitcode_for} ${_sysroot} ${_half} -ffp-contract=off -fno-math-errno
            -fno-builtin -ffreestanding -fPIC -fno-stack-protector -fno-unwind-tables -fno-asynchronous-unwind-tables
            -Wall -Wextra -I${CMAKE_CURRENT_SOURCE_DIR} -I${CMAKE_CURRENT_SOURCE_DIR}/include
            ${_kernel}/kernel.c -o ${_bc}.raw
    COMMAND ${LIMBER_OPT} -passes=always-inline,globaldce,function\(${_tidy}\)
            ${_bc}.raw -o ${_bc}
    DEPENDS ${_kernel}/kernel.c ${_kernel}/kernel.h ${_headers}
    COMMAND_EXPAND_LISTS
    COMMENT "Kernel source to bitcode ${kind}" VERBATIM)
  list(APPEND LIMBER_BITCODE_FILES ${_bc})
endforeach()
add_custom_target(limber_bitcode DEPENDS ${LIMBER_BITCODE_FILES})

file(GLOB LIMBER_LLVM_SOURCES CONFIGURE_DEPENDS backends/llvm/*.c)
foreach(name transpose dots exact pairs planes vectors)
  if(NOT LIMBER_FALLBACK)
    list(APPEND LIMBER_LLVM_SOURCES backends/llvm/kernel/${name}.c)
  endif()
  limber_variants(LIMBER_LLVM_SOURCES backends/llvm/kernel/${name}.c)
endforeach()
list(APPEND LIMBER_LLVM_SOURCES backends/llvm/kernel/cold.c backends/llvm/kernel/special.c)
list(APPEND LIMBER_SOURCES ${LIMBER_LLVM_SOURCES})
set_source_files_properties(${LIMBER_LLVM_SOURCES} PROPERTIES
  INCLUDE_DIRECTORIES ${LIMBER_LLVM_INCLUDE})
set_property(SOURCE backends/llvm/kernel/dots.c backends/llvm/kernel/exact.c
                    backends/llvm/kernel/pairs.c backends/llvm/kernel/vectors.c
             APPEND PROPERTY COMPILE_OPTIONS -Wno-psabi)
set_source_files_properties(backends/llvm/emit.c PROPERTIES
  COMPILE_DEFINITIONS "LIMBER_BITCODE=\"${LIMBER_BITCODE}\""
  OBJECT_DEPENDS "${LIMBER_BITCODE_FILES}")
include(backends/llvm/prebuilt.cmake)
target_sources(limber PRIVATE ${LIMBER_LLVM_SOURCES})
target_compile_definitions(limber PRIVATE LIMBER_HAVE_LLVM)
add_dependencies(limber limber_bitcode)

# GCC makes scalar code of vectors longer than the CPU's registers where they are compared, which is
# eight times as slow as clang's.  AVX-512 has registers as long as those of the scan.
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
  set(_scan jit/scan/measure.c)
  set(_scan_for ${_bitcode_for})
  if(LIMBER_FALLBACK)
    set(_scan ${LIMBER_VARIANTS}/measure_avx2.c)
    set(_scan_for -march=x86-64-v3 -DLIMBER_ISA=avx2)
  endif()
  set(_object ${CMAKE_CURRENT_BINARY_DIR}/measure.o)
  add_custom_command(
    OUTPUT ${_object}
    COMMAND ${CMAKE_C_COMPILER_LAUNCHER} ${LIMBER_CLANG} -std=gnu11 -O2 -c ${_scan_for} ${_sysroot}
            -ffp-contract=off -fno-math-errno -fPIC -fvisibility=hidden -Wall -Wextra -Wno-psabi
            -I${CMAKE_CURRENT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/jit/scan/measure.c
            -o ${_object}
    DEPENDS jit/scan/measure.c jit/scan/measure.h jit/scan/measure_wide.h jit/scan/wide_avx2.h
            ir/isa.h
    COMMAND_EXPAND_LISTS COMMENT "Scan" VERBATIM)
  set_source_files_properties(${_scan} PROPERTIES HEADER_FILE_ONLY ON)
  set_source_files_properties(${_object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  target_sources(limber PRIVATE ${_object})
  list(APPEND LIMBER_PREBUILT_OBJECTS ${_object})
endif()
