#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "collector/summary/run_text.h"
#include "collector/text/scope_key.h"
#include "collector/text/text_lines.h"
#include "collector/write/writers.h"

namespace gpupeak::collector {
namespace {

constexpr size_t kAllProcesses = 8;  ///< up to this many processes, each is listed
constexpr size_t kMostLosses = 4;    ///< if there are more: only those with losses, up to this many
constexpr size_t kMostOutliers = 6;
constexpr size_t kMostNodes = 8;
constexpr size_t kMostRanks = 5;
constexpr size_t kMostSumLines = 30;  ///< if there are more: one line for each sum

class MergeText {
 public:
  MergeText(const Merged& merged, const TextStyle& style)
      : merged_(merged), style_(style), text_(style) {}

  void write(std::ostream& out) {
    heading();
    for (const std::string& note : merged_.notes) text_.wrap("  " + note, alarm);
    job_end();
    outliers();
    if (merged_.nodes.size() > 1) {
      nodes();
      ranks();
    } else if (sum_lines() <= kMostSumLines) {
      for (const MergedSum& sum : merged_.nodes.front().sums) sum_in_full(sum);
    } else {
      sums();
      ranks();
    }
    text_.write(out);
  }

 private:
  std::string size(const std::optional<uint64_t>& bytes) const { return text_.size(bytes); }

  std::string process_text(size_t i) const {
    const ProcessRecord& process = merged_.processes[i];
    const std::string rank = process.run.rank ? fmt::format("rank {}, ", *process.run.rank) : "";
    const std::string node =
        merged_.nodes.size() > 1 ? " on " + merged_.nodes[merged_.node_of[i]].name() : "";
    return rank + pid_text(process.run.pid, process.program()) + node;
  }

  void heading() {
    const size_t count = merged_.processes.size();
    const size_t nodes = merged_.nodes.size();
    text_.add("{}  {} {}{}", bold("MERGED", style_), grouped(count),
              count == 1 ? "process" : "processes",
              nodes > 1 ? fmt::format(" on {} nodes", grouped(nodes)) : "");
    size_t losses = 0;
    for (size_t i = 0; i < count; ++i) {
      const ProcessRecord& process = merged_.processes[i];
      const bool fine = process.quality.exact && process.quality.log_complete;
      losses += !fine;
      if (count > kAllProcesses && (fine || losses > kMostLosses)) continue;
      const std::string text = losses_text(process.quality);
      text_.add(cut(fmt::format("  {}  {}: ", process_text(i), process.log_path),
                    text_.width() - std::min(text_.width(), display_width(text)), style_) +
                (fine ? text : alarm(text, style_)));
    }
    if (count <= kAllProcesses) return;
    text_.line(losses == 0
                   ? "  no record lost"
                   : fmt::format("  {} in all with losses or without an end", grouped(losses)));
  }

  std::string ended_text(const Casualty& casualty) const {
    const ProcessRecord& process = merged_.processes[casualty.process];
    const std::string ended = exit_text(process.run.end);
    if (casualty.how == Casualty::How::kRefused) {
      const Refusal& refusal = *process.refusal;
      return fmt::format("{} asked for {}{} at {} and was refused, then {}", refusal.api,
                         size(refusal.requested_bytes),
                         refusal.device ? fmt::format(" of GPU {}", *refusal.device) : "",
                         instant(casualty.time_ns), ended);
    }
    return fmt::format("{} at {}", ended, instant(casualty.time_ns));
  }

  void job_end() {
    const std::vector<Casualty>& all = merged_.end.casualties;
    if (all.empty()) return;
    const Casualty& first = all.front();
    const std::string what = fmt::format("{}: {}", process_text(first.process), ended_text(first));
    text_.section("FAILED", what, true);
    if (first.how == Casualty::How::kSignalled)
      text_.line(
          "  nobody failed by itself before: such a signal is sent by the kernel where the host's "
          "memory is short, by a scheduler, or by a person");
    if (const auto& refusal = merged_.processes[first.process].refusal;
        refusal && first.how == Casualty::How::kRefused) {
      if (!refusal->site.empty()) text_.line("  by " + refusal->site);
      if (!refusal->why.empty()) text_.wrap("  why: " + refusal->why);
    }
    others();
  }

