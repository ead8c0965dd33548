# Kernels that are compiled when the library is built, from the source and the generator of
# micro-kernels that are also used at run time.  They serve all plans with their tile and limbs.

if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  set(_target --target=aarch64-unknown-linux-gnu)
  set(_triple aarch64-unknown-linux-gnu)
  set(_clang_neon -march=armv8-a)
  set(_clang_dotprod -march=armv8-a+dotprod)
  set(_clang_i8mm -march=armv8-a+dotprod+i8mm)
  set(_features_neon +neon,+fp-armv8)
  set(_features_dotprod ${_features_neon},+dotprod)
  set(_features_i8mm ${_features_dotprod},+i8mm)
  # Only micro-kernels use SVE: other code has vectors of fixed length, which are NEON's.
  set(_features_sve256 ${_features_neon},+sve)
  set(_features_sve512 ${_features_neon},+sve)
  set(_features_sve256i8mm ${_features_sve256},+i8mm)
  set(_features_sve512i8mm ${_features_sve512},+i8mm)
  set(_features_sme256 ${_features_neon},+sme,+sme-f64f64)
  set(_features_sme512 ${_features_neon},+sme,+sme-f64f64)
else()
  set(_target)
  set(_triple x86_64-unknown-linux-gnu)
  set(_clang_avx2 -mavx2 -mfma -mbmi -mbmi2 -mlzcnt -mpopcnt)
  set(_clang_avxvnni ${_clang_avx2} -mavxvnni)
  set(_clang_avx512 ${_clang_avx2} -mavx512f -mavx512bw -mavx512dq -mavx512vl
                    -mprefer-vector-width=512)
  set(_clang_avx512vnni ${_clang_avx512} -mavx512vnni)
  set(_clang_amx ${_clang_avx512vnni} -mamx-tile -mamx-int8)
endif()

set(_clang_prebuilt ${_target} ${_sysroot} -ffp-contract=off -fno-math-errno -fno-vectorize
    -fno-slp-vectorize -fPIC -fvisibility=hidden -fno-stack-protector -fno-unwind-tables
    -fno-asynchronous-unwind-tables -Wall -Wextra -Wno-psabi
    -I${CMAKE_CURRENT_SOURCE_DIR} -I${CMAKE_CURRENT_SOURCE_DIR}/include)

# Rows: isa, unit, mr, nr, group, bytes of a packed element, matrix, bits of a vector.  The pass
# `tile` sets these for such a target.
set(_tiles
  "avx2 f64 6 8 1 8 0 256"
  "avx2 f32 6 16 1 4 0 256"
  "avx2 i8 6 16 2 2 0 256"
  "avxvnni i8 6 16 4 1 0 256"
  "avx512 f64 12 16 1 8 0 512"
  "avx512 f32 12 32 1 4 0 512"
  "avx512 i8 12 32 2 2 0 512"
  "avx512vnni i8 12 32 4 1 0 512"
  "amx i8 32 32 4 1 16 512")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  set(_tiles
    "neon f64 12 4 1 8 0 128"
    "neon f32 12 8 1 4 0 128"
    "neon i8 12 8 1 4 0 128"
    "dotprod i8 12 8 4 1 0 128"
    "i8mm i8 12 8 8 1 0 128"
    "sve256 f64 12 8 1 8 0 256"
    "sve256 f32 12 16 1 4 0 256"
    "sve256 i8 12 16 4 1 0 256"
    "sve256i8mm i8 8 16 8 1 0 256"
    "sve512 f64 12 16 1 8 0 512"
    "sve512 f32 12 32 1 4 0 512"
    "sve512 i8 12 32 4 1 0 512"
    "sve512i8mm i8 8 32 8 1 0 512"
    "sme256 f64 8 16 1 8 0 256"
    "sme256 f32 16 16 1 4 0 256"
    "sme256 i8 16 16 4 1 0 256"
    "sme512 f64 16 32 1 8 0 512"
    "sme512 f32 32 32 1 4 0 512"
    "sme512 i8 32 32 4 1 0 512")
  set(_all neon)
  set(_depthwise neon)
  set(_bytes)
