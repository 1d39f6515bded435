# Installs the C library for programs of any build system: headers, a library with a version,
# a file for pkg-config and one for find_package(llamaherd).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# Values of the public headers: version_of(VARIABLE HEADER NAME)
function(version_of variable header name)
  file(STRINGS ${CMAKE_CURRENT_SOURCE_DIR}/${header} line REGEX "^#define ${name} [0-9]+$")
  string(REGEX MATCH "[0-9]+$" value "${line}")
  if(value STREQUAL "")
    message(FATAL_ERROR "${header} does not define ${name}")
  endif()
  set(${variable} ${value} PARENT_SCOPE)
endfunction()
foreach(part MAJOR MINOR PATCH)
  version_of(${part} llamaherd.h LH_VERSION_${part})
endforeach()
version_of(LH_ABI llamaherd.h LH_ABI_VERSION)
version_of(NEWRLLAMA_ABI newrllama_capi.h NEWRLLAMA_ABI_VERSION)
set(LLAMAHERD_VERSION ${MAJOR}.${MINOR}.${PATCH})

# A program loads only a library whose two interfaces have the versions that it was linked to.
# The path of libllama is recorded, except in a folder of the system.
set_target_properties(
  llamaherd PROPERTIES
  VERSION ${LLAMAHERD_VERSION}
  SOVERSION ${LH_ABI}.${NEWRLLAMA_ABI}
  INSTALL_RPATH "${HERE}"
  INSTALL_RPATH_USE_LINK_PATH ON
  PUBLIC_HEADER "llamaherd.h;newrllama_capi.h")
target_include_directories(llamaherd INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

install(TARGETS llamaherd EXPORT llamaherd
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
        PUBLIC_HEADER DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
set(CONFIG_FOLDER ${CMAKE_INSTALL_LIBDIR}/cmake/llamaherd)
install(EXPORT llamaherd NAMESPACE llamaherd:: FILE llamaherdConfig.cmake
        DESTINATION ${CONFIG_FOLDER})
write_basic_package_version_file(
  llamaherdConfigVersion.cmake VERSION ${LLAMAHERD_VERSION} COMPATIBILITY SameMinorVersion)
# Relative paths, because `cmake --install --prefix` may name another folder.
file(RELATIVE_PATH INCLUDE_FROM_PKGCONFIG ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig
     ${CMAKE_INSTALL_FULL_INCLUDEDIR})
configure_file(llamaherd.pc.in llamaherd.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/llamaherdConfigVersion.cmake
        DESTINATION ${CONFIG_FOLDER})
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/llamaherd.pc
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
