# Kernels that are compiled when the library is built, from the source and the generator of
# micro-kernels that are also used at run time.  They serve all plans with their tile and limbs.

set(_target)
set(_triple x86_64-unknown-linux-gnu)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  set(_target --target=aarch64-unknown-linux-gnu)
  set(_triple aarch64-unknown-linux-gnu)
endif()

set(_clang_prebuilt ${_target} ${_sysroot} -ffp-contract=off -fno-math-errno -fno-vectorize
    -fno-slp-vectorize -fPIC -fvisibility=hidden -fno-stack-protector -fno-unwind-tables
    -fno-asynchronous-unwind-tables -Wall -Wextra -Wno-psabi
    -I${CMAKE_CURRENT_SOURCE_DIR} -I${CMAKE_CURRENT_SOURCE_DIR}/include)

# Rows: kind of limbs, and the most columns of a CRT reconstruction (KERNEL_COLUMNS or fewer).
# Without VNNI (group 2) residues are words of 12 bits.
set(_limbs_f64 "whole 1" "slices 1")
set(_limbs_f32 "whole 1" "hilo 1" "slices 1")
set(_limbs_i8 "slices 1" "residues 4" "residues 5" "residues 9")
set(_limbs_words "slices 1" "residues 4" "residues 6" "residues 8" "residues 10")

set(_out ${CMAKE_CURRENT_BINARY_DIR}/prebuilt)
file(MAKE_DIRECTORY ${_out})
if(LIMBER_TILES)
  find_program(LIMBER_LLC NAMES llc-${LIMBER_LLVM_VERSION} llc REQUIRED
               DOC "LLVM's code generator, for the register tiles of prebuilt kernels")
endif()
add_executable(limber_tile_text EXCLUDE_FROM_ALL backends/llvm/kernel/tile_text.c
               backends/llvm/micro.c backends/llvm/amx.c
               backends/llvm/sme.c ir/diag.c)
target_include_directories(limber_tile_text PRIVATE . include ${LIMBER_LLVM_INCLUDE})
set(_rows)
set(_objects)
foreach(tile ${LIMBER_TILES})
  separate_arguments(tile)
  list(POP_FRONT tile isa unit mr nr)
  # group: elements along k that are packed together; bytes: of a packed element
  set(group 1)
  set(matrix 0)
  set(bytes 8)
  if(unit STREQUAL f32)
    set(bytes 4)
  elseif(unit STREQUAL i8)
    set(group ${LIMBER_GROUP_${isa}})
    set(matrix ${LIMBER_MATRIX_${isa}})
    set(bytes 1)
    if(group LESS 4)
      math(EXPR bytes "4 / ${group}")
    endif()
  endif()
  set(name limber_tile_${isa}_${unit})
  add_custom_command(
    OUTPUT ${_out}/${name}.o
    COMMAND limber_tile_text ${name} ${unit} ${mr} ${nr} ${group} ${matrix} ${LIMBER_BITS_${isa}}
            ${isa} > ${_out}/${name}.ll
    COMMAND ${LIMBER_LLC} -O1 -filetype=obj -relocation-model=pic -mtriple=${_triple}
            -mattr=${LIMBER_WORDS_${isa}} ${_out}/${name}.ll -o ${_out}/${name}.o
    DEPENDS limber_tile_text COMMENT "Register tile ${isa} ${unit}" VERBATIM)
  list(APPEND _objects ${_out}/${name}.o)
  set(of ${unit})
  set(wide 0)
  if(group EQUAL 2)
    set(of words)
    set(wide 1)
  endif()
  foreach(limbs ${_limbs_${of}})
    separate_arguments(limbs)
    list(GET limbs 0 kind)
    list(GET limbs 1 columns)
    set(id ${isa}_${unit}_${kind}_${columns})
    add_custom_command(
      OUTPUT ${_out}/${id}.o
      COMMAND ${CMAKE_C_COMPILER_LAUNCHER} ${LIMBER_CLANG} -std=gnu11 -O2 -c -DKERNEL_PREBUILT
              -DKERNEL_LIMB_KIND=LIMB_KIND_${kind} -DKERNEL_LIMB_KIND_${kind}
              -DFIXED_unit=UNIT_${unit} -DFIXED_mr=${mr} -DFIXED_nr=${nr} -DFIXED_group=${group}
              -DFIXED_bytes=${bytes} -DFIXED_matrix=${matrix} -DFIXED_columns=${columns}
              -DFIXED_wide=${wide}
              -Dlimber_pack=limber_pack_${id} -Dlimber_block=limber_block_${id}
              -Dlimber_micro=${name} -Dlimber_micro_open=${name}_open
              -Dlimber_micro_close=${name}_close
              ${LIMBER_FLAGS_${isa}} ${_clang_prebuilt}
              ${_kernel}/kernel.c -o ${_out}/${id}.o
      DEPENDS ${_kernel}/kernel.c ${_headers}
      COMMAND_EXPAND_LISTS COMMENT "Prebuilt kernel ${isa} ${unit} ${kind} ${columns}" VERBATIM)
    list(APPEND _objects ${_out}/${id}.o)
    string(APPEND _rows
           "    F(${isa}, ${unit}, ${kind}, ${columns}, ${mr}, ${nr}, ${group}, ${matrix}) \\\n")
  endforeach()
endforeach()

# Compiles a file of backends/llvm/kernel once for each instruction set.
macro(limber_compile_for isas name)
  foreach(isa ${isas})
    add_custom_command(
      OUTPUT ${_out}/${name}_${isa}.o
      COMMAND ${CMAKE_C_COMPILER_LAUNCHER} ${LIMBER_CLANG} -std=gnu11 -O2 -c -DLIMBER_ISA=${isa}
              ${LIMBER_FLAGS_${isa}} ${_clang_prebuilt} ${ARGN}
              ${_kernel}/${name}.c -o ${_out}/${name}_${isa}.o
      DEPENDS ${_kernel}/${name}.c ${_headers}
      COMMAND_EXPAND_LISTS COMMENT "Code of the library ${name} ${isa}" VERBATIM)
    list(APPEND _objects ${_out}/${name}_${isa}.o)
  endforeach()
endmacro()
limber_compile_for("${LIMBER_VECTORS}" direct)
limber_compile_for("${LIMBER_VECTORS}" functions -fvectorize)
limber_compile_for("${LIMBER_VECTORS}" steps -fvectorize)
limber_compile_for("${LIMBER_VECTORS}" int8 -fvectorize)
limber_compile_for("${LIMBER_DEPTHWISE}" depthwise)
limber_compile_for("${LIMBER_BYTES}" bytes)
file(CONFIGURE OUTPUT ${_out}/prebuilt_rows.h CONTENT
"/* isa, unit, kind of limbs, columns, mr, nr, group, matrix */
#define LIMBER_PREBUILT(F) \\
@_rows@
" @ONLY)
set(LIMBER_PREBUILT_OBJECTS ${_objects})
set_source_files_properties(${LIMBER_PREBUILT_OBJECTS} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
target_sources(limber PRIVATE ${LIMBER_PREBUILT_OBJECTS})
set_property(SOURCE backends/llvm/prebuilt.c APPEND PROPERTY INCLUDE_DIRECTORIES
             ${LIMBER_LLVM_INCLUDE} ${_out})
