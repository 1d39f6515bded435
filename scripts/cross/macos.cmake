# Settings for macOS that the files macos-PROCESSOR.cmake share, with Zig's compiler
# (scripts/cross_macos.sh creates the commands). Programs do not run.
set(CMAKE_SYSTEM_NAME Darwin)
set(CMAKE_C_COMPILER ${CMAKE_SYSTEM_PROCESSOR}-macos-cc)
set(CMAKE_CXX_COMPILER ${CMAKE_SYSTEM_PROCESSOR}-macos-c++)
set(CMAKE_AR macos-ar CACHE STRING "")
set(CMAKE_RANLIB macos-ranlib CACHE STRING "")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
