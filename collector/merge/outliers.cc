#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <tuple>

#include "collector/merge/merged.h"

namespace gpupeak::collector {
namespace {

constexpr size_t kFewestCompared = 3;
constexpr uint64_t kDeviations = 7;  ///< about five standard deviations of a normal spread

constexpr uint64_t kWorthSaying = 100;  ///< 1/100 of the median peak

/// The median; of two in the middle the lower one. `values` must not be empty.
uint64_t median(std::vector<uint64_t> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

uint64_t difference(uint64_t a, uint64_t b) {
  return a > b ? a - b : b - a;
}

int64_t signed_difference(uint64_t a, uint64_t b) {
  const auto bytes = static_cast<int64_t>(std::min<uint64_t>(difference(a, b), INT64_MAX));
  return a > b ? bytes : -bytes;
}

/// Finds the outliers among processes that do the same work, on one side (device or host).
class Comparison {
 public:
  Comparison(const Merged& merged, std::vector<size_t> processes, std::string side)
      : merged_(merged), processes_(std::move(processes)), side_(std::move(side)) {}

  void add_to(std::vector<Outlier>& outliers) {
    std::erase_if(processes_, [&](size_t i) { return peak(i) == nullptr; });
    if (processes_.size() < kFewestCompared) return;
    Values peaks;
    for (const size_t i : processes_) peaks.push_back({peak(i)->bytes, true});
    median_peak_ = median_of(peaks);
    compare("peak", "", peaks, outliers);
    compare_parts("tag", &OwnPeak::tags, outliers);
    compare_parts("site", &OwnPeak::sites, outliers);
  }

 private:
  /// What each process has, in the order of processes_. If it is not known, it has at most so many
  /// bytes.
  struct Value {
    uint64_t bytes;
    bool is_known;
  };
  using Values = std::vector<Value>;

  const OwnPeak* peak(size_t process) const { return merged_.processes[process].find_peak(side_); }

  static uint64_t median_of(const Values& values) {
    std::vector<uint64_t> bytes;
    for (const Value& value : values) bytes.push_back(value.bytes);
    return median(std::move(bytes));
  }

  /// The most that a site can hold if it is not in a list that was cut: no more than the last row
  /// of the list, and no more than all rows that were cut off.
  static Value absent(const OwnPeak& peak, const std::vector<HeldPart>& parts, bool whole) {
    if (whole || parts.empty()) return {0, whole};
    return {std::min(parts.back().bytes, peak.other_bytes), peak.other_bytes == 0};
  }

  void compare_parts(const std::string& by, std::vector<HeldPart> OwnPeak::*list,
                     std::vector<Outlier>& outliers) const {
    // By name and index into processes_.
    std::map<std::string_view, std::map<size_t, uint64_t>> names;
    for (size_t i = 0; i < processes_.size(); ++i) {
      for (const HeldPart& part : peak(processes_[i])->*list) {
        // An address differs from process to process.
        const bool is_address = part.name.starts_with("0x");
        if (!is_address) names[part.name][i] += part.bytes;
      }
    }
    for (const auto& [name, bytes] : names) {
      Values values;
      for (size_t i = 0; i < processes_.size(); ++i) {
        const auto own = bytes.find(i);
        const OwnPeak& all = *peak(processes_[i]);
        values.push_back(own != bytes.end() ? Value{own->second, true}
                                            : absent(all, all.*list, by == "tag"));
      }
      compare(by, std::string(name), values, outliers);
    }
  }

  void compare(const std::string& by, const std::string& name, const Values& values,
               std::vector<Outlier>& outliers) const {
    const uint64_t usual = median_of(values);
    std::vector<uint64_t> differences;
    for (const Value& value : values) differences.push_back(difference(value.bytes, usual));
    const uint64_t spread = kDeviations * median(differences);
    const bool usual_is_known = std::all_of(values.begin(), values.end(), [&](const Value& value) {
      return value.is_known || value.bytes < usual;
    });
    for (size_t i = 0; i < values.size(); ++i) {
      const bool is_far = differences[i] > spread && differences[i] >= median_peak_ / kWorthSaying;
      if (!values[i].is_known || !is_far) continue;
      Outlier& outlier = outliers.emplace_back();
      outlier.process = processes_[i];
      outlier.side = side_;
      outlier.by = by;
      outlier.name = name;
      outlier.bytes = values[i].bytes;
      if (usual_is_known) outlier.median_bytes = usual;
      outlier.excess_bytes = signed_difference(values[i].bytes, usual);
      outlier.compared = processes_.size();
    }
  }

  const Merged& merged_;
  std::vector<size_t> processes_;
  const std::string side_;
  uint64_t median_peak_ = 0;
};

uint64_t bytes_of(const ProcessRecord& process, std::string_view side) {
  const OwnPeak* peak = process.find_peak(side);
  return peak == nullptr ? 0 : peak->bytes;
}

/// Groups of processes that do the same work: they run the same program. Processes without a rank
/// are a group of their own, since they start the others. Children have their parent's rank, so of
/// several processes of one rank the one that needs most is taken.
std::vector<std::vector<size_t>> alike(const Merged& merged) {
  std::map<std::tuple<std::string, bool>, std::vector<size_t>> programs;
  for (size_t i = 0; i < merged.processes.size(); ++i) {
    const ProcessRecord& process = merged.processes[i];
    std::vector<size_t>& group = programs[{process.program(), process.run.rank.has_value()}];
    group.push_back(i);
  }
  std::vector<std::vector<size_t>> groups;
  for (auto& [program, group] : programs) {
    std::map<std::tuple<size_t, int32_t>, size_t> largest;
    std::vector<size_t>& kept = groups.emplace_back();
    for (const size_t i : group) {
      const ProcessRecord& process = merged.processes[i];
      if (!process.run.rank) {
        kept.push_back(i);
        continue;
      }
      const auto [entry, added] = largest.try_emplace({merged.node_of[i], *process.run.rank}, i);
      const auto need = [&](size_t of) {
        const ProcessRecord& record = merged.processes[of];
        return std::tuple(bytes_of(record, "device"), bytes_of(record, "host"));
      };
      if (!added && need(i) > need(entry->second)) entry->second = i;
    }
    for (const auto& [rank, i] : largest) kept.push_back(i);
  }
  return groups;
}

}  // namespace

std::vector<Outlier> find_outliers(const Merged& merged) {
  std::vector<Outlier> outliers;
  for (const std::vector<size_t>& group : alike(merged)) {
    for (const std::string side : {"device", "host"})
      Comparison(merged, group, side).add_to(outliers);
  }
  std::sort(outliers.begin(), outliers.end(), [](const Outlier& a, const Outlier& b) {
    const auto key = [](const Outlier& outlier) {
      return std::tuple(-std::abs(outlier.excess_bytes), outlier.process, outlier.side, outlier.by,
                        outlier.name);
    };
    return key(a) < key(b);
  });
  return outliers;
}

}  // namespace gpupeak::collector
