# Settings of every build: of the C library alone, of the Python package and of the tests.
set(LLAMAHERD_LIBLLAMA "" CACHE PATH "Folder of a libllama, with include/ and lib/; \
empty: that of llama-cpp-python")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 99)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT LLAMAHERD_LIBLLAMA)
  find_package(Python REQUIRED COMPONENTS Interpreter Development.Module)
endif()
