#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "collector/text/sanitize.h"
#include "collector/views/views.h"

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
    sum += static_cast<double>(run.bytes_of(tags[i]));
    draw_to(sum, kShades[i]);
  }
  draw_to(static_cast<double>(run.peak_bytes), tags.empty() ? kShades[0] : kShades[kMostTags]);
  return text;
}

using SweepRuns = std::vector<const SweepRun*>;

/// A smaller term (bytes) counts as 0: it is what floating point leaves of zero.
constexpr double kNothing = 64;

/// Whether the run was measured. The curve may leave it out all the same.
bool has_figures(const SweepRun& run) {
  return run.status == SweepStatus::kDone || run.status == SweepStatus::kRefused;
}

/// Tags by the most bytes that a run has of them, the largest first.
std::vector<std::string> largest_tags(const SweepRuns& runs) {
  std::map<std::string, uint64_t> most;
  for (const SweepRun* run : runs) {
    for (const TagShare& tag : run->tags) most[tag.name] = std::max(most[tag.name], tag.bytes);
  }
  std::vector<std::string> names = keys_of(most);
  std::ranges::stable_sort(
      names, [&](const std::string& a, const std::string& b) { return most[a] > most[b]; });
  return names;
}

/// "300 MiB + 37.0 MiB × batch".
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

/// Why the run is left out, was not run or has no upper bound; empty: nothing of that.
std::string status_text(const SweepRun& run) {
  switch (run.status) {
    case SweepStatus::kOutOfMemory:
      return "out of memory";
    case SweepStatus::kFailed:
    case SweepStatus::kRefused:
      return "left out: " + run.why;
    case SweepStatus::kNotRun:
      return "not run: " + run.why;
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
  } else {
    text = capacity.name + ": no value";
  }
  if (prediction.may_fit) text += fmt::format("; up to {} may", value(*prediction.may_fit));
  if (!prediction.why.empty()) text += "; " + prediction.why;
  return text;
}

/// "batch, length=128  GPU 0 (H200)".
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

/// The columns of the parameter's values.
size_t value_columns(const SweepReport& report, const SweepRuns& runs) {
  size_t longest = display_width(report.parameters.front().name);
  for (const SweepRun* run : runs) longest = std::max(longest, display_width(run->values.front()));
  return longest;
}

void add_table(const SweepReport& report, const SweepRuns& runs, TextLines& text) {
  const auto largest = static_cast<double>(
      most_of(runs, [](const SweepRun* run) { return has_figures(*run) ? run->peak_bytes : 0; }));
  const size_t longest = value_columns(report, runs);
  const std::vector<std::string> tags = largest_tags(runs);
  const size_t used = 2 + longest + 2 * (size_columns(text.style()) + 2) + 2;
  const size_t room = text.width() > used ? std::min<size_t>(text.width() - used, 60) : 0;
  const size_t sizes = size_columns(text.style()) + 1;
  const TextTable table(
      text, {{report.parameters.front().name, longest}, {"at most", sizes}, {"peak", sizes}}, "  ");
  table.head();
  for (const SweepRun* run : runs) {
    const std::string status = status_text(*run);
    if (!has_figures(*run)) {
      text.wrap("  {}  {}", right(run->values.front(), longest), status);
      continue;
    }
    table.line({run->values.front(), text.size(run->most_bytes), text.size(run->peak_bytes)},
               largest > 0 ? bar(*run, tags, static_cast<double>(room) / largest, room) : "");
    if (!status.empty()) text.wrap(std::string(longest + 4, ' ') + status);
  }
  std::string legend;
  for (size_t i = 0; i < std::min(tags.size(), kMostTags); ++i)
    legend += fmt::format("  {} {}", kShades[i], tags[i]);
  if (tags.size() > kMostTags) legend += fmt::format("  {} others", kShades[kMostTags]);
  if (!legend.empty()) text.wrap(legend);
}

