// A sweep as a page of its own: a drawing and a table for each group. The page fetches nothing; its
// colours follow the viewer's light or dark theme.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "collector/text/sanitize.h"
#include "collector/views/timeline.h"
#include "collector/views/views.h"

namespace gpupeak::collector {
namespace {

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
class Plot {
 public:
  Plot(const SweepReport& report, size_t group, const SweepRuns& runs, std::ostream& out)
      : report_(report),
        capacity_(report.capacities[group]),
        prediction_(report.predictions[group]),
        runs_(runs),
        tags_(largest_tags(runs)),
        curve_(need_curve(runs)),
        out_(out) {
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
    uint64_t most = 0;
    for (const SweepRun* run : runs_) most = std::max(most, run->most_bytes.value_or(0));
    return most;
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

  void line(double x1, double y1, double x2, double y2, std::string_view css) {
    out_ << fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" class=\"{}\"/>\n", x1, y1,
        x2, y2, css);
  }
  void text(double at_x, double at_y, std::string_view anchor, std::string_view css,
            const std::string& what) {
    out_ << fmt::format(
        "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" class=\"{}\">{}</text>\n", at_x, at_y,
        anchor, css, html_text(what));
  }

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
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.2f}\" fill=\"{}\">"
          "<title>{}: {}</title></rect>\n",
          at - width / 2, y(sum + bytes), width, y(sum) - y(sum + bytes), color, html_text(name),
          size_text(bytes));
      sum += bytes;
    };
    for (size_t i = 0; i < std::min(tags_.size(), kDrawnTags); ++i)
      piece(std::min(bytes_of(run, tags_[i]), run.peak_bytes - sum), kTagColors[i], tags_[i]);
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
          "<circle class=\"most\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\"><title>at most {}</title>"
          "</circle>\n",
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
  std::ostream& out_;
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
      cell(has ? std::optional(bytes_of(*run, tag)) : std::nullopt);
    out << "<td class=\"why\">" << html_text(status_text(*run)) << "</td></tr>\n";
  }
  out << "</table>\n";
}

}  // namespace

void write_sweep_page(const SweepReport& report, std::ostream& out) {
  out << "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
         "<meta name=\"viewport\" content=\"width=device-width\">"
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
