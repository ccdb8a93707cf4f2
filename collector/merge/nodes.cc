#include <fmt/format.h>

#include <numeric>
#include <queue>
#include <set>
#include <tuple>

#include "collector/merge/merge.h"
#include "collector/summary/run_text.h"
#include "collector/text/scope_key.h"

namespace gpupeak::collector {
namespace {

/// For logs that do not name their boot: by how much two logs may differ on the start of one boot.
constexpr uint64_t kSameBootNs = 2'000'000'000;

/// A name for each process's boot: the log's, or one made up.
std::vector<std::string> boots_of(const std::vector<ProcessRecord>& processes) {
  std::vector<size_t> order(processes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) {
    return std::tuple(processes[i].run.host, processes[i].boot_realtime_ns(), i);
  });
  std::vector<std::string> boots(processes.size());
  const ProcessRecord* first = nullptr;  // the first process of the same boot
  for (const size_t i : order) {
    const ProcessRecord& process = processes[i];
    const bool same = first != nullptr && first->run.host == process.run.host &&
                      process.boot_realtime_ns() - first->boot_realtime_ns() < kSameBootNs;
    if (!same) first = &process;
    boots[i] = !process.boot.empty()  ? process.boot
               : !first->boot.empty() ? first->boot
                                      : fmt::format("{}\n{}", first->run.host, first->id);
  }
  return boots;
}

/// Goes through the changes of several curves by time; at equal times, those that shrink come
/// first.
class ChangesInTurn {
 public:
  explicit ChangesInTurn(const std::vector<const HeldCurve*>& curves) : held_(curves.size()) {
    for (const HeldCurve* curve : curves) readers_.emplace_back(curve->steps());
    for (size_t i = 0; i < readers_.size(); ++i) push(i);
  }

  bool next() {
    if (queue_.empty()) return false;
    const size_t i = queue_.top();
    queue_.pop();
    ns_ = readers_[i].ns();
    sum_ += readers_[i].bytes() - held_[i];
    held_[i] = readers_[i].bytes();
    push(i);
    return true;
  }
  uint64_t ns() const { return ns_; }
  uint64_t sum() const { return sum_; }
  const std::vector<uint64_t>& held() const { return held_; }

 private:
  struct Later {
    const std::vector<StepList::Reader>& readers;
    bool operator()(size_t a, size_t b) const {
      if (readers[a].ns() != readers[b].ns()) return readers[a].ns() > readers[b].ns();
      if (readers[a].grows() != readers[b].grows()) return readers[a].grows();
      return a > b;
    }
  };
  void push(size_t i) {
    if (readers_[i].next()) queue_.push(i);
  }

  std::vector<StepList::Reader> readers_;
  std::priority_queue<size_t, std::vector<size_t>, Later> queue_{Later{readers_}};
  std::vector<uint64_t> held_;
  uint64_t ns_ = 0, sum_ = 0;
};

class NodeSums {
 public:
  NodeSums(const Merged& merged, size_t node, const JobClock& clock)
      : processes_(merged.processes), node_(merged.nodes[node]), index_(node), clock_(clock) {}

  std::vector<MergedSum> make() {
    const size_t devices = add_devices();
    if (devices > 1) add("device", "all GPUs", "", each("device"));
    add("host", "host", "", each("host"));
    add_resident();
    return std::move(sums_);
  }

 private:
  // Process, and its name for the scope.
  using Scopes = std::vector<std::pair<size_t, std::string>>;

  size_t add_devices() {
    struct Device {
      const DeviceSummary* first;
      Scopes scopes;
    };
    std::map<std::string, Device> devices;
    std::vector<std::string> order;
    for (const size_t i : node_.processes) {
      for (const DeviceSummary& device : processes_[i].devices) {
        const std::string scope = ScopeKey::device(device.ordinal).text();
        const std::string key =
            device.uuid.empty() ? processes_[i].run.host + "\n" + scope : device.uuid;
        const auto [entry, added] = devices.try_emplace(key, Device{&device, {}});
        if (added) order.push_back(key);
        entry->second.scopes.emplace_back(i, scope);
      }
    }
    size_t used = 0;
    for (const std::string& key : order) {
      const Device& device = devices.at(key);
      used += add(ScopeKey::device(device.first->ordinal).text(), device_text(*device.first),
                  device.first->uuid, device.scopes);
    }
    return used;
  }

  Scopes each(const std::string& scope) const {
    return list_of(node_.processes, [&](size_t i) { return std::pair(i, scope); });
  }

  /// A process with one GPU has no curve "device": its GPU's curve counts instead.
  static const HeldCurve* curve_of(const ProcessRecord& process, const std::string& scope) {
    if (const HeldCurve* const own = value_in(process.curves, scope)) return own;
    if (scope != "device") return nullptr;
    const auto one = std::ranges::find_if(
        process.curves, [](const auto& curve) { return is_whole_device(curve.first); });
    return one == process.curves.end() ? nullptr : &one->second;
  }

