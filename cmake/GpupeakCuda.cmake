# gpupeak_cuda_headers: cuda.h and cudaTypedefs.h of a CUDA toolkit, 12.0 to 13.x. Headers only: neither
# a GPU nor libcuda is needed to build.
find_path(GPUPEAK_CUDA_INCLUDE_DIR NAMES cudaTypedefs.h
          HINTS $ENV{CUDA_HOME}/include $ENV{CUDA_PATH}/include
          PATHS /usr/local/cuda/include /usr/lib/cuda/include
          DOC "A CUDA toolkit's include folder (holds cuda.h and cudaTypedefs.h)")
if(NOT GPUPEAK_CUDA_INCLUDE_DIR)
  message(FATAL_ERROR "CUDA driver API headers not found. Install a CUDA toolkit (12.0 or newer; "
          "Debian: nvidia-cuda-dev) or pass -DGPUPEAK_CUDA_INCLUDE_DIR=/path/to/cuda/include")
endif()
file(STRINGS ${GPUPEAK_CUDA_INCLUDE_DIR}/cuda.h gpupeak_cuda_version_line REGEX "#define CUDA_VERSION ")
string(REGEX MATCH "[0-9]+" GPUPEAK_CUDA_VERSION "${gpupeak_cuda_version_line}")
if(GPUPEAK_CUDA_VERSION LESS 12000)
  message(FATAL_ERROR "${GPUPEAK_CUDA_INCLUDE_DIR} is CUDA ${GPUPEAK_CUDA_VERSION}; 12000 or newer is "
          "needed. Pass -DGPUPEAK_CUDA_INCLUDE_DIR=/path/to/cuda/include of a newer toolkit")
endif()
add_library(gpupeak_cuda_headers INTERFACE)
target_include_directories(gpupeak_cuda_headers SYSTEM INTERFACE ${GPUPEAK_CUDA_INCLUDE_DIR})
message(STATUS "CUDA headers: ${GPUPEAK_CUDA_INCLUDE_DIR} (${GPUPEAK_CUDA_VERSION})")
