# How programs reach the driver when it is not simply there: unloaded and loaded again, missing, or beside
# other libraries' functions of the same names.
add_library(cuda_small_driver SHARED reach/small_driver.c)
set_target_properties(cuda_small_driver PROPERTIES OUTPUT_NAME cuda SOVERSION 1
                      LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/small_driver)
add_library(cuda_foreign SHARED reach/foreign.c)
set_target_properties(cuda_foreign PROPERTIES OUTPUT_NAME foreign
                      LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/foreign)
foreach(name reload foreign_names no_driver newer_driver jump_out_of_call fork_while_asking)
  add_executable(cuda_${name} reach/${name}.cc)
  target_link_libraries(cuda_${name} PRIVATE gpupeak_options Threads::Threads ${CMAKE_DL_LIBS})
endforeach()

# cuda_reach_test(test FOLDERS program [arguments…]): the same with and without the preload.
function(cuda_reach_test test folders program)
  add_test(NAME e2e.cuda.${test}
           COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/reach/check_reach.py $<TARGET_FILE:gpupeak>
                   "${folders}" $<TARGET_FILE:${program}> ${ARGN})
  set_tests_properties(e2e.cuda.${test} PROPERTIES TIMEOUT 120)
endfunction()
cuda_reach_test(reload $<TARGET_FILE_DIR:cuda_small_driver> cuda_reload)
cuda_reach_test(foreign_names $<TARGET_FILE_DIR:cuda_foreign> cuda_foreign_names)
cuda_reach_test(foreign_names_and_driver "$<TARGET_FILE_DIR:cuda_foreign>:$<TARGET_FILE_DIR:fake_cuda>"
                cuda_foreign_names driver)
cuda_reach_test(no_driver "" cuda_no_driver)
cuda_reach_test(fork_while_asking $<TARGET_FILE_DIR:cuda_small_driver> cuda_fork_while_asking)
add_test(NAME e2e.cuda.missing_hooks
         COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/reach/check_missing_hooks.py $<TARGET_FILE:gpupeak>
                 $<TARGET_FILE_DIR:cuda_small_driver> $<TARGET_FILE:gpupeak_tool> $<TARGET_FILE:cuda_newer_driver>)
add_test(NAME e2e.cuda.jump_out_of_call
         COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/reach/check_jump.py $<TARGET_FILE:gpupeak>
                 $<TARGET_FILE_DIR:cuda_small_driver> $<TARGET_FILE:gpupeak_tool> $<TARGET_FILE:cuda_jump_out_of_call>)

# Another library that is preloaded, before and behind us.
foreach(kind plain own_dlsym)
  add_library(cuda_interposer_${kind} MODULE reach/interposer.c)
  target_link_libraries(cuda_interposer_${kind} PRIVATE gpupeak_options ${CMAKE_DL_LIBS})
  set(programs linear)
  if(kind STREQUAL own_dlsym)  # the other one is not between the runtime and what that looks up
    list(APPEND programs runtime)
  endif()
  foreach(program IN LISTS programs)
    foreach(next next handle proc)
      add_test(NAME e2e.cuda.interposer.${kind}.${program}.${next}
               COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/reach/check_interposer.py $<TARGET_FILE:gpupeak>
                       $<TARGET_FILE_DIR:fake_cuda> $<TARGET_FILE:gpupeak_tool> $<TARGET_FILE:cuda_interposer_${kind}>
                       ${next} $<TARGET_FILE:cuda_${program}>)
      set_tests_properties(e2e.cuda.interposer.${kind}.${program}.${next} PROPERTIES
                           ENVIRONMENT "FAKE_CUDA_DEVICES=2;FAKE_CUDART_DLSYM=1" TIMEOUT 120)
    endforeach()
  endforeach()
endforeach()
target_compile_definitions(cuda_interposer_own_dlsym PRIVATE OWN_DLSYM)

# Clients that no preloaded library comes before.
add_library(cuda_plugin MODULE reach/plugin.cc)
target_link_libraries(cuda_plugin PRIVATE gpupeak_options fake_cuda)
add_executable(cuda_bypass reach/bypass.cc)
target_link_libraries(cuda_bypass PRIVATE gpupeak_options ${CMAKE_DL_LIBS})
if(GPUPEAK_COMMAND)  # `gpupeak run` takes the libraries beside it, which are for its own machine
  return()
endif()
foreach(way deepbind dlmopen)
  add_test(NAME e2e.cuda.audit.${way}
           COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/reach/check_audit.py $<TARGET_FILE_DIR:fake_cuda>
                   $<TARGET_FILE:gpupeak_tool> $<TARGET_FILE:cuda_bypass> $<TARGET_FILE:cuda_plugin> ${way})
  set_tests_properties(e2e.cuda.audit.${way} PROPERTIES TIMEOUT 120)
endforeach()
