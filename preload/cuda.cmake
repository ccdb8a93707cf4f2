target_sources(gpupeak PRIVATE
  hooks/cuda.cc hooks/cuda_lookup.cc hooks/dlsym.cc hooks/dlsym.S
  track/device_memory.cc track/driver.cc track/virtual_memory.cc)
