# SPDX-License-Identifier: MIT
# The toolchain of the wheels: Clang, libc++ and the symbols of glibc 2.28 from the PyPI package ziglang. It links libc++
# statically. The environment variable ZIG is the path of the program.
if(NOT EXISTS "$ENV{ZIG}")
	message(FATAL_ERROR "The environment variable ZIG must be the path of zig, and is '$ENV{ZIG}'.")
endif()
set(CMAKE_CXX_COMPILER "$ENV{ZIG}" c++ -target x86_64-linux-gnu.2.28)
set(CMAKE_CXX_ARCHIVE_CREATE "$ENV{ZIG} ar qc <TARGET> <OBJECTS>")
set(CMAKE_CXX_ARCHIVE_FINISH "$ENV{ZIG} ranlib <TARGET>")
# The linker strips, as zig has no strip of its own.
set(CMAKE_MODULE_LINKER_FLAGS_INIT "-Wl,--strip-all")
set(CMAKE_STRIP "" CACHE FILEPATH "")
# No path of the building machine in messages.
set(CMAKE_CXX_FLAGS_INIT "-ffile-prefix-map=${CMAKE_SOURCE_DIR}/=")
# zig keeps what it has compiled, and ccache does not know it.
set(CCACHE OFF)