  void others() {
    const std::vector<Casualty>& all = merged_.end.casualties;
    const auto is_signalled = [](const Casualty& of) {
      return of.how == Casualty::How::kSignalled;
    };
    const auto later = static_cast<size_t>(std::count_if(all.begin() + 1, all.end(), is_signalled));
    if (later > 0) {
      text_.line("  {} ended later by signals from outside, as launchers end the others",
                 grouped(later));
    }
    const size_t failed = all.size() - 1 - later;
    const auto next = std::find_if_not(all.begin() + 1, all.end(), is_signalled);
    if (failed > 0) {
      text_.line("  {} failed later, the first of them {}: {}", grouped(failed),
                 process_text(next->process), ended_text(*next));
    }
    const JobEnd& end = merged_.end;
    if (end.without_end > 0) text_.line("  {} have no end", grouped(end.without_end));
    if (end.not_said > 0)
      text_.line("  {} ended, how is not known: only `gpupeak run` notes that",
                 grouped(end.not_said));
    if (merged_.nodes.size() > 1)
      text_.line("  who was first is as true as the nodes' calendars agree");
  }

  static std::string excess_text(const Outlier& outlier, const TextStyle& style) {
    const std::string bytes = signed_size(outlier.excess_bytes, style);
    const std::string more = outlier.excess_bytes > 0 ? "+" + bytes : bytes;
    if (outlier.median_bytes.value_or(0) == 0) return more;
    const auto percent = static_cast<double>(outlier.excess_bytes) * 100 /
                         static_cast<double>(*outlier.median_bytes);
    return fmt::format("{:+.0f} % ({})", percent, more);
  }

  /// By which tag and at which site this process has more than others; if neither is known, how
  /// much more in all.
  std::string outlier_text(const std::vector<const Outlier*>& of_process) const {
    const auto largest = [&](std::string_view by) -> const Outlier* {
      for (const Outlier* outlier : of_process) {
        if (outlier->by == by && outlier->side == of_process.front()->side) return outlier;
      }
      return nullptr;
    };
    const std::string side = of_process.front()->side == "host" ? " of host memory" : "";
    const Outlier* tag = largest("tag");
    const Outlier* site = largest("site");
    const Outlier* first = tag != nullptr ? tag : site != nullptr ? site : of_process.front();
    std::string text = excess_text(*first, style_) + side;
    if (first == tag) text += " in " + tag->name;
    if (first->by == "peak") text += " in all";
    if (first == site) return text + " at " + site->name;
    if (site != nullptr) text += fmt::format("; {} at {}", excess_text(*site, style_), site->name);
    return text;
  }

  void outliers() {
    if (merged_.outliers.empty()) return;
    std::vector<size_t> order;
    std::vector<std::vector<const Outlier*>> of_process(merged_.processes.size());
    for (const Outlier& outlier : merged_.outliers) {
      if (of_process[outlier.process].empty()) order.push_back(outlier.process);
      of_process[outlier.process].push_back(&outlier);
    }
    text_.section("OUTLIERS", fmt::format("own peaks against the median of {} that do the same",
                                          grouped(merged_.outliers.front().compared)));
    for (size_t i = 0; i < std::min(order.size(), kMostOutliers); ++i)
      text_.line("  {}: {}", process_text(order[i]), outlier_text(of_process[order[i]]));
    if (order.size() > kMostOutliers)
      text_.line("  {} more", grouped(order.size() - kMostOutliers));
  }

  static std::optional<uint64_t> at_once(const MergedSum* sum) {
    return sum == nullptr ? std::nullopt : sum->peak_bytes;
  }
  static const MergedSum* all_gpus(const MergedNode& node) {
    const MergedSum* all = node.find_sum("device");
    if (all != nullptr) return all;
    const MergedSum& first = node.sums.empty() ? kNoSum : node.sums.front();
    return first.scope.starts_with("device") ? &first : nullptr;
  }
  static std::optional<uint64_t> fullest_gpu(const MergedNode& node) {
    std::optional<uint64_t> most;
    for (const MergedSum& sum : node.sums) {
      if (is_whole_device(sum.scope)) most = std::max(most, sum.peak_bytes);
    }
    return most;
  }

  /// Numbers of items by their keys, the largest first.
  template <class Key>
  static std::vector<size_t> largest_first(size_t count, const Key& key) {
    std::vector<size_t> order(count);
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, [&](size_t a, size_t b) { return key(a) > key(b); });
    return order;
  }

