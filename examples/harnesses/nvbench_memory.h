// nvbench: peak device memory as a summary of each measurement. Call gpupeak_nvbench() in a
// benchmark, around what it measures:
//   void matmul(nvbench::state& state) { gpupeak_nvbench(state, [&] { state.exec(...); }); }
// Read in nvbench's headers, not tried.
#pragma once

#include <gpupeak/gpupeak.h>

#include <nvbench/nvbench.cuh>

template <typename Measure>
void gpupeak_nvbench(nvbench::state& state, Measure measure, int device = 0) {
  gpupeak_reset_window();
  measure();
  gpupeak_usage usage;
  if (gpupeak_get_usage(GPUPEAK_DEVICE, device, &usage) == 0) return;
  auto& summary = state.add_summary("gpupeak/device/peak");
  summary.set_string("name", "Peak memory");
  summary.set_string("hint", "bytes");
  summary.set_string("description", "The most that was live on the GPU at once, by gpupeak");
  summary.set_int64("value", static_cast<nvbench::int64_t>(usage.window_peak_bytes));
}
