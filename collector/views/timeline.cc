#include "collector/views/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "collector/log/kinds.h"
#include "collector/text/sanitize.h"
#include "collector/timeline/time_series.h"
#include "collector/views/heading.h"

namespace gpupeak::collector {
namespace {

constexpr size_t kTextLanes = 3;
constexpr size_t kColumnsPerTick = 14;
constexpr std::array<std::string_view, 9> kEighths{" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

std::string repeat(std::string_view text, size_t times) {
  std::string result;
  for (size_t i = 0; i < times; ++i) result += text;
  return result;
}

class Chart {
 public:
  Chart(const Profile& profile, const TimeSeries& times, size_t height, std::ostream& out,
        const TextStyle& style)
      : profile_(profile),
        times_(times),
        height_(std::max<size_t>(height, 1)),
        out_(out),
        style_(style),
        label_columns_(size_columns(style) + 3),
        columns_(static_cast<size_t>(style.width) - label_columns_ - 1),
        end_ns_(std::max<int64_t>(1, times.begin_ns(times.bucket_count(), profile.log().clock()))) {
  }

  void write(ScopeId scope) {
    write_heading(profile_, peak_of(profile_, scope), out_, style_);
    const uint64_t peak = profile_.sum(scope).peak;
    if (peak == 0) return;
    write_bars(scope, peak);
    write_axis();
    write_phases();
    write_kinds(scope, peak);
  }

 private:
  size_t column(int64_t ns) const {
    // A damaged log may have any times.
    const double part =
        std::clamp(static_cast<double>(ns) / static_cast<double>(end_ns_), 0.0, 1.0);
    return std::min(columns_ - 1, static_cast<size_t>(part * static_cast<double>(columns_)));
  }

  /// The largest value in each column's time.
  std::vector<uint64_t> maxima(ScopeId scope) const {
    std::vector<uint64_t> maxima(columns_);
    const Series* series = times_.find(profile_.scope_info(scope).name);
    if (series == nullptr) return maxima;
    const size_t buckets = series->first_bucket + series->buckets.size();
    for (size_t i = 0; i < columns_; ++i) {
      const size_t begin = i * buckets / columns_;
      const size_t end = std::max(begin + 1, (i + 1) * buckets / columns_);
      for (size_t b = std::max(begin, series->first_bucket); b < end; ++b) {
        maxima[i] = std::max(maxima[i], series->buckets[b - series->first_bucket].max);
      }
    }
    return maxima;
  }

  size_t eighths(uint64_t bytes, uint64_t peak, size_t height) const {
    if (bytes == 0) return 0;
    const double part = static_cast<double>(bytes) / static_cast<double>(peak);
    return std::max<size_t>(1, static_cast<size_t>(part * static_cast<double>(height * 8) + 0.5));
  }

  void write_bars(ScopeId scope, uint64_t peak) {
    const std::vector<uint64_t> values = maxima(scope);
    const auto highest =
        static_cast<size_t>(std::max_element(values.begin(), values.end()) - values.begin());
    out_ << std::string(label_columns_ + 1 + highest, ' ') << alarm("▼", style_) << '\n';
    for (size_t row = height_; row-- > 0;) {
      const bool labelled = row + 1 == height_ || (height_ >= 4 && row + 1 == height_ / 2);
      const uint64_t value = row + 1 == height_ ? peak : peak * (row + 1) / height_;
      const std::string label = labelled ? size_text(value, style_) + " ┤" : " │";
      std::string cells;
      for (size_t i = 0; i < columns_; ++i) {
        const size_t filled = eighths(values[i], peak, height_);
        const size_t here = filled > row * 8 ? std::min<size_t>(filled - row * 8, 8) : 0;
        cells +=
            i == highest && here > 0 ? alarm(kEighths[here], style_) : std::string(kEighths[here]);
      }
      out_ << right(label, label_columns_ + 1) << cells << '\n';
    }
  }

  void write_axis() {
    const TimeUnit unit = time_unit(end_ns_);
    const double end = static_cast<double>(end_ns_) / unit.ns;
    const double step = axis_step(end, std::max<size_t>(1, columns_ / kColumnsPerTick));
    std::string line, labels;
    size_t at = 0;
    for (double tick = 0; tick <= end; tick += step) {
      const size_t where = column(static_cast<int64_t>(tick * unit.ns));
      const std::string label = fmt::format("{:.6g} {}", tick, unit.name);
      if (where < at || where + label.size() > columns_) break;  // a damaged log's times overflow
      line += repeat("─", where - at) + "┴";
      labels += std::string(where - display_width(labels), ' ') + label;
      at = where + 1;
    }
    line += repeat("─", columns_ - at);
    out_ << right("0 └", label_columns_ + 1) << line << '\n'
         << std::string(label_columns_ + 1, ' ') << labels << '\n';
  }

  void write_phases() {
    const std::vector<PhaseBand> bands = phase_bands(profile_, kTextLanes);
    for (size_t lane = 0; lane < kTextLanes; ++lane) {
      std::string line;
      for (const PhaseBand& band : bands) {
        if (band.lane != lane) continue;
        const size_t begin = std::max(column(band.begin_ns), display_width(line));
        const size_t end = column(band.end_ns) + 1;
        if (end <= begin + 2) continue;  // too narrow to be seen
        line += std::string(begin - display_width(line), ' ');
        const std::string name = fit(band.label(), end - begin - 2);
        line += "╶" + name + repeat("─", end - begin - 2 - display_width(name)) + "╴";
      }
      if (!line.empty()) {
        out_ << left(lane == 0 ? "  phases" : "", label_columns_ + 1) << line << '\n';
      }
    }
  }

  void write_kinds(ScopeId sum, uint64_t peak) {
    for (const ScopeId kind : timeline_kinds(profile_, sum)) {
      std::string cells;
      for (const uint64_t value : maxima(kind)) cells += kEighths[eighths(value, peak, 1)];
      const std::string name{kind_name(profile_.scope_info(kind).kind)};
      out_ << left("  " + fit(name, label_columns_ - 2), label_columns_ + 1) << cells << '\n';
    }
  }

  const Profile& profile_;
  const TimeSeries& times_;
  const size_t height_;
  std::ostream& out_;
  const TextStyle& style_;
  const size_t label_columns_;  ///< beside the chart
  const size_t columns_;
  const int64_t end_ns_;
};

const char* kind_of(const Series& series) {
  return series.kind == Series::Kind::kSum ? "sum" : "gauge";
}

/// Calls visit(begin_ns, bucket) for the buckets that differ from the one before.
template <typename Visit>
void for_each_change(const Profile& profile, const TimeSeries& times, const Series& series,
                     Visit visit) {
  for (size_t i = 0; i < series.buckets.size(); ++i) {
    const SeriesBucket& bucket = series.buckets[i];
    const bool changed = i == 0 || bucket.min != bucket.max ||
                         bucket.max != series.buckets[i - 1].max ||
                         series.buckets[i - 1].min != series.buckets[i - 1].max;
    if (!changed) continue;
    visit(times.begin_ns(series.first_bucket + i, profile.log().clock()), bucket);
  }
}

Json series_json(const Profile& profile, const TimeSeries& times, const Series& series) {
  Json json;
  json["name"] = series.name;
  json["kind"] = kind_of(series);
  json["buckets"] = Json::array();
  for_each_change(profile, times, series, [&](int64_t begin_ns, const SeriesBucket& bucket) {
    json["buckets"].push_back({begin_ns, bucket.min, bucket.max});
  });
  return json;
}

/// The sums of the scopes, each followed by its kinds, and all gauges.
std::vector<const Series*> shown_series(const Profile& profile, const TimeSeries& times,
                                        const std::vector<ScopeId>& scopes) {
  std::vector<const Series*> shown;
  for (const ScopeId id : scopes) {
    shown.push_back(times.find(profile.scope_info(id).name));
    for (const ScopeId kind : timeline_kinds(profile, id))
      shown.push_back(times.find(profile.scope_info(kind).name));
  }
  std::erase(shown, nullptr);
  for (const Series& series : times.series()) {
    if (series.kind == Series::Kind::kGauge) shown.push_back(&series);
  }
  return shown;
}

}  // namespace

TimeUnit time_unit(int64_t end_ns) {
  if (end_ns < 2'000'000) return {1e3, "µs"};
  if (end_ns < 2'000'000'000) return {1e6, "ms"};
  return {1e9, "s"};
}

double axis_step(double end, size_t most) {
  if (end <= 0) return 1;
  const double rough = end / static_cast<double>(std::max<size_t>(most, 1));
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) return factor * power;
  }
  return 10 * power;
}

std::vector<ScopeId> timeline_scopes(const Profile& profile, const std::string& scope) {
  if (!scope.empty()) return {profile.scope(scope)};
  std::vector<ScopeId> shown;
  for (const ScopeId id : profile.scopes()) {
    const ScopeInfo& info = profile.scope_info(id);
    if (info.kind == 0 && (info.device >= 0 || info.name == "host")) shown.push_back(id);
  }
  if (shown.empty()) shown.push_back(profile.scope(""));
  return shown;
}

std::vector<ScopeId> timeline_kinds(const Profile& profile, ScopeId sum) {
  const std::string prefix = profile.scope_info(sum).name + "/";
  std::vector<ScopeId> kinds;
  for (const ScopeId id : profile.scopes()) {
    const ScopeInfo& info = profile.scope_info(id);
    if (info.name.starts_with(prefix) && counts_into_sum(info.kind)) kinds.push_back(id);
  }
  return kinds.size() > 1 ? kinds : std::vector<ScopeId>{};
}

void write_timeline(const Profile& profile, const TimeSeries& times, const std::string& scope,
                    size_t height, std::ostream& out, const TextStyle& style) {
  const std::vector<ScopeId> scopes = timeline_scopes(profile, scope);
  write_losses(profile.quality(), out, style);
  Chart chart(profile, times, height, out, style);
  const char* separator = "";
  for (const ScopeId id : scopes) {
    out << separator;
    separator = "\n";
    chart.write(id);
  }
}

void write_timeline_csv(const Profile& profile, const TimeSeries& times, const std::string& scope,
                        std::ostream& out) {
  out << "series,kind,begin_ns,min_bytes,max_bytes\n";
  for (const Series* series : shown_series(profile, times, timeline_scopes(profile, scope))) {
    for_each_change(profile, times, *series, [&](int64_t begin_ns, const SeriesBucket& bucket) {
      out << csv_field(series->name) << ',' << kind_of(*series) << ',' << begin_ns << ','
          << bucket.min << ',' << bucket.max << '\n';
    });
  }
}

void write_timeline_json(const Profile& profile, const TimeSeries& times, const std::string& scope,
                         std::ostream& out) {
  const std::vector<ScopeId> scopes = timeline_scopes(profile, scope);
  Json json = view_json(profile, "gpupeak.timeline/1");
  json["bucket_ns"] = times.begin_ns(1, profile.log().clock());
  json["end_ns"] = times.begin_ns(times.bucket_count(), profile.log().clock());
  json["peaks"] = Json::array();
  json["series"] = Json::array();
  for (const ScopeId id : scopes) {
    const PeakFinder::Scope& sum = profile.sum(id);
    json["peaks"].push_back({{"scope", profile.scope_info(id).name},
                             {"bytes", sum.peak},
                             {"time_ns", profile.to_ns(sum.peak_ticks)},
                             {"phase", nullable(profile.phase_at_peak(id))}});
  }
  for (const Series* series : shown_series(profile, times, scopes))
    json["series"].push_back(series_json(profile, times, *series));
  json["phases"] = Json::array();
  for (const PhaseBand& band : phase_bands(profile, SIZE_MAX)) {
    json["phases"].push_back(
        {{"name", band.label()}, {"begin_ns", band.begin_ns}, {"end_ns", band.end_ns}});
  }
  write_line(json, out);
}

// The timeline as a drawing: an area for each sum, a line for each kind, phases as bands. If a
// browser shows the SVG, colours follow the viewer's light or dark theme.

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
