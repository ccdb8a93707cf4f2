#include "collector/merge/nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

namespace gpupeak::collector {
namespace {

/// For logs that do not name their boot: by how much two logs may differ on the start of one boot.
constexpr uint64_t kSameBootNs = 2'000'000'000;

/// A name for each process's boot: the log's, or one made up.
std::vector<std::string> boots_of(const std::vector<ProcessRecord>& processes) {
  std::vector<size_t> order(processes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const auto key = [&](size_t i) {
      return std::tuple(processes[i].run.host, processes[i].boot_realtime_ns(), i);
    };
    return key(a) < key(b);
  });
  std::vector<std::string> boots(processes.size());
  const ProcessRecord* first = nullptr;  // the first process of the same boot
  for (const size_t i : order) {
    const ProcessRecord& process = processes[i];
    const bool same = first != nullptr && first->run.host == process.run.host &&
                      process.boot_realtime_ns() - first->boot_realtime_ns() < kSameBootNs;
    if (!same) first = &process;
    boots[i] =
        first->boot.empty() ? fmt::format("{}\n{}", first->run.host, first->id) : first->boot;
  }
  for (size_t i = 0; i < processes.size(); ++i) {
    if (!processes[i].boot.empty()) boots[i] = processes[i].boot;
  }
  return boots;
}

}  // namespace

std::string MergedNode::name() const {
  const std::string first = hosts.front().empty() ? "unknown host" : hosts.front();
  return hosts.size() == 1 ? first : fmt::format("{} (+{})", first, hosts.size() - 1);
}

void find_nodes(Merged& merged) {
  const std::vector<std::string> boots = boots_of(merged.processes);
  std::map<std::string, size_t> known;
  for (size_t i = 0; i < merged.processes.size(); ++i) {
    const auto [entry, added] = known.try_emplace(boots[i], merged.nodes.size());
    if (added) merged.nodes.emplace_back().boot = merged.processes[i].boot;
    merged.nodes[entry->second].processes.push_back(i);
    merged.node_of.push_back(entry->second);
  }
  for (MergedNode& node : merged.nodes) {
    std::set<std::string> hosts;
    for (const size_t i : node.processes) hosts.insert(merged.processes[i].run.host);
    node.hosts.assign(hosts.begin(), hosts.end());
  }
}

void end_by_exec(Merged& merged) {
  for (const MergedNode& node : merged.nodes) {
    std::map<std::tuple<uint32_t, uint64_t>, std::vector<ProcessRecord*>> programs;
    for (const size_t i : node.processes) {
      ProcessRecord& process = merged.processes[i];
      programs[{process.run.pid, process.process_start_time}].push_back(&process);
    }
    for (auto& [process, in_turn] : programs) {
      std::sort(in_turn.begin(), in_turn.end(), [](const auto* a, const auto* b) {
        return a->start_monotonic_ns < b->start_monotonic_ns;
      });
      for (size_t i = 0; i + 1 < in_turn.size(); ++i) {
        if (in_turn[i]->end_ns != 0) continue;
        in_turn[i]->end_ns = in_turn[i + 1]->start_monotonic_ns;
        for (auto& [scope, curve] : in_turn[i]->curves) curve.end_at(in_turn[i]->end_ns);
      }
    }
  }
}

JobClock::JobClock(const Merged& merged) {
  for (const MergedNode& node : merged.nodes) {
    const auto first =
        std::min_element(node.processes.begin(), node.processes.end(), [&](size_t a, size_t b) {
          return merged.processes[a].start_monotonic_ns < merged.processes[b].start_monotonic_ns;
        });
    const ProcessRecord& process = merged.processes[*first];
    begins_.push_back({process.start_monotonic_ns, process.start_realtime_ns});
    first_realtime_ns_ = std::min(first_realtime_ns_, process.start_realtime_ns);
  }
}

}  // namespace gpupeak::collector
