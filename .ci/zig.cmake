# SPDX-License-Identifier: MIT
# The toolchain of the wheels: Clang, libc++ and the symbols of an old glibc from the PyPI package ziglang. It links libc++
# statically. `wheels.py` puts zig's commands into the folder ZIG_COMMANDS, under the names that CMake and ccache know.
if(NOT EXISTS "$ENV{ZIG_COMMANDS}/clang++")
	message(FATAL_ERROR "The environment variable ZIG_COMMANDS is '$ENV{ZIG_COMMANDS}', a folder without clang++.")
endif()
set(CMAKE_CXX_COMPILER "$ENV{ZIG_COMMANDS}/clang++")
set(CMAKE_AR "$ENV{ZIG_COMMANDS}/ar" CACHE FILEPATH "")
set(CMAKE_RANLIB "$ENV{ZIG_COMMANDS}/ranlib" CACHE FILEPATH "")
# The linker strips, as zig has no strip of its own.
set(CMAKE_MODULE_LINKER_FLAGS_INIT "-Wl,--strip-all")
set(CMAKE_STRIP "" CACHE FILEPATH "")
# No path of the building machine in messages.
set(CMAKE_CXX_FLAGS_INIT "-ffile-prefix-map=${CMAKE_SOURCE_DIR}/=")
