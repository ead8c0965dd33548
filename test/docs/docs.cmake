# Runs what the pages of the documentation tell a reader to run.
find_package(Python3 COMPONENTS Interpreter QUIET)
if(Python3_EXECUTABLE AND NOT LIMBER_SANITIZE AND TARGET limber_cli)
  add_test(NAME pages COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/pages.py
           ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
  add_test(NAME pages_find COMMAND ${CMAKE_COMMAND} -E env PYTHON=${Python3_EXECUTABLE}
           sh ${CMAKE_CURRENT_LIST_DIR}/pages_find.sh
           ${CMAKE_CURRENT_LIST_DIR}/pages.py ${PROJECT_BINARY_DIR})
endif()
if(LIMBER_DOXYGEN)
  add_test(NAME doxygen COMMAND ${CMAKE_COMMAND} --build ${PROJECT_BINARY_DIR} --target docs)
endif()
