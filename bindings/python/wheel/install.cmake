# These files are installed in a wheel alone, where the package is the prefix of the installation.
install(TARGETS limber EXPORT limber
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} NAMELINK_SKIP)
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/wheel/liblimber.so "INPUT(liblimber.so.0)\n")
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/wheel/liblimber.so     # instead of a link
        DESTINATION ${CMAKE_INSTALL_LIBDIR})
foreach(name libblas libblas64)     # for -lblas
  if(TARGET limber_${name})
    file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/wheel/${name}.so "INPUT(${name}.so.3)\n")
    install(FILES ${CMAKE_CURRENT_BINARY_DIR}/wheel/${name}.so
            DESTINATION ${CMAKE_INSTALL_LIBDIR}/limber)
  endif()
endforeach()

include(bindings/python/wheel/licences.cmake)
third_party(libffi "${FFI_VERSION}" MIT "a part of liblimber" libffi-dev)
third_party(xxHash "${XXHASH_VERSION}" BSD-2-Clause "a part of liblimber" libxxhash-dev)
if(TARGET limber_cli)
  # Libraries that the command line needs and the `manylinux` platforms lack are included as
  # replaceable files (MPFR and GMP are under the LGPL), in a folder that no other program searches.
  set(bundled "${CMAKE_INSTALL_LIBDIR}/bundled")
  set(travels "^lib(mpfr|gmp|popt|cjson)\\.so\\.")
  install(CODE "
    file(GET_RUNTIME_DEPENDENCIES EXECUTABLES \"$<TARGET_FILE:limber_cli>\"
         PRE_INCLUDE_REGEXES [[${travels}]] PRE_EXCLUDE_REGEXES .
         RESOLVED_DEPENDENCIES_VAR files UNRESOLVED_DEPENDENCIES_VAR missing)
    if(missing)
      message(FATAL_ERROR \"not found: \${missing}\")
    endif()
    foreach(file \${files})
      get_filename_component(name \${file} NAME)
      file(REAL_PATH \${file} real)
      file(INSTALL \${real} DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${bundled}\" RENAME \${name})
    endforeach()")

  pkg_check_modules(GMP QUIET gmp)
  set(lgpl LGPL-3.0-or-later)
  set(lgpl_texts GPL-3 LGPL-3)
  third_party(MPFR "${MPFR_VERSION}" ${lgpl} ${bundled} libmpfr-dev)
  third_party(GMP "${GMP_VERSION}" "${lgpl} OR GPL-2.0-or-later" ${bundled} libgmp-dev)
  set(popt_place ${bundled})
  if(LIMBER_POPT_ARCHIVE)
    set(popt_place "a part of the command line")
  endif()
  third_party(popt "${POPT_VERSION}" MIT ${popt_place} libpopt-dev)
  third_party(cJSON "${CJSON_VERSION}" MIT ${bundled} libcjson-dev)
endif()
if(TARGET limber_lapack32 OR TARGET limber_lapack64)
  third_party(LAPACK 3.11.0 BSD-3-Clause "limber/liblimber_lapack*.so" liblapack-dev)
endif()
install_licences(${lgpl_texts})
