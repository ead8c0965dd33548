# The library limber::fortran with the module `limber`, compiled by the project's own compiler,
# because module files are specific to a compiler and often to its version. Installations include
# this file, too. binary128 is available if the compiler's real128 is that format.
include(CheckFortranSourceCompiles)
check_fortran_source_compiles("
program wide
  use, intrinsic :: iso_fortran_env
  integer, parameter :: yes = 1/merge(1, 0, digits(1.0_real128) == 113)
end program
" LIMBER_REAL128 SRC_EXT f90)

add_library(limber_fortran STATIC ${LIMBER_FORTRAN_SOURCES}/limber.F90)
set_target_properties(limber_fortran PROPERTIES
  Fortran_MODULE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/limber_modules)
target_compile_options(limber_fortran PRIVATE
  $<$<Fortran_COMPILER_ID:GNU>:-std=f2008>)
target_compile_definitions(limber_fortran PRIVATE $<$<BOOL:${LIMBER_REAL128}>:LIMBER_REAL128>)
target_include_directories(limber_fortran PUBLIC ${CMAKE_CURRENT_BINARY_DIR}/limber_modules)
target_link_libraries(limber_fortran PUBLIC $<IF:$<TARGET_EXISTS:limber>,limber,limber::limber>)
add_library(limber::fortran ALIAS limber_fortran)
