# Makes layout.f90 from layout.c: a program that prints the layout of the Fortran module's types.
# Also checks the sizes that these types store in their first field.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/layout.c)
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/layout.c lines REGEX "^    (TYPE|FIELD)\\(")
set(calls "")
set(bodies "")
set(type "")
foreach(line ${lines} "    TYPE(end)")
  if(line MATCHES "TYPE\\((.*)\\)")
    if(type)
      string(APPEND bodies "  end subroutine\n")
    endif()
    set(type ${CMAKE_MATCH_1})
    set(name ${type})
    if(type STREQUAL "limber_scheme")       # a function of the module
      set(name limber_scheme_row)
    endif()
    if(type STREQUAL "end")
      break()
    endif()
    string(APPEND calls "  call ${type}_layout()\n")
    string(APPEND bodies "\n  subroutine ${type}_layout()\n    type(${name}), target :: x\n\n"
      "    call put('${type}', '-', c_loc(x), c_loc(x), c_sizeof(x))\n")
  elseif(line MATCHES "FIELD\\([a-z_]+, ([a-z_]+)\\)")
    set(field ${CMAKE_MATCH_1})
    string(APPEND bodies "    call put('${type}', '${field}', c_loc(x), c_loc(x%${field}), &\n"
      "             c_sizeof(x%${field}))\n")
    if(field STREQUAL "size" AND NOT type STREQUAL "limber_format")
      string(APPEND bodies
        "    if (x%size /= c_sizeof(x)) print *, '${type} starts with another size'\n")
    endif()
    if(field STREQUAL "part_size")
      string(APPEND bodies
        "    if (x%part_size /= c_sizeof(part)) print *, '${type} has parts of another size'\n")
    endif()
  endif()
endforeach()
file(CONFIGURE OUTPUT layout.f90 @ONLY CONTENT "program layout
  use limber
  implicit none
  type(limber_part) :: part

${calls}
contains

  subroutine put(kind, field, base, place, bytes)
    character(len=*), intent(in) :: kind, field
    type(c_ptr), intent(in) :: base, place
    integer(c_size_t), intent(in) :: bytes
    integer(c_intptr_t) :: from, to

    from = transfer(base, from)
    to = transfer(place, to)
    print '(a, 1x, a, 1x, i0, 1x, i0)', kind, field, to - from, bytes
  end subroutine
${bodies}end program
")
