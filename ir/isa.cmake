# Reads the list of instruction sets, ir/isa.h, through the preprocessor:
#
#   LIMBER_ISAS         this architecture's sets; for each ISA of them:
#   LIMBER_WORDS_ISA      LLVM's words for its features
#   LIMBER_FLAGS_ISA      clang's flags
#   LIMBER_BITS_ISA, LIMBER_GROUP_ISA, LIMBER_MATRIX_ISA
#   LIMBER_TILES        rows "isa unit mr nr"
#   LIMBER_FALLBACK, LIMBER_VECTORS, LIMBER_DEPTHWISE, LIMBER_BYTES
#                       the sets for which files are compiled
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ir/isa.h)
set(_arch none)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(_arch __x86_64__)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  set(_arch __aarch64__)
endif()
set(LIMBER_VARIANTS ${CMAKE_CURRENT_BINARY_DIR}/variants)
file(CONFIGURE OUTPUT ${LIMBER_VARIANTS}/isa.c CONTENT [[
#include "ir/isa.h"
#define FEATURE(bit, name, words, has) FEATURES bit words;
#define ISA(isa, word, needs, bits, regs, group, matrix, ...) ISAS isa #needs bits group matrix;
#define TILE(isa, unit, mr, nr) TILES isa unit mr nr;
#define SET(isa, list) list isa;
LIMBER_X86_FEATURES(FEATURE) LIMBER_ARM_FEATURES(FEATURE) LIMBER_ISAS(ISA) LIMBER_TILES(TILE)
LIMBER_FALLBACK(SET, FALLBACK) LIMBER_VECTORS(SET, VECTORS) LIMBER_DEPTHWISE(SET, DEPTHWISE)
LIMBER_BYTES(SET, BYTES)
]] @ONLY)
execute_process(
  COMMAND ${CMAKE_C_COMPILER} -E -P -U__x86_64__ -U__aarch64__ -D${_arch}
          -I${CMAKE_CURRENT_SOURCE_DIR} ${LIMBER_VARIANTS}/isa.c
  OUTPUT_VARIABLE _rows RESULT_VARIABLE _failed)
if(_failed)
  message(FATAL_ERROR "the preprocessor cannot read ir/isa.h")
endif()
foreach(list ISAS TILES FALLBACK VECTORS DEPTHWISE BYTES)
  set(LIMBER_${list})
endforeach()
foreach(row ${_rows})
  separate_arguments(row UNIX_COMMAND "${row}")
  list(LENGTH row _length)
  if(_length EQUAL 0)
    continue()
  endif()
  list(POP_FRONT row kind name)
  if(kind STREQUAL FEATURES)
    string(REPLACE "," ";" _CPU_${name} "${row}")
  elseif(kind STREQUAL ISAS)
    list(POP_FRONT row needs LIMBER_BITS_${name} LIMBER_GROUP_${name} LIMBER_MATRIX_${name})
    string(REGEX MATCHALL "(CPU|NEEDS)_[a-z0-9]+" needs "${needs}")
    set(_NEEDS_${name})
    foreach(need ${needs})
      list(APPEND _NEEDS_${name} ${_${need}})
    endforeach()
    list(JOIN _NEEDS_${name} "," LIMBER_WORDS_${name})
    set(_flags ${_NEEDS_${name}})
    if(_arch STREQUAL __aarch64__)
      # Only micro-kernels use SVE and SME: vectors of other code have NEON's fixed length.
      list(FILTER _flags EXCLUDE REGEX "neon|fp-|sve|sme")
      list(JOIN _flags "" _flags)
      set(LIMBER_FLAGS_${name} -march=armv8-a${_flags})
    else()
      list(TRANSFORM _flags REPLACE "^\\+" "-m" OUTPUT_VARIABLE LIMBER_FLAGS_${name})
      if(LIMBER_BITS_${name} EQUAL 512)
        list(APPEND LIMBER_FLAGS_${name} -mprefer-vector-width=512)
      endif()
    endif()
    list(APPEND LIMBER_ISAS ${name})
  else()
    list(JOIN row " " row)
    string(STRIP "${name} ${row}" row)
    list(APPEND LIMBER_${kind} ${row})
  endif()
endforeach()

# Adds to LIST a file for each set of LIMBER_FALLBACK, which compiles SOURCE for the set.
function(limber_variants list source)
  get_filename_component(name ${source} NAME_WE)
  foreach(isa ${LIMBER_FALLBACK})
    set(file ${LIMBER_VARIANTS}/${name}_${isa}.c)
    file(CONFIGURE OUTPUT ${file} CONTENT "#define LIMBER_ISA ${isa}\n#include \"${source}\"\n")
    if(LIMBER_BITS_${isa} EQUAL 512)
      set(level x86-64-v4)
    else()
      set(level x86-64-v3)
    endif()
    set_property(SOURCE ${file} PROPERTY COMPILE_OPTIONS -march=${level} -Wno-psabi)
    list(APPEND ${list} ${file})
  endforeach()
  set(${list} ${${list}} PARENT_SCOPE)
endfunction()
