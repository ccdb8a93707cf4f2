#include "costs.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "config.h"
#include "driver.h"

namespace fake_cuda {
namespace {

constexpr uint64_t kContextBytes = 400 * kMiB;
constexpr uint64_t kCodeBytes = 6 * kMiB;
constexpr uint64_t kThreads = 132 * 2048;
constexpr int kStreamsInGroup = 8;

constexpr size_t kCosts = static_cast<size_t>(Cost::limit);
constexpr const char* kNames[kCosts] = {"context", "code", "local_memory", "streams",
                                        "limits",  "peer", "managed"};

struct Costs {
  std::array<int64_t, kCosts> of{};
  std::map<const void*, std::vector<std::pair<Cost, uint64_t>>> by_context;
  std::map<const void*, int> streams;
  std::set<std::pair<const void*, const void*>> launched;  ///< (context, function or module)
  int local_bytes = 1024;
};

std::map<int, Costs>& all_costs() {
  static auto* const instance = new std::map<int, Costs>;
  return *instance;
}
Costs& costs(int device) {
  return all_costs()[device];
}

}  // namespace

bool charge(int device, Cost cost, int64_t bytes) {
  if (!config().costs) return true;
  if (bytes < 0)
    give_memory(device, static_cast<uint64_t>(-bytes));
  else if (!take_memory(device, static_cast<uint64_t>(bytes)))
    return false;
  costs(device).of[static_cast<size_t>(cost)] += bytes;
  return true;
}

bool charge_in_context(int device, const void* context, Cost cost, uint64_t bytes) {
  if (!charge(device, cost, static_cast<int64_t>(bytes))) return false;
  costs(device).by_context[context].emplace_back(cost, bytes);
  return true;
}

bool charge_context(int device, const void* context) {
  Device& made_on = *device_of(device);
  if (!std::exchange(made_on.had_context, true)) {
    made_on.others += config().joining_bytes;
    made_on.taken += config().joining_bytes;
  }
  return charge_in_context(device, context, Cost::context, kContextBytes);
}

void discharge_context(int device, const void* context) {
  Costs& all = costs(device);
  for (const auto& [cost, bytes] : all.by_context[context])
    charge(device, cost, -static_cast<int64_t>(bytes));
  all.by_context.erase(context);
  all.streams.erase(context);
  std::erase_if(all.launched, [&](const auto& entry) { return entry.first == context; });
}

bool charge_launch(int device, const void* context, const void* handle) {
  const Function* const function = driver().functions.find(handle);
  if (function == nullptr) return true;
  Costs& all = costs(device);
  const std::pair copy(context, static_cast<const void*>(function->module));
  if (!all.launched.contains(copy)) {
    if (!charge_in_context(device, context, Cost::code, kCodeBytes)) return false;
    all.launched.insert(copy);
  }
  if (function->local_bytes <= all.local_bytes) return true;
  if (!charge(device, Cost::local_memory,
              static_cast<int64_t>(kThreads) * (function->local_bytes - all.local_bytes))) {
    return false;
  }
  all.local_bytes = function->local_bytes;  // never given back
  return true;
}

void discharge_module(const void* module) {
  for (auto& of_device : all_costs()) {
    Costs& all = of_device.second;
    std::erase_if(all.launched, [&](const auto& entry) {
      if (entry.second != module) return false;
      auto& charged = all.by_context[entry.first];
      charged.erase(std::find(charged.begin(), charged.end(), std::pair(Cost::code, kCodeBytes)));
      charge(of_device.first, Cost::code, -static_cast<int64_t>(kCodeBytes));
      return true;
    });
  }
}

bool charge_stream(int device, const void* context) {
  constexpr uint64_t kGroupBytes = 4 * kMiB;
  int& streams = costs(device).streams[context];
  if (streams % kStreamsInGroup == 0 &&
      !charge_in_context(device, context, Cost::streams, kGroupBytes)) {
    return false;
  }
  ++streams;
  return true;
}

std::string costs_as_json(int device) {
  std::string json;
  for (size_t i = 0; i < kCosts; ++i) {
    json += (i == 0 ? "\"" : ", \"") + std::string(kNames[i]) +
            "\": " + std::to_string(costs(device).of[i]);
  }
  return json;
}

}  // namespace fake_cuda
