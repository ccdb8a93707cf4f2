# The folder that `cmake --install` and cpack make. It runs wherever it is put, on systems without the packages that we use.
# bin/gpupeak finds its libraries in ../lib/gpupeak, libgpupeak.so finds libunwind beside itself.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS gpupeak gpupeak_audit LIBRARY DESTINATION lib/gpupeak)
install(TARGETS gpupeak_tool RUNTIME DESTINATION bin)
if(NOT GPUPEAK_STATIC)
# DT_RPATH, not DT_RUNPATH, since it also holds for the libraries that the command's libraries need. The build tree has it, too. Otherwise
# CMake would replace a longer path at installation and fill it up with colons, each of which is an entry for the current folder.
set_target_properties(gpupeak_tool PROPERTIES INSTALL_RPATH "$ORIGIN/../lib/gpupeak" BUILD_WITH_INSTALL_RPATH ON)
target_link_options(gpupeak_tool PRIVATE -Wl,--disable-new-dtags)
set(gpupeak_programs $<TARGET_FILE:gpupeak_tool>)
if(GPUPEAK_HAS_PROMETHEUS)
  set_target_properties(gpupeak_serve PROPERTIES INSTALL_RPATH "$ORIGIN" BUILD_WITH_INSTALL_RPATH ON)
  target_link_options(gpupeak_serve PRIVATE -Wl,--disable-new-dtags)
  install(TARGETS gpupeak_serve RUNTIME DESTINATION lib/gpupeak)
  list(APPEND gpupeak_programs $<TARGET_FILE:gpupeak_serve>)
endif()
list(JOIN gpupeak_programs " " gpupeak_programs)
install(CODE "
  file(GET_RUNTIME_DEPENDENCIES
    EXECUTABLES ${gpupeak_programs}
    LIBRARIES ${GPUPEAK_LIBUNWIND}
    RESOLVED_DEPENDENCIES_VAR found
    UNRESOLVED_DEPENDENCIES_VAR missing
    PRE_EXCLUDE_REGEXES [[^(libc|libm|libdl|libpthread|librt|libgcc_s|libstdc\\+\\+)\\.so]] [[^ld-linux]] [[^linux-vdso]])
  if(missing)
    message(FATAL_ERROR \"libraries not found: \${missing}\")
  endif()
  list(APPEND found ${GPUPEAK_LIBUNWIND})
  foreach(library IN LISTS found)
    file(INSTALL \"\${library}\" DESTINATION \"\${CMAKE_INSTALL_PREFIX}/lib/gpupeak\" FOLLOW_SYMLINK_CHAIN)
  endforeach()
")
elseif(GPUPEAK_STATIC_BESIDE AND GPUPEAK_STATIC_LICENCES)  # empty, they would be all of /
  install(DIRECTORY ${GPUPEAK_STATIC_BESIDE}/ DESTINATION lib/gpupeak)
  install(DIRECTORY ${GPUPEAK_STATIC_LICENCES}/ DESTINATION share/doc/gpupeak/licences)
endif()
install(DIRECTORY preload/python DESTINATION lib/gpupeak PATTERN __pycache__ EXCLUDE)
install(FILES tools/run/gpupeak_calls.py DESTINATION lib/gpupeak/python)
install(DIRECTORY preload/include/gpupeak DESTINATION include)
install(FILES LICENSE DESTINATION share/doc/gpupeak)
install(DIRECTORY rules DESTINATION share/gpupeak)
# This folder is on the path of Debian's Python; elsewhere PYTHONPATH has to name it. The wheel takes the files from here.
install(DIRECTORY tools/python/gpupeak DESTINATION lib/python3/dist-packages PATTERN __pycache__ EXCLUDE)
install(FILES docs/gpupeak.1 DESTINATION share/man/man1)
install(FILES tools/completion/gpupeak.bash DESTINATION share/bash-completion/completions RENAME gpupeak)
install(FILES ${CMAKE_BINARY_DIR}/tools/_gpupeak DESTINATION share/zsh/vendor-completions OPTIONAL)
install(FILES ${CMAKE_BINARY_DIR}/tools/gpupeak.fish DESTINATION share/fish/vendor_completions.d OPTIONAL)

# find_package(gpupeak) gives gpupeak::gpupeak, which is only the header: nothing is linked.
add_library(gpupeak_header INTERFACE)
set_target_properties(gpupeak_header PROPERTIES EXPORT_NAME gpupeak)
target_include_directories(gpupeak_header INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/preload/include>
                           $<INSTALL_INTERFACE:include>)
install(TARGETS gpupeak_header EXPORT gpupeak)
install(EXPORT gpupeak NAMESPACE gpupeak:: FILE gpupeak-config.cmake DESTINATION lib/cmake/gpupeak)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/gpupeak-config-version.cmake
                                 COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/gpupeak-config-version.cmake DESTINATION lib/cmake/gpupeak)

set(CPACK_GENERATOR "DEB;TGZ")
set(CPACK_PACKAGE_CONTACT "the gpupeak authors <gpupeak@example.org>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Exact peak memory of GPU programs, and who held it")
if(GPUPEAK_STATIC)  # the libc that libgpupeak.so needs; the command needs none
  set(CPACK_DEBIAN_PACKAGE_DEPENDS "libc6 (>= 2.17)")
else()
  set(CPACK_DEBIAN_PACKAGE_DEPENDS "libc6 (>= 2.34)")
endif()
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
set(CPACK_RPM_PACKAGE_LICENSE MIT)
set(CPACK_RPM_PACKAGE_AUTOREQPROV OFF)  # libunwind and liblzma are in the package
# The same files give the same package, wherever and at any time it is made.
set(CPACK_RPM_SPEC_MORE_DEFINE "%define _build_id_links none
%define _buildhost gpupeak
%define use_source_date_epoch_as_buildtime 1
%define clamp_mtime_to_source_date_epoch 1")
set(CPACK_STRIP_FILES ON)
include(CPack)
