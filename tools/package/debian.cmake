# Makes the changes to an installation that Debian's policy for packages requires.  cpack runs this
# in the folder that it packs.
set(_share ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr/share)
set(_doc ${_share}/doc/limber)

file(READ ${_doc}/LICENSE _license)
string(REGEX MATCH "Copyright[^\n]*" _holder "${_license}")
string(REGEX REPLACE "^Copyright *(\\([cC]\\))? *" "" _holder "${_holder}")
string(REGEX REPLACE "\n\n" "\n.\n" _license "${_license}")
string(REGEX REPLACE "\n([^\n])" "\n \\1" _license "\n${_license}")
file(WRITE ${_doc}/copyright
     "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n"
     "Upstream-Name: limber\n\nFiles: *\nCopyright: ${_holder}\nLicense: BSD-3-clause${_license}")

file(WRITE ${_doc}/changelog
     "limber (${CPACK_PACKAGE_VERSION}) unstable; urgency=low\n\n"
     "  * CHANGELOG.md tells what is new.\n\n"
     " -- ${CPACK_PACKAGE_CONTACT}  Thu, 01 Jan 2026 00:00:00 +0000\n")
# Run paths are removed, since the loader searches /usr/lib anyway.
set(_lib ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr/lib)
file(GLOB _libraries ${_lib}/*.so ${_lib}/limber/*.so*)
foreach(_file ${_libraries})
  if(NOT IS_SYMLINK ${_file})
    file(RPATH_REMOVE FILE ${_file})
  endif()
endforeach()

file(WRITE ${_share}/lintian/overrides/limber
"# One package has the library, its headers and the command line.
limber: package-name-doesnt-match-sonames *
limber: link-to-shared-library-in-wrong-package *
# These libraries are loaded by name (LD_PRELOAD); nothing links to a version of them.
limber: shared-library-lacks-version *
# The package is found relative to its prefix.
limber: pkg-config-unavailable-for-cross-compilation *
# CPack writes these files.
limber: maintscript-calls-ldconfig *
")

file(GLOB _texts ${_share}/man/man?/* ${_doc}/changelog)
execute_process(COMMAND gzip -9nf ${_texts} COMMAND_ERROR_IS_FATAL ANY)
