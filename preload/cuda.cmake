target_sources(gpupeak PRIVATE
  hooks/audit.cc hooks/cuda.cc hooks/cuda_lookup.cc hooks/missing_hooks.cc hooks/dlsym.cc hooks/dlsym.S
  track/device_memory.cc track/driver.cc track/ledger.cc track/nvml.cc track/virtual_memory.cc)
