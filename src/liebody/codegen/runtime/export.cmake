# Builds the library @NAME@ and its self-test: cmake -B build && cmake --build build && ctest --test-dir build
cmake_minimum_required(VERSION 3.10)
project(liebody_@NAME@ C)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_C_STANDARD 99)
set(CMAKE_C_EXTENSIONS OFF)

add_library(liebody_@NAME@ @NAME@.c)
target_include_directories(liebody_@NAME@ PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
if(NOT WIN32)
  target_link_libraries(liebody_@NAME@ PUBLIC m)
endif()

enable_testing()
add_executable(liebody_@NAME@_test @NAME@_test.c)
target_link_libraries(liebody_@NAME@_test PRIVATE liebody_@NAME@)
add_test(NAME @NAME@ COMMAND liebody_@NAME@_test)
