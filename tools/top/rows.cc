#include <algorithm>
#include <cmath>

#include "collector/text/scope_key.h"
#include "tools/top/text.h"
#include "tools/top/words.h"

namespace gpupeak::tools {
namespace {

double order_of(const TopProgram& program, TopSort sort) {
  switch (sort) {
    case TopSort::kMemory:
      return static_cast<double>(program.device_live());
    case TopSort::kPeak:
      return static_cast<double>(program.device_peak());
    case TopSort::kGrowth:
      return growth_of(program).value_or(-INFINITY);
    case TopSort::kEvents:
      return program.events_per_second().value_or(-1);
    case TopSort::kName:
      break;
  }
  return 0;
}

}  // namespace

std::vector<const TopProgram*> arranged(const std::vector<TopProgram>& programs,
                                        const TopView& view) {
  std::vector<const TopProgram*> found;
  for (const TopProgram& program : programs) {
    const FolderLog& log = program.log();
    if (view.filter.empty() || contains(log.name + " " + log.facts.program, view.filter))
      found.push_back(&program);
  }
  std::sort(found.begin(), found.end(), [&](const TopProgram* a, const TopProgram* b) {
    const bool live_a = a->log().is_live(), live_b = b->log().is_live();
    if (live_a != live_b) return live_a;
    const double of_a = order_of(*a, view.sort), of_b = order_of(*b, view.sort);
    return of_a != of_b ? of_a > of_b : a->log().name < b->log().name;
  });
  return found;
}

std::vector<const collector::Holder*> holders_of(const TopProgram& program, const TopView& view) {
  std::vector<const collector::Holder*> rows;
  const TopFindings* found = program.findings();
  if (found == nullptr) return rows;
  const auto take = [&](const std::vector<collector::Holder>& holders) {
    for (const collector::Holder& holder : holders) {
      if (view.filter.empty() || contains(holder.title + " " + holder.kind, view.filter))
        rows.push_back(&holder);
    }
  };
  if (are_of_peak(program, view)) {
    for (const collector::Peak& peak : found->summary.peaks) {
      const bool whole = peak.scope == "host" || collector::is_whole_device(peak.scope);
      if (whole) take(peak.holders);
    }
  } else {
    take(found->summary.live_at_exit);
  }
  // The GPU's rows come first: its memory is what runs out.
  std::stable_sort(rows.begin(), rows.end(), [](const auto* a, const auto* b) {
    const bool device_a = a->kind.starts_with("device"), device_b = b->kind.starts_with("device");
    return device_a != device_b ? device_a : a->bytes > b->bytes;
  });
  return rows;
}

}  // namespace gpupeak::tools
