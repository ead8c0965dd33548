# SPDX-License-Identifier: BSD-3-Clause
# Cross-builds for AArch64 Linux with Debian's gcc-aarch64-linux-gnu.  Libraries are in the folder
# LIMBER_AARCH64_ROOT, which tools/aarch64_root.sh makes; programs run under qemu-user.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)

set(LIMBER_AARCH64_ROOT "" CACHE PATH "Folder with AArch64 libraries and headers")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES LIMBER_AARCH64_ROOT)
set(CMAKE_SYSROOT ${LIMBER_AARCH64_ROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_DIR} "")
set(ENV{PKG_CONFIG_LIBDIR} ${CMAKE_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${CMAKE_SYSROOT})
# The loader is called directly: qemu's option -L would make the folder appear as "/".
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64;${CMAKE_SYSROOT}/lib/ld-linux-aarch64.so.1
    --library-path
    ${CMAKE_SYSROOT}/lib/aarch64-linux-gnu:${CMAKE_SYSROOT}/usr/lib/aarch64-linux-gnu)