  bool add(const std::string& name_of_scope, const std::string& name, const std::string& uuid,
           const Scopes& scopes) {
    MergedSum sum;
    sum.scope = name_of_scope;
    sum.name = name;
    sum.uuid = uuid;
    sum.sum_of_peaks_bytes = 0;
    std::vector<const HeldCurve*> curves;
    for (const auto& [index, scope] : scopes) {
      static const HeldCurve kNothing;
      const HeldCurve* known = curve_of(processes_[index], scope);
      const HeldCurve& curve = known == nullptr ? kNothing : *known;
      MergedPart part{index, curve.peak_bytes(), std::nullopt};
      if (scope == "host" && !processes_[index].host_measured) {
        part.peak_bytes = std::nullopt;
        sum.sum_of_peaks_bytes = std::nullopt;
      }
      if (sum.sum_of_peaks_bytes) *sum.sum_of_peaks_bytes += curve.peak_bytes();
      if (part.peak_bytes == 0) continue;
      sum.parts.push_back(part);
      curves.push_back(&curve);
    }
    if (sum.parts.empty()) return false;
    if (sum.sum_of_peaks_bytes) find_peak(sum, curves);
    sums_.push_back(std::move(sum));
    return true;
  }

  /// At most the peaks of those that lived at once, at least the most that was seen of one.
  void add_resident() {
    MergedSum sum;
    sum.scope = kResidentScope;
    sum.name = "host, resident";
    sum.sum_of_peaks_bytes = 0;
    std::vector<std::pair<uint64_t, int64_t>> steps;  // when, and by how much it may have risen
    uint64_t seen = 0;
    for (const size_t i : node_.processes) {
      const ProcessRecord& process = processes_[i];
      if (!process.resident) continue;
      const Metrics metrics(process.resident->begin(), process.resident->end());
      const auto own = process.own_memory();
      const auto most = own ? own : metric(metrics, "host.rss.peak_bytes");
      seen = std::max(seen, metric(metrics, "host.memory.seen_bytes").value_or(0));
      if (own) sum.parts.push_back({i, own, std::nullopt});
      *sum.sum_of_peaks_bytes += most.value_or(0);
      steps.emplace_back(process.start_monotonic_ns, most.value_or(0));
      if (process.end_ns != 0) steps.emplace_back(process.end_ns, -steps.back().second);
    }
    if (sum.parts.empty()) return;
    std::ranges::sort(steps);
    int64_t now = 0, most = static_cast<int64_t>(seen);
    for (const auto& [when, step] : steps) most = std::max(most, now += step);
    sum.peak_bytes = static_cast<uint64_t>(most);
    sum.error_bytes = *sum.peak_bytes - seen;
    sums_.push_back(std::move(sum));
  }

  /// Goes through the changes twice: first to find the peak, then to note what each process held
  /// there.
  void find_peak(MergedSum& sum, const std::vector<const HeldCurve*>& curves) const {
    uint64_t peak = 0;
    size_t steps = 0;
    size_t peak_step = 0;
    for (ChangesInTurn changes(curves); changes.next();) {
      ++steps;
      if (changes.sum() <= peak) continue;
      peak = changes.sum();
      peak_step = steps;
    }
    ChangesInTurn changes(curves);
    for (size_t step = 0; step < peak_step; ++step) changes.next();
    sum.peak_bytes = peak;
    if (peak_step > 0) sum.peak_time_ns = clock_.job_ns(index_, changes.ns());
    uint64_t error_bytes = 0;
    for (size_t i = 0; i < curves.size(); ++i) {
      sum.parts[i].at_peak_bytes = changes.held()[i];
      error_bytes += curves[i]->error_bytes();
    }
    if (sum.scope != "host") sum.error_bytes = error_bytes;
  }

  const std::vector<ProcessRecord>& processes_;
  const MergedNode& node_;
  const size_t index_;
  const JobClock& clock_;
  std::vector<MergedSum> sums_;
};

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
      std::ranges::sort(in_turn, {}, &ProcessRecord::start_monotonic_ns);
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
    const size_t first = std::ranges::min(
        node.processes, {}, [&](size_t i) { return merged.processes[i].start_monotonic_ns; });
    const ProcessRecord& process = merged.processes[first];
    begins_.push_back({process.start_monotonic_ns, process.start_realtime_ns});
    first_realtime_ns_ = std::min(first_realtime_ns_, process.start_realtime_ns);
  }
}

void add_node_sums(Merged& merged, const JobClock& clock) {
  for (size_t node = 0; node < merged.nodes.size(); ++node)
    merged.nodes[node].sums = NodeSums(merged, node, clock).make();
}

}  // namespace gpupeak::collector
