# Under the sanitizers' presets the collector and its tests are built with precompiled headers, in about half the time.
# Everywhere else each file is compiled with its own includes, and fails if it lacks one.
option(GPUPEAK_PRECOMPILE "Precompile the headers that most files include" OFF)
if(NOT GPUPEAK_PRECOMPILE)
  return()
endif()
set(gpupeak_common_headers <fmt/format.h> <nlohmann/json.hpp> <algorithm> <array> <functional> <map> <memory> <optional>
    <sstream> <string> <unordered_map> <vector>)
set(gpupeak_precompiled_source ${CMAKE_CURRENT_BINARY_DIR}/precompiled.cc)
file(WRITE ${gpupeak_precompiled_source} "// Here to have the headers compiled once.\n")
add_library(gpupeak_precompiled OBJECT ${gpupeak_precompiled_source})
target_compile_features(gpupeak_precompiled PRIVATE cxx_std_20)
target_link_libraries(gpupeak_precompiled PRIVATE gpupeak_options gpupeak_sanitize fmt::fmt nlohmann_json::nlohmann_json)
target_precompile_headers(gpupeak_precompiled PRIVATE ${gpupeak_common_headers})
get_property(gpupeak_rooms DIRECTORY collector PROPERTY BUILDSYSTEM_TARGETS)
foreach(room IN LISTS gpupeak_rooms)
  get_target_property(type ${room} TYPE)
  if(type STREQUAL STATIC_LIBRARY)
    target_link_libraries(${room} PRIVATE fmt::fmt)  # its definitions are part of what was precompiled
    target_precompile_headers(${room} REUSE_FROM gpupeak_precompiled)
  endif()
endforeach()
if(TARGET gpupeak_unit_tests)
  target_precompile_headers(gpupeak_unit_tests PRIVATE ${PROJECT_SOURCE_DIR}/tests/unit/catch.h ${gpupeak_common_headers})
  set_source_files_properties(tests/unit/main.cc TARGET_DIRECTORY gpupeak_unit_tests
                              PROPERTIES SKIP_PRECOMPILE_HEADERS ON)  # it asks Catch2 for more than the others
endif()
