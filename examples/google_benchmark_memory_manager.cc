// Memory figures for Google Benchmark from gpupeak: its JSON gets allocs_per_iter and
// max_bytes_used.
//   g++ -O2 -I…/include my_benchmark.cc -lbenchmark -lpthread
//   gpupeak run -- ./a.out --benchmark_format=json
// Without the preload all figures are 0. The peak of each benchmark's memory run is that of its own
// window; the report of the whole run has the call sites.
#include <benchmark/benchmark.h>
#include <gpupeak/gpupeak.h>

#include <cstdint>
#include <string>
#include <vector>

class GpupeakMemoryManager : public benchmark::MemoryManager {
 public:
  /// Which memory: GPUPEAK_HEAP, or GPUPEAK_DEVICE of a GPU.
  explicit GpupeakMemoryManager(gpupeak_what what, int device = 0) : what_(what), device_(device) {}

  void Start() override {
    gpupeak_reset_window();
    gpupeak_get_usage(what_, device_, &at_start_);
  }
  void Stop(Result& result) override {
    gpupeak_usage now;
    gpupeak_get_usage(what_, device_, &now);
    result.num_allocs = static_cast<int64_t>(now.alloc_count - at_start_.alloc_count);
    result.max_bytes_used = static_cast<int64_t>(now.window_peak_bytes - at_start_.live_bytes);
    result.net_heap_growth =
        static_cast<int64_t>(now.live_bytes) - static_cast<int64_t>(at_start_.live_bytes);
  }
  void Stop(Result* result) { Stop(*result); }  // pure virtual up to Google Benchmark 1.8

 private:
  gpupeak_what what_;
  int device_;
  gpupeak_usage at_start_{};
};

static void BM_Fill(benchmark::State& state) {
  const std::string name = "BM_Fill/" + std::to_string(state.range(0));
  const gpupeak::Phase phase(name.c_str());
  for (auto _ : state) {
    std::vector<char> bytes(static_cast<size_t>(state.range(0)));
    benchmark::DoNotOptimize(bytes.data());
  }
}
BENCHMARK(BM_Fill)->Arg(1 << 20)->Arg(8 << 20);

int main(int argc, char** argv) {
  GpupeakMemoryManager heap(GPUPEAK_HEAP);
  benchmark::RegisterMemoryManager(&heap);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::RegisterMemoryManager(nullptr);
  benchmark::Shutdown();
}
