# gpupeak_options: warnings for all our targets. gpupeak_sanitize: the options that the asan and tsan presets add, for all
# targets but the preload, which must not depend on a sanitizer's run-time library.
option(GPUPEAK_WERROR "Warnings are errors" OFF)
set(GPUPEAK_SANITIZE "" CACHE STRING "Sanitizers for all but the preload, as -fsanitize= takes them")
add_library(gpupeak_options INTERFACE)
target_compile_options(gpupeak_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow
                       $<$<BOOL:${GPUPEAK_WERROR}>:-Werror>)
add_library(gpupeak_sanitize INTERFACE)
if(GPUPEAK_SANITIZE)
  target_compile_options(gpupeak_sanitize INTERFACE -fsanitize=${GPUPEAK_SANITIZE} -fno-omit-frame-pointer)
  # What the address sanitizer finds in any case, where the memory is touched: a fifth of the compiler's time.
  if(GPUPEAK_SANITIZE MATCHES "address.*undefined" AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    target_compile_options(gpupeak_sanitize INTERFACE -fno-sanitize=null,object-size,vptr)
  endif()
  target_link_options(gpupeak_sanitize INTERFACE -fsanitize=${GPUPEAK_SANITIZE})
endif()