  void nodes() {
    const std::vector<size_t> order = largest_first(merged_.nodes.size(), [&](size_t i) {
      const MergedNode& node = merged_.nodes[i];
      return std::tuple(at_once(all_gpus(node)), at_once(node.find_sum("host")));
    });
    text_.section("NODES", "what each held at once; of the host at most");
    const TextTable table(text_,
                          {{"all GPUs"}, {"one GPU"}, {"host"}, {"resident"}, {"processes", 10}});
    table.head("node");
    std::optional<uint64_t> device, host = 0, resident = 0;
    uint64_t error = 0;
    const auto add = [](std::optional<uint64_t>& sum, const std::optional<uint64_t>& part) {
      sum = sum && part ? std::optional(*sum + *part) : std::nullopt;
    };
    for (size_t i = 0; i < order.size(); ++i) {
      const MergedNode& node = merged_.nodes[order[i]];
      const MergedSum* gpus = all_gpus(node);
      const std::optional<uint64_t> of_host = at_once(node.find_sum("host"));
      if (at_once(gpus)) device = device.value_or(0) + *at_once(gpus);
      if (gpus != nullptr) error += gpus->error_bytes.value_or(0);
      const std::optional<uint64_t> of_resident = at_once(node.find_sum(kResidentScope));
      add(host, of_host);
      add(resident, of_resident);
      if (i >= kMostNodes) continue;
      table.line({size(at_once(gpus)), size(fullest_gpu(node)), size(of_host), size(of_resident),
                  grouped(node.processes.size())},
                 node.name());
    }
    if (order.size() > kMostNodes) text_.line("  {} more nodes", order.size() - kMostNodes);
    table.line({size(device), "", size(host), size(resident), grouped(merged_.processes.size())},
               "all together at most: nodes share no clock");
    if (error > 0)
      text_.line("  all GPUs: up to {} less, since some logs have too many steps to keep",
                 size(error));
  }

  size_t sum_lines() const {
    return collector::sum_of(merged_.nodes.front().sums,
                             [](const MergedSum& sum) { return 3 + sum.parts.size(); });
  }

  std::string at_once_text(const MergedSum& sum) const {
    if (!sum.peak_bytes) return "not measured by all processes";
    const std::optional<uint64_t>& error = sum.error_bytes;
    std::string text = error == 0 ? "" : "at most ";
    text += size(sum.peak_bytes) + " at once";
    if (sum.scope != kResidentScope) text += " at " + instant(sum.peak_time_ns);
    if (error.value_or(0) > 0) text += fmt::format(" (or up to {} less)", size(error));
    return text +
           fmt::format("; the processes' own peaks add up to {}", size(sum.sum_of_peaks_bytes));
  }

  void sum_in_full(const MergedSum& sum) {
    text_.section("PEAK", fmt::format("{}: {}", sum.name, at_once_text(sum)));
    const TextTable table(text_, {{"then"}, {"own peak"}});
    table.head("process");
    for (const MergedPart& part : sum.parts)
      table.line({size(part.at_peak_bytes), size(part.peak_bytes)}, process_text(part.process));
  }

  void sums() {
    text_.section("PEAKS", "what the processes held at once");
    for (const MergedSum& sum : merged_.nodes.front().sums)
      text_.line("  {}: {}", sum.name, at_once_text(sum));
  }

  static std::optional<uint64_t> own(const ProcessRecord& process, std::string_view side) {
    if (side == kResidentScope) return process.own_memory();
    const OwnPeak* peak = process.find_peak(side);
    return peak == nullptr ? std::nullopt : std::optional(peak->bytes);
  }

  void ranks() {
    const std::vector<size_t> order = largest_first(merged_.processes.size(), [&](size_t i) {
      const ProcessRecord& process = merged_.processes[i];
      return std::tuple(own(process, "device"), own(process, "host"));
    });
    text_.section("PROCESSES", "own peaks, largest first");
    const TextTable table(text_, {{"GPUs"}, {"host"}, {"resident"}});
    table.head("process");
    const auto rank_row = [&](size_t i) {
      const ProcessRecord& process = merged_.processes[i];
      table.line({size(own(process, "device")), size(own(process, "host")),
                  size(own(process, kResidentScope))},
                 process_text(i));
    };
    for (size_t i = 0; i < std::min(order.size(), kMostRanks); ++i) rank_row(order[i]);
    if (order.size() <= kMostRanks) return;
    if (order.size() > kMostRanks + 1)
      text_.line("  {} between", grouped(order.size() - kMostRanks - 1));
    rank_row(order.back());
  }

