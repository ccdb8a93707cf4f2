#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "collector/views/heading.h"
#include "collector/views/views.h"
#include "collector/write/json_values.h"

namespace gpupeak::collector {
namespace {

/// The shades of the tags, the largest tag first; the last shade is for all others.
constexpr std::string_view kShades[] = {"█", "▓", "▒", "░", "·"};
constexpr size_t kMostTags = std::size(kShades) - 1;

/// A row of the plot: as long as the peak, with each tag in its shade.
std::string bar(const SweepRun& run, const std::vector<std::string>& tags, double scale,
                size_t columns) {
  std::string text;
  size_t drawn = 0;
  double sum = 0;
  const auto draw_to = [&](double bytes, std::string_view shade) {
    const auto to = std::min(columns, static_cast<size_t>(std::llround(bytes * scale)));
    for (; drawn < to; ++drawn) text += shade;
  };
  for (size_t i = 0; i < std::min(tags.size(), kMostTags); ++i) {
    sum += static_cast<double>(bytes_of(run, tags[i]));
    draw_to(sum, kShades[i]);
  }
  draw_to(static_cast<double>(run.peak_bytes), tags.empty() ? kShades[0] : kShades[kMostTags]);
  return text;
}

void write_table(const SweepReport& report, const SweepRuns& runs, std::ostream& out,
                 const TextStyle& style) {
  const std::string& name = report.parameters.front().name;
  size_t longest = display_width(name);
  double largest = 0;
  for (const SweepRun* run : runs) {
    longest = std::max(longest, display_width(run->values.front()));
    if (has_figures(*run)) largest = std::max(largest, static_cast<double>(run->peak_bytes));
  }
  const size_t columns = size_columns(style);
  const std::vector<std::string> tags = largest_tags(runs);
  const auto width = static_cast<size_t>(style.width);
  const size_t used = 2 + longest + 2 * (columns + 2) + 2;
  const size_t room = width > used ? std::min<size_t>(width - used, 60) : 0;
  out << fmt::format("  {}  {}  {}\n", right(name, longest), right("at most", columns),
                     right("peak", columns));
  for (const SweepRun* run : runs) {
    const std::string begin = "  " + right(run->values.front(), longest) + "  ";
    if (!has_figures(*run)) {
      write_wrapped(begin + status_text(*run), out, style);
      continue;
    }
    out << begin
        << fmt::format(
               "{}  {}  {}\n", right(size_text(run->most_bytes, style), columns),
               right(size_text(run->peak_bytes, style), columns),
               largest > 0 ? bar(*run, tags, static_cast<double>(room) / largest, room) : "");
    const std::string status = status_text(*run);
    if (!status.empty()) write_wrapped("  " + std::string(longest + 2, ' ') + status, out, style);
  }
  std::string legend;
  for (size_t i = 0; i < std::min(tags.size(), kMostTags); ++i)
    legend += fmt::format("  {} {}", kShades[i], tags[i]);
  if (tags.size() > kMostTags) legend += fmt::format("  {} others", kShades[kMostTags]);
  if (!legend.empty()) write_wrapped(legend, out, style);
}

/// The peak by tag for each value of the parameter, with as many tags as there is room for.
void write_tags(const SweepReport& report, const SweepRuns& runs, std::ostream& out,
                const TextStyle& style) {
  const std::vector<std::string> tags = largest_tags(runs);
  if (tags.empty()) return;
  const std::string& name = report.parameters.front().name;
  size_t longest = display_width(name);
  for (const SweepRun* run : runs) longest = std::max(longest, display_width(run->values.front()));
  const auto width = static_cast<size_t>(style.width);
  std::vector<size_t> widths;
  size_t used = 2 + longest;
  for (const std::string& tag : tags) {
    const size_t columns = std::max(size_columns(style), std::min<size_t>(display_width(tag), 20));
    if (used + 2 + columns > width) break;
    used += 2 + columns;
    widths.push_back(columns);
  }
  out << "\n  " << right(name, longest);
  for (size_t i = 0; i < widths.size(); ++i)
    out << "  " << right(fit(tags[i], widths[i]), widths[i]);
  out << '\n';
  for (const SweepRun* run : runs) {
    if (!has_figures(*run)) continue;
    out << "  " << right(run->values.front(), longest);
    for (size_t i = 0; i < widths.size(); ++i)
      out << "  " << right(size_text(bytes_of(*run, tags[i]), style), widths[i]);
    out << '\n';
  }
  if (widths.size() < tags.size())
    out << fmt::format("  … {} more tags, with less\n", tags.size() - widths.size());
}

void write_curves(const SweepReport& report, const SweepRuns& runs, std::ostream& out,
                  const TextStyle& style) {
  const std::string& name = report.parameters.front().name;
  const std::map<std::string, Curve> curves = tag_curves(runs);
  const std::optional<Curve> need = need_curve(runs);
  if (curves.empty()) return;
  out << '\n';
  const auto line = [&](const std::string& of, const Curve& curve) {
    write_wrapped(fmt::format("  {}: {}", of, curve_text(curve, name, style)), out, style);
  };
  if (need) line("at most", *need);
  if (const auto peak = curves.find(""); peak != curves.end()) line("peak", peak->second);
  for (const std::string& tag : largest_tags(runs)) {
    if (const auto curve = curves.find(tag); curve != curves.end()) line(tag, curve->second);
  }
}

Json curve_json(const Curve& curve) {
  Json json = object("model, constant, slope, square, points",
                     curve.is_parabola() ? "quadratic" : "line", curve.constant(), curve.slope(),
                     json_if(curve.is_parabola(), curve.square()), curve.points());
  const bool has_error = curve.points() > (curve.is_parabola() ? 3u : 2u);
  json["largest_error_bytes"] = has_error ? Json(std::llround(curve.error())) : Json(nullptr);
  return json;
}

Json values_json(const SweepReport& report, const SweepValues& values, size_t from) {
  Json json = Json::object();
  for (size_t i = 0; i < values.size(); ++i) json[report.parameters[from + i].name] = values[i];
  return json;
}

Json run_json(const SweepReport& report, const SweepRun& run) {
  Json json = object("values, status, why, exit_code, from_before, for_check, log, output",
                     values_json(report, run.values, 0), sweep_status_name(run.status),
                     text_or_null(run.why), run.exit_code, run.from_before, run.for_check,
                     text_or_null(run.log), text_or_null(run.output));
  const bool on_device = has_figures(run) && run.device != SweepRun::kHostMemory;
  extend(json, "memory, device, device_name, peak_bytes, least_bytes, most_bytes, tags",
         run.device == SweepRun::kHostMemory ? "host" : "gpu", json_if(on_device, run.device),
         text_or_null(run.device_name), has_figures(run) ? Json(run.peak_bytes) : Json(nullptr),
         run.least_bytes, run.most_bytes, array_of(run.tags, [&](const TagShare& tag) {
           return object("name, bytes", tag.name, tag.bytes);
         }));
  return json;
}

}  // namespace

void write_sweep(const SweepReport& report, std::ostream& out, const TextStyle& style) {
  const std::vector<SweepGroup> groups = groups_of(report.runs);
  for (size_t i = 0; i < groups.size(); ++i) {
    const SweepRuns runs = runs_of(report.runs, groups[i]);
    if (i > 0) out << '\n';
    const std::string title = sweep_title(report, groups[i]);
    out << bold("SWEEP", style) << "  " << cut(title, static_cast<size_t>(style.width) - 7, style)
        << '\n';
    write_table(report, runs, out, style);
    write_tags(report, runs, out, style);
    write_curves(report, runs, out, style);
    out << '\n';
    write_wrapped(
        bold("  " + prediction_text(report, report.capacities[i], report.predictions[i]), style),
        out, style);
  }
  for (const std::string& note : report.notes) write_wrapped("  " + note, out, style);
  if (report.interrupted) {
    write_wrapped(alarm("  interrupted: what was run is kept; the same command goes on", style),
                  out, style);
  }
}

void write_sweep_json(const SweepReport& report, std::ostream& out) {
  Json json = object("schema, command, folder, interrupted, parameters", "gpupeak.sweep/1",
                     report.command, report.folder, report.interrupted,
                     array_of(report.parameters, [&](const SweepParameter& parameter) {
                       return object("name, values, step", parameter.name, parameter.values,
                                     json_if(parameter.step > 0, parameter.step));
                     }));
  json["runs"] = array_of(report.runs, [&](const SweepRun& run) { return run_json(report, run); });
  json["groups"] = Json::array();
  const std::vector<SweepGroup> groups = groups_of(report.runs);
  for (size_t i = 0; i < groups.size(); ++i) {
    const SweepRuns runs = runs_of(report.runs, groups[i]);
    const SweepCapacity& capacity = report.capacities[i];
    const SweepPrediction& prediction = report.predictions[i];
    Json group;
    group["others"] = values_json(report, groups[i].others, 1);
    const std::optional<Curve> need = need_curve(runs);
    extend(group, "most_curve, peak_curve, tag_curves", need ? curve_json(*need) : Json(nullptr),
           nullptr, Json::object());
    for (const auto& [name, curve] : tag_curves(runs))
      (name.empty() ? group["peak_curve"] : group["tag_curves"][name]) = curve_json(curve);
    extend(group, "capacity, capacity_bytes, largest, was_run, next_was_run, may_fit, why",
           text_or_null(capacity.name),
           capacity.name.empty() ? Json(nullptr) : Json(capacity.least), prediction.largest,
           prediction.was_run, prediction.next_was_run, prediction.may_fit,
           text_or_null(prediction.why));
    json["groups"].push_back(std::move(group));
  }
  json["notes"] = report.notes;
  write_line(json, out);
}

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
  std::ranges::stable_sort(
      names, [&](const std::string& a, const std::string& b) { return most[a] > most[b]; });
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
  const auto named = std::ranges::find_if(
      runs, [](const SweepRun* run) { return has_figures(*run) && !run->device_name.empty(); });
  const bool on_host = std::ranges::any_of(
      runs, [](const SweepRun* run) { return run->device == SweepRun::kHostMemory; });
  if (on_host) {
    title += "  host memory";
  } else if (named != runs.end()) {
    title += fmt::format("  GPU {} ({})", (*named)->device, (*named)->device_name);
  }
  return title;
}

}  // namespace gpupeak::collector
