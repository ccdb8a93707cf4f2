// The logs of a job that never ran: eight ranks on each node, rank 417 with more activations than
// the others, until the card refuses it memory and the launcher ends the job.
//
// usage: make_ranks FOLDER RANKS
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "log_builder.h"

using gpupeak::testing::Fields;
using gpupeak::testing::LogBuilder;

namespace {

constexpr uint64_t kMillisecond = 1'000'000;
constexpr uint64_t kSecond = 1000 * kMillisecond;
constexpr uint64_t kRanksPerNode = 8;
constexpr uint64_t kOutlier = 417;
constexpr int kHeapBlocks = 10'000;  ///< more steps than a merge has room for

void write(const std::filesystem::path& folder, uint64_t rank) {
  LogBuilder log;
  const uint64_t node = rank / kRanksPerNode;
  const uint64_t on_node = rank % kRanksPerNode;
  const std::string name = "node" + std::to_string(node);
  log.header().cookie = 1 + rank;
  log.header().rank = static_cast<int32_t>(rank);
  log.header().pid = 100 + static_cast<uint32_t>(rank);
  log.fact("host", name);
  log.fact("boot", "boot of " + name);
  log.fact("arg", "/opt/train");
  std::string uuid = "0123456789abcdef";  // all of the node share its GPU
  uuid[0] = static_cast<char>(node);
  log.device(0, uint64_t{80} << 30, uuid, "NVIDIA H100");
  log.module("/opt/libtrain.so", "", 0x10000, 0x10000, 0x10000);
  const uint32_t weights = log.node(0, 0x10100), activations = log.node(0, 0x10200);
  log.device_alloc(0, kSecond, 1, GPUPEAK_KIND_LINEAR, 0, 600'000, 0, weights);
  log.device_alloc(0, kSecond + 1, 2, GPUPEAK_KIND_LINEAR, 0, 400'000, 0, activations);
  if (rank == kOutlier)  // 31 % of what the others have of them at their peaks
    log.device_alloc(0, kSecond + 2, 3, GPUPEAK_KIND_LINEAR, 0, 279'000, 0, activations);
  // One after the other: at once there is never more than one of these.
  log.device_alloc(1, (2 + on_node) * kSecond, 4, GPUPEAK_KIND_LINEAR, 0, 500'000, 0, activations);
  log.device_free(1, (2 + on_node) * kSecond + kSecond / 2, 4);
  uint64_t seed = rank + 1;
  for (int i = 0; i < kHeapBlocks; ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    const auto index = static_cast<uint64_t>(i);
    const uint64_t time = 11 * kSecond + index * kMillisecond;
    log.alloc(2, time, 0x100000 + index * 0x1000, 100 + (seed >> 40) % 100'000);
    if (i % 3 != 0) log.free(2, time + kMillisecond / 2, 0x100000 + index * 0x1000);
  }
  const uint64_t end = (rank == kOutlier ? 61 : 62) * kSecond;
  if (rank == kOutlier) {
    const uint32_t api = log.string("cuMemAlloc_v2");
    log.device_event(0, 60 * kSecond, GPUPEAK_REC_DEVICE_FAILED,
                     Fields()
                         .u(GPUPEAK_KIND_LINEAR)
                         .u(1)  // GPU 0
                         .u(uint64_t{2} << 30)
                         .u(2)
                         .u(1'279'000)
                         .u(1'000'000)
                         .u(uint64_t{80} << 30)
                         .u(api)
                         .u(activations));
    log.counters().exit_code = 1;
  } else {
    log.counters().ended = 0;
    log.counters().exit_kind = GPUPEAK_EXIT_SIGNAL;
    log.counters().exit_code = SIGTERM;
    log.counters().exit_monotonic_ns = log.header().start_monotonic_ns + end;
  }
  std::filesystem::create_directories(folder / name);
  log.save(folder / name / ("rank" + std::to_string(rank) + ".gplog"));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return EXIT_FAILURE;
  const uint64_t ranks = strtoull(argv[2], nullptr, 10);
  for (uint64_t rank = 0; rank < ranks; ++rank) write(argv[1], rank);
  return EXIT_SUCCESS;
}
