# How liblimber differs in a wheel.  Wheels hold no links, so its file has the name that programs
# load.  libffi is part of it where there is an archive, and hidden: the library is loaded into
# programs that have a libffi of their own.
set_property(TARGET limber PROPERTY VERSION)
find_library(LIMBER_FFI_ARCHIVE libffi.a HINTS ${FFI_LIBRARY_DIRS})
if(LIMBER_FFI_ARCHIVE)
  set_property(TARGET PkgConfig::FFI PROPERTY INTERFACE_LINK_LIBRARIES ${LIMBER_FFI_ARCHIVE})
  target_link_options(limber PRIVATE LINKER:--exclude-libs,libffi.a)
endif()

# Functions of glibc in the versions of 2.28, in each file of the wheel; two libraries are named
# that have them there and newer systems keep empty.
find_library(LIMBER_OLD_PTHREAD libpthread.so.0)
find_library(LIMBER_OLD_DL libdl.so.2)
if(LIMBER_OLD_PTHREAD AND LIMBER_OLD_DL)
  add_library(limber_old_glibc OBJECT bindings/python/wheel/old_glibc.c)
  set_target_properties(limber_old_glibc PROPERTIES POSITION_INDEPENDENT_CODE ON)
  foreach(item $<TARGET_OBJECTS:limber_old_glibc> m -Wl,--push-state,--no-as-needed
          ${LIMBER_OLD_PTHREAD} ${LIMBER_OLD_DL} -Wl,--pop-state)
    target_link_libraries(limber PRIVATE ${item} INTERFACE $<BUILD_INTERFACE:${item}>)
  endforeach()
endif()