else()
  set(_all avx2 avx512)
  set(_depthwise avx2 avx512 avx512vnni)
  set(_bytes avx2 avxvnni avx512vnni)
endif()
# Rows: kind of limbs, and the most columns of a CRT reconstruction (KERNEL_COLUMNS or fewer).
# Without VNNI (group 2) residues are words of 12 bits.
set(_limbs_f64 "whole 1" "slices 1")
set(_limbs_f32 "whole 1" "hilo 1" "slices 1")
set(_limbs_i8 "slices 1" "residues 4" "residues 5" "residues 9")
set(_limbs_words "slices 1" "residues 4" "residues 6" "residues 8" "residues 10")

set(_out ${CMAKE_CURRENT_BINARY_DIR}/prebuilt)
file(MAKE_DIRECTORY ${_out})
find_program(LIMBER_LLC NAMES llc-${LIMBER_LLVM_VERSION} llc REQUIRED
             DOC "LLVM's code generator, for the register tiles of prebuilt kernels")
add_executable(limber_tile_text EXCLUDE_FROM_ALL backends/llvm/kernel/tile_text.c
               backends/llvm/micro.c backends/llvm/amx.c
               backends/llvm/sme.c ir/diag.c)
target_include_directories(limber_tile_text PRIVATE . include ${LIMBER_LLVM_INCLUDE})
set(_rows)
set(_objects)
foreach(tile ${_tiles})
  separate_arguments(tile)
  list(GET tile 0 isa)
  list(GET tile 1 unit)
  list(GET tile 2 mr)
  list(GET tile 3 nr)
  list(GET tile 4 group)
  list(GET tile 5 bytes)
  list(GET tile 6 matrix)
  list(GET tile 7 bits)
  set(name limber_tile_${isa}_${unit})
  set(features ${_features_${isa}})
  if(NOT features)
    string(REPLACE "-m" "+" features "${_clang_${isa}}")
    list(FILTER features EXCLUDE REGEX "prefer")
    string(REPLACE ";" "," features "${features}")
  endif()
  add_custom_command(
    OUTPUT ${_out}/${name}.o
    COMMAND limber_tile_text ${name} ${unit} ${mr} ${nr} ${group} ${matrix} ${bits} ${isa}
            > ${_out}/${name}.ll
    COMMAND ${LIMBER_LLC} -O1 -filetype=obj -relocation-model=pic -mtriple=${_triple}
            -mattr=${features} ${_out}/${name}.ll -o ${_out}/${name}.o
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
              ${_clang_${isa}} ${_clang_prebuilt}
              ${_kernel}/kernel.c -o ${_out}/${id}.o
      DEPENDS ${_kernel}/kernel.c ${_headers}
      COMMAND_EXPAND_LISTS COMMENT "Prebuilt kernel ${isa} ${unit} ${kind} ${columns}" VERBATIM)
    list(APPEND _objects ${_out}/${id}.o)
    string(APPEND _rows
           "    F(${isa}, ${unit}, ${kind}, ${columns}, ${mr}, ${nr}, ${group}, ${matrix}) \\\n")
  endforeach()
endforeach()
foreach(isa ${_all})
  add_custom_command(
    OUTPUT ${_out}/direct_${isa}.o
    COMMAND ${CMAKE_C_COMPILER_LAUNCHER} ${LIMBER_CLANG} -std=gnu11 -O2 -c
            -Dlimber_direct_run=limber_direct_run_${isa}
            -Dlimber_direct_strip=limber_direct_strip_${isa} ${_clang_${isa}} ${_clang_prebuilt}
            ${_kernel}/direct.c -o ${_out}/direct_${isa}.o
    DEPENDS ${_kernel}/direct.c ${_kernel}/direct.h ${_headers}
    COMMAND_EXPAND_LISTS COMMENT "Small native products ${isa}" VERBATIM)
  list(APPEND _objects ${_out}/direct_${isa}.o)
