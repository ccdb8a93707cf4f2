// How fast a log becomes a summary, and how much memory that takes: events a second on one core,
// for a log of synthetic heap events made on the spot. Usage: gpupeak_collector_bench [events]
// [live blocks] [threads] [log file to keep]
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "collector/analyze/analyze.h"
#include "log_builder.h"

namespace {

constexpr uint64_t kBlockSpacing = 48;
constexpr uint32_t kStacks = 20'000;

/// Pairs of an allocation and the free of a random older block, with a stable number of live
/// blocks.
void write_log(const std::string& path, uint64_t events, uint64_t live_blocks, uint32_t threads) {
  gpupeak::testing::LogBuilder log;
  log.set_chunk_bytes(256 << 10);
  std::mt19937_64 random(1);
  std::vector<uint32_t> stacks{0};
  for (uint32_t i = 0; i < kStacks; ++i) {
    const bool root = random() % 50 == 0;
    const uint32_t parent = root ? 0 : stacks[random() % stacks.size()];
    stacks.push_back(log.node(parent, 0x400000 + random() % 100'000));
  }
  std::vector<uint64_t> addresses;
  uint64_t time = 0;
  uint64_t fresh = 0x10000;
  for (uint64_t i = 0; i < events; ++i) {
    const auto slot = static_cast<uint32_t>(random() % threads);
    time += 40;
    if (addresses.size() < live_blocks) {
      addresses.push_back(fresh += kBlockSpacing);
      log.alloc(slot, time, fresh, 16 + random() % 200, stacks[random() % stacks.size()], 8);
      continue;
    }
    const size_t victim = random() % addresses.size();
    log.free(slot, time, addresses[victim]);
    log.alloc(slot, time += 40, addresses[victim], 16 + random() % 200,
              stacks[random() % stacks.size()], 8);
    ++i;
  }
  log.save(path);
}

/// VmHWM in KiB: of this program alone, where getrusage would count what ran before exec as well.
long peak_rss_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return strtol(line.c_str() + 6, nullptr, 10);
  }
  return 0;
}

uint64_t number(int argc, char** argv, int index, uint64_t otherwise) {
  return argc > index ? strtoull(argv[index], nullptr, 10) : otherwise;
}

}  // namespace

int main(int argc, char** argv) {
  const uint64_t events = number(argc, argv, 1, 10'000'000);
  const uint64_t live_blocks = number(argc, argv, 2, 1'000'000);
  const auto threads = static_cast<uint32_t>(number(argc, argv, 3, 1));
  const bool analyze_only = argc > 5 && std::string(argv[5]) == "--analyze";
  const std::string path = argc > 4 ? argv[4] : "/tmp/gpupeak-collector-bench.gplog";
  if (!analyze_only) {
    write_log(path, events, live_blocks, threads);
    // The generator's memory would hide the collector's: measure in a fresh process.
    const std::string self = argv[0];
    std::vector<std::string> words{self,
                                   std::to_string(events),
                                   std::to_string(live_blocks),
                                   std::to_string(threads),
                                   path,
                                   "--analyze"};
    std::vector<char*> args;
    for (std::string& word : words) args.push_back(word.data());
    args.push_back(nullptr);
    execv("/proc/self/exe", args.data());
    perror("execv");
    return 1;
  }
  gpupeak::collector::Options options;
  options.reading.search.files = false;
  const auto start = std::chrono::steady_clock::now();
  const gpupeak::collector::Summary summary = gpupeak::collector::analyze(path, options);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const double count = static_cast<double>(summary.quality.events);
  printf(
      "collector: %.0f events, %u thread(s), %llu live blocks, log %.1f MiB (%.2f bytes an "
      "event)\n",
      count, threads, static_cast<unsigned long long>(live_blocks),
      static_cast<double>(summary.log_bytes) / (1 << 20),
      static_cast<double>(summary.log_bytes) / count);
  printf("collector: %.2f s, %.1f million events/s, peak RSS %.0f MiB\n", seconds.count(),
         count / seconds.count() / 1e6, static_cast<double>(peak_rss_kib()) / 1024);
  if (argc <= 4) unlink(path.c_str());
  return 0;
}
