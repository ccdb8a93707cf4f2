// The timeline as a drawing: an area for each sum, a line for each kind, phases as bands. If a
// browser shows the SVG, colours follow the viewer's light or dark theme.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "collector/log/kinds.h"
#include "collector/text/xml.h"
#include "collector/timeline/phase_bands.h"
#include "collector/views/timeline.h"

namespace gpupeak::collector {
namespace {

constexpr double kWidth = 960, kPlotLeft = 76, kPlotRight = 16;
constexpr double kChartHeight = 190, kTitleHeight = 40, kAxisHeight = 26, kLaneHeight = 18;
constexpr size_t kPictureLanes = 4;
constexpr double kBytesPerMiB = 1 << 20;
constexpr double kLetterWidth = 7.2;
constexpr std::array<const char*, 6> kLineColors{"#2a9d8f", "#e9a23b", "#8e6bbf",
                                                 "#d1495b", "#5c7cfa", "#7f8c8d"};
constexpr const char* kStyle = R"(
  text { font: 12px system-ui, "DejaVu Sans", sans-serif; fill: #1f2733 }
  .title { font-size: 14px; font-weight: 600 } .faint { fill: #6b7685 }
  .paper { fill: #ffffff } .grid { stroke: #e3e7ec } .axis { stroke: #9aa4b1 }
  .area { fill: #3b74d4; fill-opacity: .16 } .sum { stroke: #3b74d4; stroke-width: 1.6; fill: none }
  .kind { stroke-width: 1.2; fill: none } .peak { fill: #d1343f } .peakline { stroke: #d1343f; stroke-dasharray: 3 3 }
  .band { fill: #3b74d4; fill-opacity: .12 } .band.odd { fill-opacity: .22 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6eaf0 } .faint { fill: #93a0b0 } .paper { fill: #12161c } .grid { stroke: #262d37 }
    .axis { stroke: #56616f } .area { fill: #6ea2ff; fill-opacity: .2 } .sum { stroke: #6ea2ff }
    .peak { fill: #ff6b73 } .peakline { stroke: #ff6b73 } .band { fill: #6ea2ff; fill-opacity: .18 }
    .band.odd { fill-opacity: .3 }
  }
)";

class Drawing {
 public:
  Drawing(const Profile& profile, const TimeSeries& times, std::ostream& out)
      : profile_(profile),
        times_(times),
        out_(out),
        bands_(phase_bands(profile, kPictureLanes)),
        end_ns_(std::max<int64_t>(1, times.begin_ns(times.bucket_count(), profile.log().clock()))) {
    for (const PhaseBand& band : bands_) lanes_ = std::max(lanes_, band.lane + 1);
  }

  void write(const std::vector<ScopeId>& scopes) {
    const double each = kTitleHeight + kChartHeight + kAxisHeight;
    const double phases = static_cast<double>(lanes_) * kLaneHeight;
    const double height = each * static_cast<double>(scopes.size()) + phases + 40;
    out_ << fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
        "width=\"{0:.0f}\" "
        "height=\"{1:.0f}\" role=\"img\">\n<title>{2}</title>\n<style>{3}</style>\n"
        "<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n",
        kWidth, height, xml_text(profile_.scope_text(scopes.front()) + " over time"), kStyle);
    double top = 8;
    for (const ScopeId scope : scopes) {
      chart(scope, top);
      top += each;
    }
    phase_lanes(top + 4);
    losses(height - 10);
    out_ << "</svg>\n";
  }

 private:
  double x(int64_t ns) const {
    // A damaged log may have any times.
    const double part = static_cast<double>(ns) / static_cast<double>(end_ns_);
    return kPlotLeft + (kWidth - kPlotLeft - kPlotRight) * std::clamp(part, 0.0, 1.0);
  }
  void text(double at_x, double at_y, std::string_view anchor, std::string_view css,
            const std::string& what) {
    out_ << fmt::format(
        "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" class=\"{}\">{}</text>\n", at_x, at_y,
        anchor, css, xml_text(what));
  }
  void line(double x1, double y1, double x2, double y2, std::string_view css) {
    out_ << fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" class=\"{}\"/>\n", x1, y1,
        x2, y2, css);
  }

  std::string time_text(int64_t ns) const {
    const TimeUnit unit = time_unit(end_ns_);
    return fmt::format("{:.4g} {}", static_cast<double>(ns) / unit.ns, unit.name);
  }

  /// A step line through each bucket's largest value. A bucket is as wide as its time.
  std::string path(const Series& series, double bottom, uint64_t whole) const {
    std::string d;
    uint64_t last = UINT64_MAX;
    for (size_t i = 0; i < series.buckets.size(); ++i) {
      const uint64_t value = series.buckets[i].max;
      if (value == last) continue;
      const int64_t begin = times_.begin_ns(series.first_bucket + i, profile_.log().clock());
      const double y =
          bottom - kChartHeight * static_cast<double>(value) / static_cast<double>(whole);
      d += d.empty() ? fmt::format("M{:.1f} {:.1f}", x(begin), y)
                     : fmt::format("H{:.1f}V{:.1f}", x(begin), y);
      last = value;
    }
    return d + fmt::format("H{:.1f}", kWidth - kPlotRight);
  }

  void chart(ScopeId scope, double top) {
    const PeakFinder::Scope& sum = profile_.sum(scope);
    const double bottom = top + kTitleHeight + kChartHeight;
    text(kPlotLeft, top + 16, "start", "title", profile_.scope_text(scope));
    if (sum.peak == 0) return;
    grid(bottom, sum.peak);
    const Series* series = times_.find(profile_.scope_info(scope).name);
    if (series == nullptr) return;
    const std::string d = path(*series, bottom, sum.peak);
    out_ << fmt::format("<path class=\"area\" d=\"{}V{:.1f}H{:.1f}Z\"/>\n", d, bottom, kPlotLeft)
         << fmt::format("<path class=\"sum\" d=\"{}\"/>\n", d);
    kinds(scope, top, bottom, sum.peak);
    const double peak_x = x(profile_.to_ns(sum.peak_ticks));
    line(peak_x, bottom - kChartHeight, peak_x, bottom, "peakline");
    out_ << fmt::format("<circle class=\"peak\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\"/>\n", peak_x,
                        bottom - kChartHeight);
    const std::optional<std::string> phase = profile_.phase_at_peak(scope);
    const bool to_left = peak_x > kWidth * 0.6;
    text(peak_x + (to_left ? -6 : 6), bottom - kChartHeight - 6, to_left ? "end" : "start", "peak",
         fmt::format("peak {} at {}{}", size_text(sum.peak),
                     time_text(profile_.to_ns(sum.peak_ticks)), phase ? ", " + *phase : ""));
  }

  void grid(double bottom, uint64_t peak) {
    const double whole = static_cast<double>(peak) / kBytesPerMiB;
    const double step = axis_step(whole, 4);
    for (double value = 0; value <= whole; value += step) {
      const double y = bottom - kChartHeight * value / whole;
      line(kPlotLeft, y, kWidth - kPlotRight, y, value == 0 ? "axis" : "grid");
      text(kPlotLeft - 8, y + 4, "end", "faint", fmt::format("{:.6g} MiB", value));
    }
    const TimeUnit unit = time_unit(end_ns_);
    const double end = static_cast<double>(end_ns_) / unit.ns;
    const double time_step = axis_step(end, 8);
    for (double time = 0; time <= end; time += time_step) {
      const double at = x(static_cast<int64_t>(time * unit.ns));
      line(at, bottom, at, bottom + 4, "axis");
      text(at, bottom + 18, "middle", "faint", fmt::format("{:.6g} {}", time, unit.name));
    }
  }

  void kinds(ScopeId sum, double top, double bottom, uint64_t whole) {
    size_t color = 0;
    double legend = kWidth - kPlotRight;
    for (const ScopeId kind : timeline_kinds(profile_, sum)) {
      const Series* series = times_.find(profile_.scope_info(kind).name);
      if (series == nullptr) continue;
      const char* stroke = kLineColors[color++ % kLineColors.size()];
      out_ << fmt::format("<path class=\"kind\" style=\"stroke:{}\" d=\"{}\"/>\n", stroke,
                          path(*series, bottom, whole));
      const std::string name{kind_name(profile_.scope_info(kind).kind)};
      text(legend, top + 16, "end", "faint", name);
      legend -= kLetterWidth * static_cast<double>(name.size()) + 20;
      out_ << fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"12\" height=\"3\" style=\"fill:{}\"/>\n", legend,
          top + 11, stroke);
      legend -= 12;
    }
  }

  void phase_lanes(double top) {
    size_t index = 0;
    for (const PhaseBand& band : bands_) {
      const double begin = x(band.begin_ns), end = x(band.end_ns);
      const double y = top + static_cast<double>(band.lane) * kLaneHeight;
      out_ << fmt::format(
          "<rect class=\"band{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>\n",
          index++ % 2 == 1 ? " odd" : "", begin, y, std::max(0.5, end - begin), kLaneHeight - 2);
      const auto room = static_cast<size_t>(std::max(0.0, (end - begin - 8) / kLetterWidth));
      if (room >= 3) text(begin + 4, y + 12, "start", "", fit(band.label(), room));
    }
    if (!bands_.empty()) text(kPlotLeft - 8, top + 12, "end", "faint", "phases");
  }

  void losses(double y) {
    const Quality quality = profile_.quality();
    if (quality.exact && quality.log_complete) return;
    text(kPlotLeft, y, "start", "peak", losses_note(quality));
  }
  static std::string losses_note(const Quality& quality) {
    return quality.exact ? "the log has no end: killed, or still running"
                         : "some events were lost: figures are not exact (see gpupeak report)";
  }

  const Profile& profile_;
  const TimeSeries& times_;
  std::ostream& out_;
  const std::vector<PhaseBand> bands_;
  const int64_t end_ns_;
  size_t lanes_ = 0;
};

}  // namespace

void write_timeline_svg(const Profile& profile, const TimeSeries& times, const std::string& scope,
                        std::ostream& out) {
  Drawing(profile, times, out).write(timeline_scopes(profile, scope));
}

}  // namespace gpupeak::collector
