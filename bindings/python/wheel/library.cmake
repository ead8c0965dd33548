# How liblimber differs in a wheel.  Wheels hold no links, so its file has the name that programs
# load.  libffi is part of it where there is an archive, and hidden: the library is loaded into
# programs that have a libffi of their own.
set_property(TARGET limber PROPERTY VERSION)
find_library(LIMBER_FFI_ARCHIVE libffi.a HINTS ${FFI_LIBRARY_DIRS})
if(LIMBER_FFI_ARCHIVE)
  set_property(TARGET PkgConfig::FFI PROPERTY INTERFACE_LINK_LIBRARIES ${LIMBER_FFI_ARCHIVE})
  target_link_options(limber PRIVATE LINKER:--exclude-libs,libffi.a)
endif()
