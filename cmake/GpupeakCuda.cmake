# gpupeak_cuda_headers: cuda.h and cudaTypedefs.h of a CUDA toolkit, 11.8 to 13.x. Only headers are used: a build
# needs neither a GPU nor libcuda.
set(GPUPEAK_OLDEST_CUDA 11080)
set(GPUPEAK_CUDA_INCLUDE_DIR "" CACHE PATH "A CUDA toolkit's include folder (holds cuda.h and cudaTypedefs.h)")
if(NOT GPUPEAK_CUDA_INCLUDE_DIR)
  execute_process(COMMAND bash ${PROJECT_SOURCE_DIR}/tools/find_cuda_headers.sh ${GPUPEAK_OLDEST_CUDA}
                  OUTPUT_VARIABLE gpupeak_cuda_found OUTPUT_STRIP_TRAILING_WHITESPACE)
  set(GPUPEAK_CUDA_INCLUDE_DIR "${gpupeak_cuda_found}" CACHE PATH "" FORCE)
endif()
if(NOT EXISTS ${GPUPEAK_CUDA_INCLUDE_DIR}/cuda.h OR NOT EXISTS ${GPUPEAK_CUDA_INCLUDE_DIR}/cudaTypedefs.h)
  message(FATAL_ERROR "No CUDA driver API headers (cuda.h and cudaTypedefs.h of 11.8 or newer) in "
          "'${GPUPEAK_CUDA_INCLUDE_DIR}'. Install a CUDA toolkit (pip: nvidia-cuda-runtime), set CUDA_HOME, or pass "
          "-DGPUPEAK_CUDA_INCLUDE_DIR=/path/to/cuda/include")
endif()
file(STRINGS ${GPUPEAK_CUDA_INCLUDE_DIR}/cuda.h gpupeak_cuda_version_line REGEX "#define CUDA_VERSION ")
string(REGEX MATCH "[0-9]+" GPUPEAK_CUDA_VERSION "${gpupeak_cuda_version_line}")
if(GPUPEAK_CUDA_VERSION LESS GPUPEAK_OLDEST_CUDA)
  message(FATAL_ERROR "${GPUPEAK_CUDA_INCLUDE_DIR} is CUDA ${GPUPEAK_CUDA_VERSION}; ${GPUPEAK_OLDEST_CUDA} or newer is "
          "needed. Pass -DGPUPEAK_CUDA_INCLUDE_DIR=/path/to/cuda/include of a newer toolkit")
endif()
add_library(gpupeak_cuda_headers INTERFACE)
target_include_directories(gpupeak_cuda_headers SYSTEM INTERFACE ${GPUPEAK_CUDA_INCLUDE_DIR})
message(STATUS "CUDA headers: ${GPUPEAK_CUDA_INCLUDE_DIR} (${GPUPEAK_CUDA_VERSION})")
