#include "collector/views/sweep_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace gpupeak::collector {
namespace {

/// A smaller term (bytes) counts as 0: it is what floating point leaves of zero.
constexpr double kNothing = 64;

}  // namespace

bool has_figures(const SweepRun& run) {
  return run.status == SweepStatus::kDone || run.status == SweepStatus::kRefused;
}

uint64_t bytes_of(const SweepRun& run, const std::string& tag) {
  uint64_t bytes = 0;
  for (const TagShare& share : run.tags) bytes += share.name == tag ? share.bytes : 0;
  return bytes;
}

std::vector<std::string> largest_tags(const SweepRuns& runs) {
  std::map<std::string, uint64_t> most;
  for (const SweepRun* run : runs) {
    for (const TagShare& tag : run->tags) most[tag.name] = std::max(most[tag.name], tag.bytes);
  }
  std::vector<std::string> names;
  names.reserve(most.size());
  for (const auto& [name, bytes] : most) names.push_back(name);
  std::stable_sort(names.begin(), names.end(),
                   [&](const std::string& a, const std::string& b) { return most[a] > most[b]; });
  return names;
}

std::string curve_text(const Curve& curve, const std::string& name, const TextStyle& style) {
  std::string text;
  const auto term = [&](double bytes, const std::string& of) {
    if (std::abs(bytes) < kNothing) return;
    const std::string size = size_text(static_cast<uint64_t>(std::llround(std::abs(bytes))), style);
    text += text.empty() ? (bytes < 0 ? "-" : "") : bytes < 0 ? " - " : " + ";
    text += size + of;
  };
  term(curve.constant(), "");
  term(curve.slope(), " × " + name);
  if (curve.is_parabola()) term(curve.square(), " × " + name + "²");
  if (text.empty()) text = "0";
  if (curve.points() > (curve.is_parabola() ? 3 : 2)) {
    const double error = curve.error() < kNothing ? 0 : curve.error();
    text += fmt::format("  (±{})", size_text(static_cast<uint64_t>(std::llround(error)), style));
  }
  return text;
}

std::string status_text(const SweepRun& run) {
  switch (run.status) {
    case SweepStatus::kOutOfMemory:
      return "out of memory";
    case SweepStatus::kFailed:
      return "left out: " + run.why;
    case SweepStatus::kNotRun:
      return "not run: " + run.why;
    case SweepStatus::kRefused:
      return "left out: " + run.why;
    case SweepStatus::kDone:
      break;
  }
  return run.most_bytes ? "" : "no upper bound: " + run.why;
}

std::string prediction_text(const SweepReport& report, const SweepCapacity& capacity,
                            const SweepPrediction& prediction) {
  const SweepParameter& parameter = report.parameters.front();
  const auto value = [&](double number) {
    return fmt::format("{}={}", parameter.name, number_text(number));
  };
  if (capacity.name.empty()) return "no capacity is known: give --capacity or --gpu";
  std::string text;
  if (prediction.largest) {
    text = fmt::format("{}: {} fits{}", capacity.name, value(*prediction.largest),
                       prediction.was_run ? " (was run)" : " (predicted)");
    if (prediction.next_was_run) {
      text += fmt::format(", {} does not, or not surely (was run)",
                          value(*prediction.largest + parameter.step));
    }
    if (prediction.may_fit) text += fmt::format("; up to {} may", value(*prediction.may_fit));
  } else {
    text = capacity.name + ": no value";
    if (prediction.may_fit) text += fmt::format("; up to {} may", value(*prediction.may_fit));
  }
  if (!prediction.why.empty()) text += "; " + prediction.why;
  return text;
}

std::string sweep_title(const SweepReport& report, const SweepGroup& group) {
  const SweepRuns runs = runs_of(report.runs, group);
  std::string title = report.parameters.front().name;
  for (size_t p = 0; p < group.others.size(); ++p) {
    title +=
        fmt::format("{}{}={}", p == 0 ? ", " : " ", report.parameters[p + 1].name, group.others[p]);
  }
  const auto named = std::find_if(runs.begin(), runs.end(), [](const SweepRun* run) {
    return has_figures(*run) && !run->device_name.empty();
  });
  const bool on_host = std::any_of(runs.begin(), runs.end(), [](const SweepRun* run) {
    return run->device == SweepRun::kHostMemory;
  });
  if (on_host) {
    title += "  host memory";
  } else if (named != runs.end()) {
    title += fmt::format("  GPU {} ({})", (*named)->device, (*named)->device_name);
  }
  return title;
}

}  // namespace gpupeak::collector
