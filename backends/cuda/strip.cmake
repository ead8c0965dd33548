# Copies C source without its comments: cmake -DFROM=FILE -DTO=FILE -P strip.cmake
# Kernel sources are part of the library, where comments would take a third of their space, and of
# the keys of kernels that are kept.  Lines that have only a comment are left out.
file(READ "${FROM}" text)
# CMake's lists treat these three characters specially.
string(ASCII 1 semicolon)
string(ASCII 2 open)
string(ASCII 3 close)
string(ASCII 4 mark)
string(REPLACE ";" "${semicolon}" text "${text}")
string(REPLACE "[" "${open}" text "${text}")
string(REPLACE "]" "${close}" text "${text}")
string(REGEX MATCHALL "/\\*([^*]|\\*+[^*/])*\\*+/" comments "${text}")
foreach(comment IN LISTS comments)
  string(REPLACE "${comment}" "${mark}" text "${text}")
endforeach()
string(REGEX REPLACE "[ \t]*${mark}[ \t]*" "${mark}" text "\n${text}")
string(REGEX REPLACE "\n(${mark}\n)+" "\n" text "${text}")
string(REPLACE "${mark}" " " text "${text}")
string(REGEX REPLACE "[ \t]+\n" "\n" text "${text}")
string(REPLACE "${semicolon}" ";" text "${text}")
string(REPLACE "${open}" "[" text "${text}")
string(REPLACE "${close}" "]" text "${text}")
file(WRITE "${TO}" "${text}")