endforeach()
foreach(isa ${_bytes})
  add_custom_command(
    OUTPUT ${_out}/bytes_${isa}.o
    COMMAND ${CMAKE_C_COMPILER_LAUNCHER} ${LIMBER_CLANG} -std=gnu11 -O2 -c
            -Dlimber_bytes=limber_bytes_${isa} -Dlimber_bytes_join=limber_bytes_join_${isa}
            -Dlimber_bytes_planes=limber_bytes_planes_${isa} ${_clang_${isa}} ${_clang_prebuilt}
            ${_kernel}/bytes.c -o ${_out}/bytes_${isa}.o
    DEPENDS ${_kernel}/bytes.c ${_kernel}/bytes.h
    COMMAND_EXPAND_LISTS COMMENT "Convolutions of bytes ${isa}" VERBATIM)
  list(APPEND _objects ${_out}/bytes_${isa}.o)
endforeach()
foreach(isa ${_depthwise})
  add_custom_command(
    OUTPUT ${_out}/depthwise_${isa}.o
    COMMAND ${CMAKE_C_COMPILER_LAUNCHER} ${LIMBER_CLANG} -std=gnu11 -O2 -c
            -Dlimber_depthwise_cut=limber_depthwise_cut_${isa}
            -Dlimber_depthwise_piece=limber_depthwise_piece_${isa}
            -Dlimber_depthwise_wide=limber_depthwise_wide_${isa}
            ${_clang_${isa}} ${_clang_prebuilt}
            ${_kernel}/depthwise.c -o ${_out}/depthwise_${isa}.o
    DEPENDS ${_kernel}/depthwise.c ${_headers}
    COMMAND_EXPAND_LISTS COMMENT "Depthwise convolution ${isa}" VERBATIM)
  list(APPEND _objects ${_out}/depthwise_${isa}.o)
endforeach()
foreach(isa ${_all})
  add_custom_command(
    OUTPUT ${_out}/functions_${isa}.o
    COMMAND ${CMAKE_C_COMPILER_LAUNCHER} ${LIMBER_CLANG} -std=gnu11 -O2 -c
            -DRUN=limber_functions_run_${isa} -DLOOK_UP=limber_functions_look_up_${isa}
            -DLOOK_UP_BYTES=limber_functions_look_up_bytes
            -DWIDEN=limber_functions_widen_${isa} -DNARROW=limber_functions_narrow_${isa}
            ${_clang_${isa}} ${_clang_prebuilt} -fvectorize
            ${_kernel}/functions.c -o ${_out}/functions_${isa}.o
    DEPENDS ${_kernel}/functions.c ${_headers}
    COMMAND_EXPAND_LISTS COMMENT "Elementwise functions ${isa}" VERBATIM)
  list(APPEND _objects ${_out}/functions_${isa}.o)
  add_custom_command(
    OUTPUT ${_out}/steps_${isa}.o
    COMMAND ${CMAKE_C_COMPILER_LAUNCHER} ${LIMBER_CLANG} -std=gnu11 -O2 -c
            -DRUN=limber_steps_run_${isa} -DSTORE=limber_steps_store_${isa}
            ${_clang_${isa}} ${_clang_prebuilt} -fvectorize
            ${_kernel}/steps.c -o ${_out}/steps_${isa}.o
    DEPENDS ${_kernel}/steps.c ${_headers}
    COMMAND_EXPAND_LISTS COMMENT "Steps of epilogues ${isa}" VERBATIM)
  list(APPEND _objects ${_out}/steps_${isa}.o)
  add_custom_command(
    OUTPUT ${_out}/narrow_${isa}.o
    COMMAND ${CMAKE_C_COMPILER_LAUNCHER} ${LIMBER_CLANG} -std=gnu11 -O2 -c
            -DNARROW=limber_narrow_bytes_${isa} -DWIDEN=limber_narrow_widen_${isa}
            ${_clang_${isa}} ${_clang_prebuilt} -fvectorize
            ${_kernel}/narrow.c -o ${_out}/narrow_${isa}.o
    DEPENDS ${_kernel}/narrow.c ${_headers}
    COMMAND_EXPAND_LISTS COMMENT "Floats that hold bytes ${isa}" VERBATIM)
  list(APPEND _objects ${_out}/narrow_${isa}.o)
endforeach()
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
set_property(SOURCE backends/llvm/prebuilt.c PROPERTY COMPILE_DEFINITIONS LIMBER_HAVE_PREBUILT)
