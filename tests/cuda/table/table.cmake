add_test(NAME abi.cuda_table
         COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/table/check_table.py
                 ${CMAKE_CURRENT_SOURCE_DIR}/../../preload/hooks/cuda_table.def ${CMAKE_CXX_COMPILER} ${GPUPEAK_CUDA_INCLUDE_DIR})
