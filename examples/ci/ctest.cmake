# Peak memory as a test beside the others:
#   include(ctest.cmake)
#   gpupeak_add_test(NAME conv.peak MAX device.peak_bytes=8GiB COMMAND my_benchmark --iterations 10)
# Two tests are added: NAME.run records, NAME checks and needs it.
find_program(GPUPEAK gpupeak REQUIRED)

function(gpupeak_add_test)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME" "MAX;COMMAND")
  set(log ${CMAKE_CURRENT_BINARY_DIR}/${arg_NAME}.gplog)
  set(limits "")
  foreach(limit IN LISTS arg_MAX)
    list(APPEND limits --max ${limit})
  endforeach()
  list(POP_FRONT arg_COMMAND program)
  if(TARGET ${program})  # add_test looks for targets in the first place only
    set(program $<TARGET_FILE:${program}>)
  endif()
  add_test(NAME ${arg_NAME}.run COMMAND ${GPUPEAK} run -o ${log} -- ${program} ${arg_COMMAND})
  add_test(NAME ${arg_NAME} COMMAND ${GPUPEAK} check ${log} ${limits})
  set_tests_properties(${arg_NAME}.run PROPERTIES FIXTURES_SETUP ${arg_NAME})
  set_tests_properties(${arg_NAME} PROPERTIES FIXTURES_REQUIRED ${arg_NAME})
endfunction()