/// The peak by tag for each value of the parameter, with as many tags as there is room for.
void add_tags(const SweepReport& report, const SweepRuns& runs, TextLines& text) {
  const std::vector<std::string> tags = largest_tags(runs);
  if (tags.empty()) return;
  const size_t longest = value_columns(report, runs);
  std::vector<TextColumn> columns{{report.parameters.front().name, longest}};
  size_t used = 2 + longest;
  for (const std::string& tag : tags) {
    const size_t width =
        std::max(size_columns(text.style()), std::min<size_t>(display_width(tag), 20));
    if (used + 2 + width > text.width()) break;
    used += 2 + width;
    columns.push_back({tag, width + 1});
  }
  const size_t shown = columns.size() - 1;
  const TextTable table(text, std::move(columns), "  ");
  text.add("");
  table.head();
  for (const SweepRun* run : runs) {
    if (!has_figures(*run)) continue;
    TextTable::Cells cells{run->values.front()};
    for (size_t i = 0; i < shown; ++i) cells.push_back(text.size(run->bytes_of(tags[i])));
    table.line(cells);
  }
  if (shown < tags.size()) text.add("  … {} more tags, with less", tags.size() - shown);
}

void add_curves(const SweepReport& report, const SweepRuns& runs, TextLines& text) {
  const std::map<std::string, Curve> curves = tag_curves(runs);
  if (curves.empty()) return;
  text.add("");
  const auto line = [&](const std::string& of, const Curve& curve) {
    text.wrap("  {}: {}", of, curve_text(curve, report.parameters.front().name, text.style()));
  };
  if (const std::optional<Curve> need = need_curve(runs)) line("at most", *need);
  if (const auto peak = curves.find(""); peak != curves.end()) line("peak", peak->second);
  for (const std::string& tag : largest_tags(runs)) {
    if (const auto curve = curves.find(tag); curve != curves.end()) line(tag, curve->second);
  }
}

Json curve_json(const Curve& curve) {
  const bool has_error = curve.points() > (curve.is_parabola() ? 3u : 2u);
  return object("model, constant, slope, square, points, largest_error_bytes",
                curve.is_parabola() ? "quadratic" : "line", curve.constant(), curve.slope(),
                json_if(curve.is_parabola(), curve.square()), curve.points(),
                json_if(has_error, std::llround(curve.error())));
}

Json values_json(const SweepReport& report, const SweepValues& values, size_t from) {
  Json json = Json::object();
  for (size_t i = 0; i < values.size(); ++i) json[report.parameters[from + i].name] = values[i];
  return json;
}

Json run_json(const SweepReport& report, const SweepRun& run) {
  const bool on_device = has_figures(run) && run.device != SweepRun::kHostMemory;
  return object(
      "values, status, why, exit_code, from_before, for_check, log, output, memory, device, "
      "device_name, peak_bytes, least_bytes, most_bytes, tags",
      values_json(report, run.values, 0), sweep_status_name(run.status), text_or_null(run.why),
      run.exit_code, run.from_before, run.for_check, text_or_null(run.log),
      text_or_null(run.output), run.device == SweepRun::kHostMemory ? "host" : "gpu",
      json_if(on_device, run.device), text_or_null(run.device_name),
      json_if(has_figures(run), run.peak_bytes), run.least_bytes, run.most_bytes,
      array_of(run.tags, "name, bytes", &TagShare::name, &TagShare::bytes));
}

Json sweep_json(const SweepReport& report) {
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
           text_or_null(capacity.name), json_if(!capacity.name.empty(), capacity.least),
           prediction.largest, prediction.was_run, prediction.next_was_run, prediction.may_fit,
           text_or_null(prediction.why));
    json["groups"].push_back(std::move(group));
  }
  json["notes"] = report.notes;
  return json;
}

constexpr double kPlotWidth = 860, kPlotHeight = 340, kLeft = 76, kRight = 20, kTop = 24,
                 kBottom = 44;
constexpr double kMiB = 1 << 20;
constexpr size_t kDrawnTags = 6;
constexpr std::array<const char*, kDrawnTags + 1> kTagColors{
    "#3b74d4", "#2a9d8f", "#e9a23b", "#8e6bbf", "#d1495b", "#5c7cfa", "#9aa4b1"};
