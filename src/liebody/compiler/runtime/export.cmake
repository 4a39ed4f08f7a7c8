# The library @NAME@, and its self-test.
#
# By itself:              cmake -B build && cmake --build build && ctest --test-dir build
#                         cmake --install build --prefix ...
# In another project:     add_subdirectory(...)
# Installed:              find_package(liebody_@NAME@)
# and there:              target_link_libraries(... liebody::@NAME@)
cmake_minimum_required(VERSION 3.10)
project(liebody_@NAME@ C)

# The self-test needs an operating system that prints, and a build for this machine.
set(alone OFF)
if(CMAKE_SOURCE_DIR STREQUAL CMAKE_CURRENT_SOURCE_DIR)
  set(alone ON)
endif()
set(test ${alone})
if(CMAKE_CROSSCOMPILING)
  set(test OFF)
endif()
option(LIEBODY_@NAME@_TEST "Build the self-test of liebody::@NAME@" ${test})
option(LIEBODY_@NAME@_INSTALL "Install liebody::@NAME@" ${alone})
if(alone AND NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

include(GNUInstallDirs)
add_library(liebody_@NAME@ @NAME@.c)
add_library(liebody::@NAME@ ALIAS liebody_@NAME@)
set_target_properties(liebody_@NAME@ PROPERTIES
  C_STANDARD 99 C_EXTENSIONS OFF EXPORT_NAME @NAME@ WINDOWS_EXPORT_ALL_SYMBOLS ON)
target_include_directories(liebody_@NAME@ PUBLIC
  $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
if(NOT WIN32)
  target_link_libraries(liebody_@NAME@ PUBLIC m)
endif()

if(LIEBODY_@NAME@_TEST)
  enable_testing()
  add_executable(liebody_@NAME@_test @NAME@_test.c)
  target_link_libraries(liebody_@NAME@_test PRIVATE liebody_@NAME@)
  set_target_properties(liebody_@NAME@_test PROPERTIES C_STANDARD 99 C_EXTENSIONS OFF)
  add_test(NAME @NAME@ COMMAND liebody_@NAME@_test)
endif()

if(LIEBODY_@NAME@_INSTALL)
  install(TARGETS liebody_@NAME@ EXPORT liebody_@NAME@
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
    RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(FILES @NAME@.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(EXPORT liebody_@NAME@ NAMESPACE liebody:: FILE liebody_@NAME@-config.cmake
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/liebody_@NAME@)
endif()
