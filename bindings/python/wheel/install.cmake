# What a wheel holds beside the common part: the package is the prefix of the installation.
install(TARGETS limber EXPORT limber
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} NAMELINK_SKIP)
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/wheel/liblimber.so "INPUT(liblimber.so.0)\n")
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/wheel/liblimber.so     # in the place of a link
        DESTINATION ${CMAKE_INSTALL_LIBDIR})

# What the command line needs and the `manylinux` platforms lack travels with it, as files that
# can be replaced (MPFR and GMP are under the LGPL), in a folder that no other program looks into.
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

# The licences of what is in the wheel and not ours, with the notices where the system has them.
set(notices ${CMAKE_CURRENT_BINARY_DIR}/wheel/THIRD-PARTY.txt)
file(WRITE ${notices} "Libraries of others in this wheel, and their licences.\n\n")
foreach(library
    "libffi|${FFI_VERSION}|MIT|a part of liblimber.so.0|libffi-dev|https://sourceware.org/libffi"
    "xxHash|${XXHASH_VERSION}|BSD-2-Clause|a part of liblimber.so.0|libxxhash-dev|https://xxhash.com"
    "MPFR|${MPFR_VERSION}|LGPL-3.0-or-later|lib/bundled|libmpfr-dev|https://www.mpfr.org"
    "GMP||LGPL-3.0-or-later OR GPL-2.0-or-later|lib/bundled|libgmp-dev|https://gmplib.org"
    "popt|${POPT_VERSION}|MIT|lib/bundled|libpopt-dev|https://github.com/rpm-software-management/popt"
    "cJSON|${CJSON_VERSION}|MIT|lib/bundled|libcjson-dev|https://github.com/DaveGamble/cJSON")
  string(REPLACE "|" ";" library "${library}")
  list(GET library 0 name)
  list(GET library 1 version)
  list(GET library 2 licence)
  list(GET library 3 place)
  list(GET library 4 package)
  list(GET library 5 home)
  file(APPEND ${notices} "${name} ${version}: ${licence} (${place}; source: ${home})\n")
  set(notice /usr/share/doc/${package}/copyright)
  if(EXISTS ${notice})
    file(READ ${notice} text)
    string(APPEND texts "\n==== ${name} ====\n\n${text}")
  endif()
endforeach()
file(APPEND ${notices} "${texts}")
set(licences ${SKBUILD_METADATA_DIR}/licenses)
install(FILES ${notices} DESTINATION ${licences})
foreach(name GPL-3 LGPL-3)
  install(FILES /usr/share/common-licenses/${name} DESTINATION ${licences} OPTIONAL)
endforeach()
