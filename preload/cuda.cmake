target_sources(gpupeak PRIVATE
  hooks/audit.cc hooks/cuda.cc hooks/cuda_lookup.cc hooks/missing_hooks.cc hooks/dlsym.cc hooks/dlsym.S
  track/api_call.cc track/contexts.cc track/device_book.cc track/device_memory.cc track/driver.cc track/driver_readings.cc
  track/graph_memory.cc track/ledger.cc track/memory_pools.cc track/nvml.cc track/virtual_memory.cc)
