#include "collector/analyze/phase_names.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "collector/text/wrapping_sum.h"

namespace gpupeak::collector {
namespace {

constexpr size_t kKeptApart = 64;
constexpr uint32_t kNoParent = ListedPhase::kNoParent;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// The name with "…" for each number.
std::string without_numbers(std::string_view name) {
  std::string out;
  for (size_t i = 0; i < name.size(); ++i) {
    if (!is_digit(name[i])) {
      out += name[i];
    } else if (i == 0 || !is_digit(name[i - 1])) {
      out += "…";
    }
  }
  return out;
}

/// The name that phases of one row share. The program's own names and a model's nodes are not
/// changed: the user chose them.
std::string pattern_of(const PhaseSummary& phase) {
  return phase.source == "api" || phase.source == "node" ? phase.name : without_numbers(phase.name);
}

/// Joins the metrics of two phases: by sum, by the larger one, or by the later one.
void join_metrics(Metrics& to, const Metrics& from) {
  for (const auto& [name, value] : from) {
    std::optional<uint64_t>& both = to[name];
    if (name.ends_with(".start_bytes") || !value) continue;  // the first phase's stays
    if (!both || name.ends_with(".end_bytes")) {
      both = value;
    } else {
      both = name.ends_with(".peak_bytes") ? std::max(*both, *value) : *both + *value;
    }
  }
}

void join_sides(PhaseInstanceSide& to, const PhaseInstanceSide& from) {
  to.peak_bytes = std::max(to.peak_bytes, from.peak_bytes);
  to.end_bytes = from.end_bytes;
  if (from.kept_bytes) to.kept_bytes = wrapping_sum(to.kept_bytes.value_or(0), *from.kept_bytes);
  if (from.alloc_count) to.alloc_count = to.alloc_count.value_or(0) + *from.alloc_count;
}

/// Joins the instances of two phases into one row.
void join_instances(PhaseInstances& to, const PhaseInstances& from) {
  to.count += from.count;
  to.last = to.first + to.count - 1;
  if (to.end_ns) to.end_ns = from.end_ns ? std::max(*to.end_ns, *from.end_ns) : from.end_ns;
  to.open_ns += from.open_ns;
  to.alike = false;
  join_sides(to.device, from.device);
  if (to.host && from.host) join_sides(*to.host, *from.host);
}

void keep_larger(std::optional<Holder>& to, std::optional<Holder>& from) {
  if (from && (!to || from->bytes > to->bytes)) to = std::move(from);
}

void join(PhaseSummary& to, PhaseSummary& from) {
  to.count += from.count;
  to.calls.reset();
  to.end_ns = to.end_ns && from.end_ns ? std::max(to.end_ns, from.end_ns) : std::nullopt;
  to.open_ns += from.open_ns;
  join_metrics(to.metrics, from.metrics);
  for (const PhaseInstances& more : from.instances) {
    if (to.instances.empty()) {
      to.instances.push_back(more);
    } else {
      join_instances(to.instances.front(), more);
    }
  }
  to.instances.resize(std::min<size_t>(to.instances.size(), 1));
  keep_larger(to.biggest_new_device_site, from.biggest_new_device_site);
  keep_larger(to.biggest_new_host_site, from.biggest_new_host_site);
}

class Folder {
 public:
  explicit Folder(std::vector<ListedPhase> phases)
      : phases_(std::move(phases)), group_of_(phases_.size()) {}

  std::vector<PhaseSummary> fold() {
    int deepest = 0;
    for (const ListedPhase& listed : phases_) deepest = std::max(deepest, listed.phase.depth);
    std::vector<std::vector<uint32_t>> levels(static_cast<size_t>(deepest) + 1);
    for (uint32_t i = 0; i < phases_.size(); ++i) {
      levels[static_cast<size_t>(phases_[i].phase.depth)].push_back(i);
    }
    for (const std::vector<uint32_t>& level : levels) fold_level(level);
    return take();
  }

 private:
  /// Where a phase is: under which group, from which source.
  using Place = std::tuple<uint32_t, std::string, uint64_t, uint64_t>;
  struct Group {
    std::string name;
    std::set<std::string> names;
    std::vector<uint32_t> members;
  };

  Place place_of(const ListedPhase& listed) const {
    const uint32_t parent = listed.parent == kNoParent ? kNoParent : group_of_[listed.parent];
    return {parent, listed.phase.source, listed.domain, listed.phase.session};
  }

  void fold_level(const std::vector<uint32_t>& level) {
    std::map<Place, std::map<std::string, std::set<std::string>>> alike;  // by name without numbers
    for (const uint32_t i : level) {
      const PhaseSummary& phase = phases_[i].phase;
      alike[place_of(phases_[i])][pattern_of(phase)].insert(phase.name);
    }
    // By domain: how many rows its phases make, with names that differ only in numbers folded.
    std::map<uint64_t, size_t> rows;
    for (const auto& [place, names] : alike) {
      size_t& count = rows[std::get<2>(place)];
      for (const auto& [text, same] : names) count += same.size() > kKeptApart ? 1 : same.size();
    }
    std::map<std::pair<Place, std::string>, uint32_t> groups;
    for (const uint32_t i : level) {
      const ListedPhase& listed = phases_[i];
      const Place place = place_of(listed);
      std::string name = listed.phase.name;
      std::string less = pattern_of(listed.phase);
      if (alike.at(place).at(less).size() > kKeptApart) name = std::move(less);
      if (listed.domain != 0 && rows.at(listed.domain) > kKeptApart) {
        name = name.substr(0, name.find(':')) + ":…";
      }
      const auto next = static_cast<uint32_t>(groups_.size());
      const auto [entry, added] = groups.try_emplace({place, name}, next);
      if (added) groups_.push_back({name, {}, {}});
      group_of_[i] = entry->second;
      groups_[entry->second].names.insert(listed.phase.name);
      groups_[entry->second].members.push_back(i);
    }
  }

  std::vector<PhaseSummary> take() {
    std::vector<PhaseSummary> folded;
    for (uint32_t i = 0; i < phases_.size(); ++i) {
      Group& group = groups_[group_of_[i]];
      if (group.members.front() != i) continue;
      PhaseSummary& all = phases_[i].phase;
      for (size_t k = 1; k < group.members.size(); ++k) {
        join(all, phases_[group.members[k]].phase);
      }
      all.name = group.name;
      all.name_count = group.names.size();
      if (phases_[i].parent != kNoParent) all.parent = groups_[group_of_[phases_[i].parent]].name;
      folded.push_back(std::move(all));
    }
    return folded;
  }

  std::vector<ListedPhase> phases_;
  std::vector<uint32_t> group_of_;
  std::vector<Group> groups_;
};

}  // namespace

std::vector<PhaseSummary> fold_phase_names(std::vector<ListedPhase> phases) {
  return Folder(std::move(phases)).fold();
}

}  // namespace gpupeak::collector
