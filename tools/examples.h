// What `gpupeak --help` ends with.
#pragma once

namespace gpupeak::tools {

inline constexpr const char* kExamples = R"(
Examples:
  gpupeak run -- onnxruntime_perf_test -e cuda -I -r 100 model.onnx
  gpupeak run -o bert.gplog -- python3 train.py
  gpupeak report bert.gplog                    who held the memory at the peak
  gpupeak report --by module --top 20 bert.gplog
  gpupeak report --json bert.gplog | jq '.metrics["device.peak_bytes"]'
  gpupeak phases --rules onnxruntime bert.gplog
  gpupeak tags --tag 'weights=*SaveInitializedTensors' bert.gplog
  gpupeak tree --scope device:0 bert.gplog     from main down to the allocations
  gpupeak export chrome bert.gplog -o bert.json
  gpupeak diff before.gplog after.gplog        what grew
  gpupeak check --max device.peak_bytes=8GiB bert.gplog
  gpupeak report --html bert.html bert.gplog   a page to look around in
  gpupeak compare --html abc.html a.gplog b.gplog c.gplog
  gpupeak timeline bert.gplog                  memory over time; --svg FILE draws it
  gpupeak dump bert.gplog | grep device_alloc

Without this command: LD_PRELOAD=/path/to/libgpupeak.so program arguments...
)";

}  // namespace gpupeak::tools