  static inline const MergedSum kNoSum{};
  const Merged& merged_;
  const TextStyle& style_;
  TextLines text_;
};

Json refusal_json(const std::optional<Refusal>& refusal) {
  if (!refusal) return nullptr;
  return object("api, device, requested_bytes, time_ns, phase, site, why, count", refusal->api,
                refusal->device, refusal->requested_bytes, refusal->time_ns, refusal->phase,
                text_or_null(refusal->site), text_or_null(refusal->why), refusal->count);
}

Json process_json(const ProcessRecord& process, size_t node) {
  return object(
      "log, node, command, host, pid, rank, start_time, duration_ns, exit, peaks, refusal, quality",
      process.log_path, node, process.run.command, process.run.host, process.run.pid,
      process.run.rank, process.run.start_time, process.run.duration_ns, process.run.end,
      process.peaks, refusal_json(process.refusal), process.quality);
}

Json sum_json(const MergedSum& sum) {
  return object(
      "scope, name, uuid, sum_of_peaks_bytes, peak_bytes, error_bytes, peak_time_ns, parts",
      sum.scope, sum.name, text_or_null(sum.uuid), sum.sum_of_peaks_bytes, sum.peak_bytes,
      sum.error_bytes, json_if(sum.peak_bytes && sum.scope != kResidentScope, sum.peak_time_ns),
      sum.parts);
}

Json node_json(const MergedNode& node) {
  return object("name, hosts, boot, processes, sums", node.name(), node.hosts,
                text_or_null(node.boot), node.processes, array_of(node.sums, sum_json));
}

Json outlier_json(const Outlier& outlier) {
  return object("process, side, by, name, bytes, median_bytes, excess_bytes, compared",
                outlier.process, outlier.side, outlier.by, text_or_null(outlier.name),
                outlier.bytes, outlier.median_bytes, outlier.excess_bytes, outlier.compared);
}

const char* how_text(Casualty::How how) {
  constexpr const char* kNames[] = {"refused", "failed", "signalled"};
  return kNames[static_cast<size_t>(how)];
}

Json end_json(const JobEnd& end) {
  Json casualties = array_of(end.casualties, [&](const Casualty& casualty) {
    return object("process, how, time_ns", casualty.process, how_text(casualty.how),
                  casualty.time_ns);
  });
  return object("casualties, in_order, not_said, without_end", std::move(casualties), end.in_order,
                end.not_said, end.without_end);
}

/// Writes `items` one by one, as an array in the object that is being written. A thousand processes
/// as one value would take several times the memory of their text.
template <class Items, class ToJson>
void write_each(std::ostream& out, const char* name, const Items& items, ToJson to_json) {
  out << ",\n \"" << name << "\": [";
  for (size_t i = 0; i < items.size(); ++i)
    out << (i == 0 ? "\n  " : ",\n  ")
        << to_json(items[i]).dump(-1, ' ', false, Json::error_handler_t::replace);
  out << (items.empty() ? "]" : "\n ]");
}

void write_json(const Merged& merged, std::ostream& out) {
  out << "{\n \"schema\": \"gpupeak.merge/2\"";
  write_each(out, "processes", merged.processes, [&](const ProcessRecord& process) {
    return process_json(process,
                        merged.node_of[static_cast<size_t>(&process - merged.processes.data())]);
  });
  write_each(out, "nodes", merged.nodes, node_json);
  write_each(out, "outliers", merged.outliers, outlier_json);
  out << ",\n \"end\": " << end_json(merged.end).dump();
  out << ",\n \"notes\": "
      << Json(merged.notes).dump(-1, ' ', false, Json::error_handler_t::replace) << "\n}\n";
}

}  // namespace

void write_merge(const Merged& merged, std::ostream& out, const ViewStyle& style) {
  if (style.is_json()) return write_json(merged, out);
  MergeText(merged, style).write(out);
}

}  // namespace gpupeak::collector
