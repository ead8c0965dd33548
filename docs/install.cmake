# SPDX-License-Identifier: BSD-3-Clause
# Pages link to files of the sources.  Of those the headers lie elsewhere when installed, and the
# others are not there: their links become plain words.
#
#   PAGES       folder of the installed README.md and docs
#   HEADERS     folder of the headers, from PAGES/docs
file(GLOB pages ${PAGES}/*.md ${PAGES}/docs/*.md)
foreach(page ${pages})
  file(READ ${page} text)
  string(REPLACE "](../include/" "](${HEADERS}/" text "${text}")
  string(REGEX REPLACE "\\[([^][]+)\\]\\((\\.\\./)?(ir|test|backends)/[^)]*\\)" "\\1" text "${text}")
  file(WRITE ${page} "${text}")
endforeach()
