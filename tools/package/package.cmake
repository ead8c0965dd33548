# Man pages of an installation, and packages of it (cpack).

set(_script ${CMAKE_CURRENT_LIST_DIR}/man.sh)
set(_man ${CMAKE_CURRENT_BINARY_DIR}/man)
file(GLOB _headers CONFIGURE_DEPENDS include/limber/*.h)
set(_pages ${_man}/limber.3)
add_custom_command(OUTPUT ${_man}/limber.3
  COMMAND ${CMAKE_COMMAND} -E env HEADERS=${CMAKE_CURRENT_SOURCE_DIR}/include/limber
          sh ${_script} 3 ${_man} ${PROJECT_VERSION}
  DEPENDS ${_script} ${_headers} COMMENT "limber(3)" VERBATIM)
install(FILES ${_man}/limber.3 DESTINATION ${CMAKE_INSTALL_MANDIR}/man3)
if(TARGET limber_cli AND NOT CMAKE_CROSSCOMPILING)
  list(APPEND _pages ${_man}/limber.1)
  add_custom_command(OUTPUT ${_man}/limber.1
    COMMAND ${CMAKE_COMMAND} -E env LIMBER=$<TARGET_FILE:limber_cli> ASAN_OPTIONS=detect_leaks=0
            sh ${_script} 1 ${_man} ${PROJECT_VERSION}
    DEPENDS limber_cli ${_script} COMMENT "limber(1)" VERBATIM)
  install(FILES ${_man}/limber.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()
add_custom_target(limber_man ALL DEPENDS ${_pages})

set(CPACK_PACKAGE_NAME limber)
set(CPACK_PACKAGE_VENDOR "the Limber authors")
set(CPACK_PACKAGE_CONTACT "the Limber authors <limber@example.org>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY
    "Products of matrices in the format and at the accuracy asked for")
set(CPACK_PACKAGE_DESCRIPTION
    "A C library, a command line and libraries that stand before a BLAS.
Matrices are multiplied and images convolved in the number format and
at the accuracy that a caller states: numbers are cut into pieces that
the machine's units multiply fast.")
set(CPACK_RESOURCE_FILE_LICENSE ${CMAKE_CURRENT_SOURCE_DIR}/LICENSE)
set(CPACK_GENERATOR DEB)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION math)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/debian.cmake)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "libllvm${LIMBER_LLVM_VERSION}")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
# Packages that are linked to liblimber depend on this one; those linked to a libblas do not.
set(_deb ${CMAKE_CURRENT_BINARY_DIR}/deb)
file(WRITE ${_deb}/triggers "activate-noawait ldconfig\n")
file(WRITE ${_deb}/shlibs "liblimber 0 limber (>= ${PROJECT_VERSION})\n")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${_deb}/triggers ${_deb}/shlibs)
include(CPack)
