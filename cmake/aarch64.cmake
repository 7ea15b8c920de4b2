# SPDX-License-Identifier: Apache-2.0
# Toolchain file: builds for aarch64 Linux with Debian's cross compiler and the libraries that tests/aarch64/sysroot.sh
# unpacks into MESHLO_SYSROOT, and runs programs of the build and its tests with qemu's user mode.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc CACHE STRING "")
set(MESHLO_SYSROOT ${CMAKE_CURRENT_LIST_DIR}/../build/aarch64-root CACHE PATH "Debian's arm64 libraries")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES MESHLO_SYSROOT)
set(CMAKE_SYSROOT ${MESHLO_SYSROOT})
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L ${MESHLO_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${MESHLO_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${MESHLO_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${MESHLO_SYSROOT}/usr/share/pkgconfig)
