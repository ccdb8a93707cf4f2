#include "ledger.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>

#include "config.h"
#include "costs.h"
#include "driver.h"

namespace fake_cuda {
namespace {

struct Gauge {
  uint64_t live = 0, peak = 0;
  void add(uint64_t bytes) {
    live += bytes;
    peak = std::max(peak, live);
  }
};

constexpr size_t kKinds = static_cast<size_t>(Kind::limit);
using Gauges = std::array<Gauge, kKinds>;

constexpr const char* kNames[kKinds] = {"linear",         "pool_used",     "vmm",     "array",
                                        "graph_reserved", "pool_reserved", "managed", "imported",
                                        "addresses",      "device_total",  "pinned",  "host_vmm",
                                        "registered",     "host_total"};

constexpr int kHost = -1;

/// Gauges by device. The host's are under kHost; there `managed` and `addresses` are sums over all
/// devices.
std::map<int, Gauges>& ledger() {
  static auto* const instance = new std::map<int, Gauges>;
  return *instance;
}

Gauge& gauge(int device, Kind kind) {
  return ledger()[device][static_cast<size_t>(kind)];
}

bool in_device_total(Kind kind) {
  return kind <= Kind::array || kind == Kind::graph_reserved;
}
bool in_host_total(Kind kind) {
  return kind == Kind::pinned || kind == Kind::host_vmm;
}
bool of_host(Kind kind) {
  return kind >= Kind::pinned;
}

template <typename Change>
void change(int device, Kind kind, Change apply) {
  if (of_host(kind) || kind == Kind::managed || kind == Kind::addresses) apply(gauge(kHost, kind));
  if (in_host_total(kind)) apply(gauge(kHost, Kind::host_total));
  if (of_host(kind)) return;
  apply(gauge(device, kind));
  if (in_device_total(kind)) apply(gauge(device, Kind::device_total));
}

void write_gauges(FILE* file, const Gauges& gauges, const std::string& more = "") {
  fputs("{", file);
  for (size_t kind = 0; kind < kKinds; ++kind) {
    fprintf(file, "%s\"%s\": {\"live\": %llu, \"peak\": %llu}", kind == 0 ? "" : ", ", kNames[kind],
            static_cast<unsigned long long>(gauges[kind].live),
            static_cast<unsigned long long>(gauges[kind].peak));
  }
  fprintf(file, "%s}", more.c_str());
}

}  // namespace

void ledger_add(int device, Kind kind, uint64_t bytes) {
  change(device, kind, [&](Gauge& g) { g.add(bytes); });
}

void ledger_remove(int device, Kind kind, uint64_t bytes) {
  change(device, kind, [&](Gauge& g) { g.live -= bytes; });
}

void write_ledger() {
  if (config().ledger_path.empty()) return;
  FILE* file = fopen(config().ledger_path.c_str(), "w");
  if (file == nullptr) return;
  fputs("{\"host\": ", file);
  write_gauges(file, ledger()[kHost]);
  fputs(", \"devices\": [", file);
  for (int device = 0; device < config().devices; ++device) {
    if (device > 0) fputs(", ", file);
    const Device* const state = device_of(device);
    write_gauges(file, ledger()[device],
                 ", \"in_use\": " + std::to_string(state != nullptr ? state->taken : 0) +
                     ", \"others\": " + std::to_string(state != nullptr ? state->others : 0) +
                     ", \"costs\": {" + costs_as_json(device) + "}");
  }
  fputs("]}\n", file);
  fclose(file);
}

}  // namespace fake_cuda

__attribute__((visibility("default"))) unsigned long long fake_cuda_ledger(int device,
                                                                           const char* kind,
                                                                           const char* which) {
  using namespace fake_cuda;
  const std::lock_guard guard(driver().lock);
  for (size_t i = 0; i < kKinds; ++i) {
    if (strcmp(kNames[i], kind) != 0) continue;
    const Gauge& found = ledger()[device][i];
    return strcmp(which, "peak") == 0 ? found.peak : found.live;
  }
  return ~0ull;
}
