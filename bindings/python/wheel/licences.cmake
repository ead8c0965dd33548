# third_party(NAME VERSION LICENCE PLACE PACKAGE) registers foreign software in a wheel. The notices
# come from the Debian package, if the system has it. install_licences() writes them to the wheel.
set(notices "Libraries of others in this wheel, and their licences.\n\n")
set(texts "")

# Adds a library that the wheel contains to the notices, with its licence's text if that is here.
function(third_party name version licence place package)
  set(text "")
  if(EXISTS /usr/share/doc/${package}/copyright)
    file(READ /usr/share/doc/${package}/copyright text)
    set(text "\n==== ${name} ====\n\n${text}")
  endif()
  set(notices "${notices}${name} ${version}: ${licence} (${place})\n" PARENT_SCOPE)
  set(texts "${texts}${text}" PARENT_SCOPE)
endfunction()

# Installs the notices, and the named texts of licences.
function(install_licences)
  set(file ${CMAKE_CURRENT_BINARY_DIR}/licences/THIRD-PARTY.txt)
  file(WRITE ${file} "${notices}${texts}")
  install(FILES ${file} DESTINATION ${SKBUILD_METADATA_DIR}/licenses)
  foreach(name ${ARGN})     # the system's texts
    install(FILES /usr/share/common-licenses/${name}
            DESTINATION ${SKBUILD_METADATA_DIR}/licenses OPTIONAL)
  endforeach()
endfunction()