constexpr const char* kPageStyle = R"(
body { font: 14px/1.5 system-ui, "DejaVu Sans", sans-serif; max-width: 900px; margin: 24px auto; padding: 0 16px;
  color: #1f2733; background: #fff }
h1 { font-size: 20px } h2 { font-size: 16px; margin-top: 32px } code { font-size: 13px }
.answer { font-weight: 600 } .faint { color: #6b7685; fill: #6b7685 }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; display: block; overflow-x: auto }
th, td { text-align: right; padding: 2px 10px; border-bottom: 1px solid #e3e7ec } td.why { text-align: left }
svg { max-width: 100%; height: auto } svg text { font: 12px system-ui, sans-serif; fill: #1f2733 }
.grid { stroke: #e3e7ec } .axis { stroke: #9aa4b1 } .most { fill: #1f2733 } .curve { stroke: #1f2733; fill: none; stroke-dasharray: 4 3 }
.room { stroke: #d1343f; stroke-width: 1.5 } text.room { fill: #d1343f; stroke: none } .fits { stroke: #2a9d8f; stroke-width: 1.5; stroke-dasharray: 2 3 }
.key { display: inline-block; width: 11px; height: 11px; margin: 0 5px 0 14px }
@media (prefers-color-scheme: dark) { body { color: #e6eaf0; background: #12161c } svg text { fill: #e6eaf0 }
  .grid { stroke: #262d37 } th, td { border-color: #262d37 } .most { fill: #e6eaf0 } .curve { stroke: #e6eaf0 } .faint { color: #93a0b0; fill: #93a0b0 } }
)";

std::string html_text(const std::string& text) {
  return xml_text(escape(text));
}

/// The peak over the first parameter: bars by tag, and upper bounds as dots with their curve.
class Plot : Svg {
 public:
  Plot(const SweepReport& report, size_t group, const SweepRuns& runs, std::ostream& out)
      : Svg(out),
        report_(report),
        capacity_(report.capacities[group]),
        prediction_(report.predictions[group]),
        runs_(runs),
        tags_(largest_tags(runs)),
        curve_(need_curve(runs)) {
    for (size_t i = 0; i < runs.size(); ++i) {
      const double at = place(i);
      first_ = i == 0 ? at : std::min(first_, at);
      last_ = i == 0 ? at : std::max(last_, at);
      for (size_t other = 0; other < i; ++other) {
        const double gap = std::abs(at - place(other));
        if (gap > 0) narrowest_ = narrowest_ == 0 ? gap : std::min(narrowest_, gap);
      }
      if (!has_figures(*runs[i])) continue;
      whole_ = std::max({whole_, runs[i]->peak_bytes, runs[i]->most_bytes.value_or(0)});
    }
    if (narrowest_ == 0) narrowest_ = 1;
    if (prediction_.largest && is_number()) {
      last_ = std::max(last_, *prediction_.largest);
      if (curve_) {
        const double most = curve_->at(*prediction_.largest);
        whole_ = std::max(whole_, static_cast<uint64_t>(std::max(most, 0.0)));
      }
    }
    if (has_room()) whole_ = std::max(whole_, capacity_.least);
  }

  void write() {
    out_ << fmt::format(
        "<svg viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" role=\"img\">\n"
        "<title>peak by {2}</title>\n",
        kPlotWidth, kPlotHeight, html_text(report_.parameters.front().name));
    grid();
    for (size_t i = 0; i < runs_.size(); ++i) bar(i);
    if (curve_ && is_number()) draw_curve();
    dots();
    if (has_room()) {
      line(kLeft, y(capacity_.least), kPlotWidth - kRight, y(capacity_.least), "room");
      text(kPlotWidth - kRight, y(capacity_.least) - 5, "end", "room", capacity_.name);
    }
    if (prediction_.largest && is_number()) {
      const double at = x(*prediction_.largest);
      line(at, kTop, at, kPlotHeight - kBottom, "fits");
      text(at, kTop - 8, "middle", "", "fits");
    }
    out_ << "</svg>\n";
    legend();
  }

 private:
  bool is_number() const { return report_.parameters.front().step > 0; }
  double place(size_t run) const {
    return is_number() ? number_of(runs_[run]->values.front()).value_or(0)
                       : static_cast<double>(run);
  }
  /// A capacity far above all runs is not drawn: the runs would be too flat to be seen.
  bool has_room() const { return !capacity_.name.empty() && capacity_.least / 3 < measured(); }
  uint64_t measured() const {
    return most_of(runs_, [](const SweepRun* run) { return run->most_bytes.value_or(0); });
  }
  double x(double at) const {
    const double span = last_ - first_ + narrowest_;
    return kLeft + (kPlotWidth - kLeft - kRight) * (at - first_ + narrowest_ / 2) / span;
  }
  double y(double bytes) const {
    return kPlotHeight - kBottom -
           (kPlotHeight - kTop - kBottom) * bytes / std::max(1.0, static_cast<double>(whole_));
  }
  double y(uint64_t bytes) const { return y(static_cast<double>(bytes)); }

  void grid() {
    const double whole = static_cast<double>(whole_) / kMiB;
    const double step = axis_step(whole, 5);
    for (double value = 0; value <= whole && step > 0; value += step) {
      line(kLeft, y(value * kMiB), kPlotWidth - kRight, y(value * kMiB),
           value == 0 ? "axis" : "grid");
      text(kLeft - 8, y(value * kMiB) + 4, "end", "faint", fmt::format("{:.6g} MiB", value));
    }
    text((kLeft + kPlotWidth - kRight) / 2, kPlotHeight - 6, "middle", "faint",
         report_.parameters.front().name);
  }

  void bar(size_t index) {
    const SweepRun& run = *runs_[index];
    const double span = last_ - first_ + narrowest_;
    const double width = std::min(64.0, 0.7 * narrowest_ / span * (kPlotWidth - kLeft - kRight));
    const double at = x(place(index));
    text(at, kPlotHeight - kBottom + 16, "middle", "", run.values.front());
    if (!has_figures(run)) {
      text(at, kPlotHeight - kBottom - 6, "middle", "faint", "✕");
      return;
    }
    uint64_t sum = 0;
    const auto piece = [&](uint64_t bytes, const char* color, const std::string& name) {
      if (bytes == 0) return;
      out_ << fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.2f}\" "
          "fill=\"{}\"><title>{}: {}</title></rect>\n",
          at - width / 2, y(sum + bytes), width, y(sum) - y(sum + bytes), color, html_text(name),
          size_text(bytes));
      sum += bytes;
    };
    for (size_t i = 0; i < std::min(tags_.size(), kDrawnTags); ++i)
      piece(std::min(run.bytes_of(tags_[i]), run.peak_bytes - sum), kTagColors[i], tags_[i]);
    piece(run.peak_bytes - sum, tags_.empty() ? kTagColors.front() : kTagColors.back(),
          tags_.empty() ? "peak" : "others");
  }

  void draw_curve() {
    constexpr int kPoints = 60;
    std::string d;
    for (int i = 0; i <= kPoints; ++i) {
      const double at = first_ + (last_ - first_) * i / kPoints;
      d += fmt::format("{}{:.1f} {:.1f}", i == 0 ? "M" : "L", x(at), y(curve_->at(at)));
    }
    out_ << fmt::format("<path class=\"curve\" d=\"{}\"/>\n", d);
  }

  void dots() {
    for (size_t i = 0; i < runs_.size(); ++i) {
      if (!has_figures(*runs_[i]) || !runs_[i]->most_bytes) continue;
      out_ << fmt::format(
          "<circle class=\"most\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\"><title>at most "
          "{}</title></circle>\n",
          x(place(i)), y(*runs_[i]->most_bytes), size_text(*runs_[i]->most_bytes));
    }
  }

  void legend() {
    out_ << "<p class=\"faint\">";
    for (size_t i = 0; i < std::min(tags_.size(), kDrawnTags); ++i) {
      out_ << fmt::format("<span class=\"key\" style=\"background:{}\"></span>{}", kTagColors[i],
                          html_text(tags_[i]));
    }
    if (tags_.size() > kDrawnTags) {
      out_ << fmt::format("<span class=\"key\" style=\"background:{}\"></span>others",
                          kTagColors.back());
    }
    const bool on_host = !runs_.empty() && runs_.front()->device == SweepRun::kHostMemory;
    out_ << " &nbsp; ● at most" << (on_host ? "" : ", with the driver’s own and the margin")
         << "; ✕ no figure</p>\n";
  }

  const SweepReport& report_;
  const SweepCapacity& capacity_;
  const SweepPrediction& prediction_;
  const SweepRuns& runs_;
  const std::vector<std::string> tags_;
  const std::optional<Curve> curve_;
  double first_ = 0, last_ = 0, narrowest_ = 0;
  uint64_t whole_ = 0;
};

void write_page_table(const SweepReport& report, const SweepRuns& runs, std::ostream& out) {
  const std::vector<std::string> tags = largest_tags(runs);
  out << "<table><tr><th>" << html_text(report.parameters.front().name)
      << "</th><th>at most</th><th>peak</th>";
  for (const std::string& tag : tags) out << "<th>" << html_text(tag) << "</th>";
  out << "<th></th></tr>\n";
  for (const SweepRun* run : runs) {
    out << "<tr><td>" << html_text(run->values.front()) << "</td>";
    const bool has = has_figures(*run);
    const auto cell = [&](const std::optional<uint64_t>& bytes) {
      out << "<td>" << (bytes ? size_text(*bytes) : "") << "</td>";
    };
    cell(has ? run->most_bytes : std::nullopt);
    cell(has ? std::optional(run->peak_bytes) : std::nullopt);
    for (const std::string& tag : tags)
      cell(has ? std::optional(run->bytes_of(tag)) : std::nullopt);
    out << "<td class=\"why\">" << html_text(status_text(*run)) << "</td></tr>\n";
  }
  out << "</table>\n";
}

}  // namespace

void write_sweep(const SweepReport& report, std::ostream& out, const ViewStyle& style) {
  if (style.is_json()) return write_line(sweep_json(report), out);
  TextLines text(style);
  const std::vector<SweepGroup> groups = groups_of(report.runs);
  for (size_t i = 0; i < groups.size(); ++i) {
    const SweepRuns runs = runs_of(report.runs, groups[i]);
    if (i > 0) text.add("");
    text.heading("SWEEP", sweep_title(report, groups[i]));
    add_table(report, runs, text);
    add_tags(report, runs, text);
    add_curves(report, runs, text);
    text.add("");
    text.wrap(
        bold("  " + prediction_text(report, report.capacities[i], report.predictions[i]), style));
  }
  for (const std::string& note : report.notes) text.wrap("  " + note);
  if (report.interrupted)
    text.wrap(alarm("  interrupted: what was run is kept; the same command goes on", style));
  text.write(out);
}

// A sweep as a page of its own: a drawing and a table for each group. The page fetches nothing; its
// colours follow the viewer's light or dark theme.

void write_sweep_page(const SweepReport& report, std::ostream& out) {
  out << "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
         "content=\"width=device-width\">"
      << "<title>gpupeak sweep</title><style>" << kPageStyle << "</style></head><body>\n"
      << "<h1>Sweep</h1><p><code>" << html_text(fmt::format("{}", fmt::join(report.command, " ")))
      << "</code></p>\n";
  const std::vector<SweepGroup> groups = groups_of(report.runs);
  for (size_t i = 0; i < groups.size(); ++i) {
    const SweepRuns runs = runs_of(report.runs, groups[i]);
    out << "<h2>" << html_text(sweep_title(report, groups[i])) << "</h2>\n<p class=\"answer\">"
        << html_text(prediction_text(report, report.capacities[i], report.predictions[i]))
        << "</p>\n";
    Plot(report, i, runs, out).write();
    write_page_table(report, runs, out);
    if (const std::optional<Curve> need = need_curve(runs)) {
      out << "<p class=\"faint\">at most: "
          << html_text(curve_text(*need, report.parameters.front().name, {})) << "</p>\n";
    }
  }
  for (const std::string& note : report.notes) out << "<p>" << html_text(note) << "</p>\n";
  if (report.interrupted) out << "<p>interrupted: the same command goes on</p>\n";
  out << "</body></html>\n";
}

}  // namespace gpupeak::collector
