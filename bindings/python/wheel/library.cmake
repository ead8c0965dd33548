# Differences of liblimber in a wheel. Wheels contain no links, so the file has the name that
# programs load. libffi is linked statically if there is an archive, and hidden, because programs
# that load the library may have their own libffi.
set_property(TARGET limber PROPERTY VERSION)
find_library(LIMBER_FFI_ARCHIVE libffi.a HINTS ${FFI_LIBRARY_DIRS})
if(LIMBER_FFI_ARCHIVE)
  set_property(TARGET PkgConfig::FFI PROPERTY INTERFACE_LINK_LIBRARIES ${LIMBER_FFI_ARCHIVE})
  target_link_options(limber PRIVATE LINKER:--exclude-libs,libffi.a)
endif()

# Binds glibc functions to the versions of 2.28 in each file of the wheel. Two libraries are named
# that have functions there which newer systems moved elsewhere.
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
