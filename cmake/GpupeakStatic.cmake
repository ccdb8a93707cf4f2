# -DGPUPEAK_STATIC=ON: the command with libc and all its libraries inside, for tools/portable.sh: one file that needs
# nothing of the system on which it runs. libgpupeak.so is the same as in other builds.
option(GPUPEAK_STATIC "Link the command statically" OFF)
set(GPUPEAK_STATIC_BESIDE "" CACHE PATH "Folder of libunwind.so.8 and what it needs, to be installed beside libgpupeak.so")
set(GPUPEAK_STATIC_LICENCES "" CACHE PATH "Folder of the licences of what is inside")
if(NOT GPUPEAK_STATIC)
  return()
endif()
set(CMAKE_FIND_LIBRARY_SUFFIXES .a .so)
# Distributions have only shared libraries of fmt and spdlog, so their headers alone are used here.
find_path(GPUPEAK_FMT_INCLUDE fmt/format.h REQUIRED)
foreach(library fmt::fmt spdlog::spdlog)
  add_library(${library} INTERFACE IMPORTED)
  set_target_properties(${library} PROPERTIES INTERFACE_INCLUDE_DIRECTORIES ${GPUPEAK_FMT_INCLUDE})
endforeach()
set_target_properties(fmt::fmt PROPERTIES INTERFACE_COMPILE_DEFINITIONS FMT_HEADER_ONLY=1)
set_target_properties(spdlog::spdlog PROPERTIES INTERFACE_COMPILE_DEFINITIONS SPDLOG_FMT_EXTERNAL=1)

# The libraries that Debian's libdw needs.
set(gpupeak_libdw_needs)
foreach(name z bz2 lzma zstd)
  find_library(GPUPEAK_STATIC_${name} lib${name}.a REQUIRED)
  list(APPEND gpupeak_libdw_needs ${GPUPEAK_STATIC_${name}})
endforeach()

# A position-independent program has a sorted table of its unwind rules. A plain static one sorts them at its first
# exception: 4 ms of each call of the command.
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

# gpupeak_link_statically(TARGET): links it with libc inside.
function(gpupeak_link_statically target)
  target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/cmake/no_dlopen.cc)
  target_link_options(${target} PRIVATE -static-pie)
  set_target_properties(${target} PROPERTIES SKIP_BUILD_RPATH ON)
endfunction()
