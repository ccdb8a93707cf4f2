// The timeline as a drawing: an area for each sum and a line for each kind, or areas upon each
// other for the parts of each sum; phases as bands. What needs room by its letters stands in rows
// of its own, so that nothing lies over anything else.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "collector/log/kinds.h"
#include "collector/text/title_text.h"
#include "collector/views/views.h"

namespace gpupeak::collector {
namespace {

constexpr size_t kPictureLanes = 4;
constexpr size_t kAroundEntry = 6;  ///< of what a colour means, in letters: the colour, and space
/// The mean width of a letter, of its height, in the widest of the usual fonts (DejaVu Sans).
constexpr double kLetterWidth = 0.6;
/// Told apart by eyes that do not see red and green, too (Okabe and Ito). The last: all others.
constexpr std::array<const char*, Stacked::kParts + 1> kKindColors{
    "#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#f0e442", "#9aa4b1"};
constexpr const char* kShapes = R"(
  text { font-family: sans-serif } .title { font-weight: bold } .sum { stroke-width: 1.6; fill: none }
  .area { fill-opacity: .16 } .kind { stroke-width: 1.2; fill: none } .peakline { stroke-dasharray: 3 3 }
  .part { stroke-width: .6 } .band { fill-opacity: .14 } .band.odd { fill-opacity: .26 }
)";
constexpr const char* kLight = R"(
  text { fill: #1f2733 } .faint { fill: #5b6674 } .paper { fill: #ffffff }
  .grid { stroke: #e3e7ec } .axis { stroke: #9aa4b1 } .area, .band { fill: #3b74d4 } .sum { stroke: #3b74d4 }
  .peak { fill: #c0262d } .peakline { stroke: #c0262d }
)";
constexpr const char* kDark = R"(
  text { fill: #e6eaf0 } .faint { fill: #93a0b0 } .paper { fill: #12161c }
  .grid { stroke: #262d37 } .axis { stroke: #56616f } .area, .band { fill: #6ea2ff } .sum { stroke: #6ea2ff }
  .peak { fill: #ff6b73 } .peakline { stroke: #ff6b73 }
)";

/// In pixels, of which a paper's point has 4/3. A page is as wide as the text of a paper with two
/// columns (7 in), a column as one of them (3 1/3 in).
struct Measures {
  double width, letter, chart, margin;
  const char* unit;      ///< of the picture's width and height
  double units_a_pixel;  ///< how many of that unit are one pixel
};
Measures measures_for(PictureSize size) {
  if (size == PictureSize::kColumn) return {320, 9.5, 130, 6, "pt", 0.75};
  if (size == PictureSize::kPage) return {672, 10.5, 170, 8, "pt", 0.75};
  return {960, 12, 190, 16, "", 1};
}

class Drawing : Svg {
 public:
  Drawing(const TimelineOf& shown, PictureSize size, bool dark, std::ostream& out)
      : Svg(out),
        shown_(shown),
        profile_(shown.profile),
        times_(shown.times),
        size_(measures_for(size)),
        follows_viewer_(size == PictureSize::kScreen && !dark),
        dark_(dark),
        bands_(phase_bands(profile_, kPictureLanes)),
        end_ns_(std::max<int64_t>(1, shown.end_ns())) {
    for (const PhaseBand& band : bands_) lanes_ = std::max(lanes_, band.lane + 1);
    for (const ScopeId scope : shown.scopes) {
      legends_.push_back(legend_of(scope));
      height_ += chart_height(legends_.back());
    }
    const Quality quality = profile_.quality();
    if (!quality.exact || !quality.log_complete) {
      note_ = wrapped(quality.exact ? "the log has no end: killed, or still running"
                                    : "some events were lost: figures are not exact",
                      letters_in(size_.width - 2 * size_.margin), 0, {});
    }
    height_ += (static_cast<double>(lanes_ + note_.size()) + 1) * row();
  }

  void write() {
    const std::string colors =
        dark_ ? kDark
        : follows_viewer_
            ? fmt::format("{}  @media (prefers-color-scheme: dark) {{{}  }}\n", kLight, kDark)
            : kLight;
    out_ << fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
        "width=\"{2:g}{4}\" height=\"{3:g}{4}\" font-size=\"{5:g}\" role=\"img\">\n"
        "<title>{6}</title>\n<style>{7}{8}</style>\n"
        "<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n",
        size_.width, height_, size_.width * size_.units_a_pixel,
        std::round(height_) * size_.units_a_pixel, size_.unit, size_.letter,
        xml_text(profile_.scope_text(shown_.scopes.front()) + " over time"), kShapes, colors);
    double top = row() / 2;
    for (size_t i = 0; i < shown_.scopes.size(); ++i) {
      chart(shown_.scopes[i], legends_[i], top);
      top += chart_height(legends_[i]);
    }
    phase_lanes(top);
    for (size_t i = 0; i < note_.size(); ++i) {
      const double at = height_ - row() * (static_cast<double>(note_.size() - i) - 0.4);
      text(size_.margin, at, "start", "peak", note_[i]);
    }
    out_ << "</svg>\n";
  }

 private:
  /// What a colour stands for.
  struct Named {
    std::string name, size;
  };
  using Legend = std::vector<Named>;

  double row() const { return size_.letter * 1.55; }
  double letter() const { return size_.letter * kLetterWidth; }
  size_t letters_in(double width) const {
    return static_cast<size_t>(std::max(0.0, width / letter()));
  }
  double left() const { return size_.margin / 2 + letter() * 9.5; }
  double right() const { return size_.width - size_.margin; }
  double plot() const { return right() - left(); }

  double x(int64_t ns) const {
    // A damaged log may have any times.
    const double part = static_cast<double>(ns) / static_cast<double>(end_ns_);
    return left() + plot() * std::clamp(part, 0.0, 1.0);
  }
  std::string time_text(int64_t ns) const {
    const TimeUnit unit = time_unit(end_ns_);
    return fmt::format("{:.4g} {}", static_cast<double>(ns) / unit.ns, unit.name);
  }

  Legend legend_of(ScopeId scope) const {
    Legend legend;
    const Stacked::By* const by = shown_.parts_of(scope);
    if (by == nullptr) {
      for (const ScopeId kind : timeline_kinds(profile_, scope))
        legend.push_back({std::string(kind_name(profile_.scope_info(kind).kind)), ""});
      return legend;
    }
    // In the order in which they lie upon each other, the lowest first.
    for (size_t part = 0; part < by->parts.size(); ++part) {
      const uint64_t most =
          most_of(by->moments, [part](const auto& moment) { return moment.bytes[part]; });
      legend.push_back({by->parts[part], most == 0 ? "" : "≤ " + size_text(most)});
    }
    return legend;
  }
  static size_t size_letters(const Legend& legend) {
    return most_of(legend, [](const Named& named) { return display_width(named.size); });
  }
  /// Letters of one entry, with its colour and the space behind it.
  size_t entry_letters(const Legend& legend) const {
    const size_t longest =
        most_of(legend, [](const Named& named) { return display_width(named.name); });
    return std::min(longest + size_letters(legend) + kAroundEntry,
                    letters_in(right() - size_.margin));
  }
  size_t entries_a_row(const Legend& legend) const {
    return std::max<size_t>(1, letters_in(right() - size_.margin) / entry_letters(legend));
  }
  double legend_height(const Legend& legend) const {
    if (legend.empty()) return 0;
    const size_t across = entries_a_row(legend);
    return (static_cast<double>((legend.size() + across - 1) / across) + 0.4) * row();
  }
  /// Title and peak above the chart, times and what the colours mean below.
  double chart_height(const Legend& legend) const {
    return 2.3 * row() + size_.chart + 1.8 * row() + legend_height(legend);
  }

  /// A step line through each bucket's largest value. A bucket is as wide as its time.
  std::string path(const Series& series, double bottom, uint64_t whole) const {
    std::string d;
    uint64_t last = UINT64_MAX;
    for (size_t i = 0; i < series.buckets.size(); ++i) {
      const uint64_t value = series.buckets[i].max;
      if (value == last) continue;
      const int64_t begin = times_.begin_ns(series.first_bucket + i, profile_.log().clock());
      step(d, x(begin), y(value, bottom, whole));
      last = value;
    }
    return d + fmt::format("H{:.1f}", right());
  }
  double y(uint64_t bytes, double bottom, uint64_t whole) const {
    return bottom - size_.chart * static_cast<double>(bytes) / static_cast<double>(whole);
  }
  static void step(std::string& d, double at_x, double at_y) {
    d += d.empty() ? fmt::format("M{:.1f} {:.1f}", at_x, at_y)
                   : fmt::format("H{:.1f}V{:.1f}", at_x, at_y);
  }

  void chart(ScopeId scope, const Legend& legend, double top) {
    const PeakFinder::Scope& sum = profile_.sum(scope);
    const double roof = top + 2.3 * row(), bottom = roof + size_.chart;
    text(size_.margin, top + 0.8 * row(), "start", "title",
         fit(profile_.scope_text(scope), letters_in(size_.width - 2 * size_.margin) * 9 / 10));
    if (sum.peak == 0) return;
    grid(bottom, sum.peak);
    const Series* series = times_.find(profile_.scope_info(scope).name);
    if (series == nullptr) return;
    if (const Stacked::By* const by = shown_.parts_of(scope)) {
      areas(*by, bottom, sum.peak);
    } else {
      const std::string d = path(*series, bottom, sum.peak);
      out_ << fmt::format("<path class=\"area\" d=\"{}V{:.1f}H{:.1f}Z\"/>\n", d, bottom, left())
           << fmt::format("<path class=\"sum\" d=\"{}\"/>\n", d);
      kinds(scope, bottom, sum.peak);
    }
    write_legend(legend, bottom + 1.8 * row());
    const double peak_x = x(profile_.to_ns(sum.peak_ticks));
    line(peak_x, roof, peak_x, bottom, "peakline");
    out_ << fmt::format("<circle class=\"peak\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\"/>\n",
                        peak_x, roof, size_.letter * 0.3);
    const std::optional<std::string> phase = profile_.phase_at_peak(scope);
    const bool to_left = peak_x > left() + plot() / 2;
    const double room = to_left ? peak_x - size_.margin : right() - peak_x;
    text(peak_x + (to_left ? -6 : 6), roof - 0.4 * row(), to_left ? "end" : "start", "peak",
         fit(fmt::format("peak {} at {}{}", size_text(sum.peak),
                         time_text(profile_.to_ns(sum.peak_ticks)), phase ? ", " + *phase : ""),
             letters_in(room)));
  }

  void grid(double bottom, uint64_t peak) {
    constexpr std::array<const char*, 5> kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
    double whole = static_cast<double>(peak);
    size_t unit_of_size = 0;
    for (; whole >= 2000 && unit_of_size + 1 < kUnits.size(); ++unit_of_size) whole /= 1024;
    const double step = axis_step(whole, 4);
    for (double value = 0; value <= whole; value += step) {
      const double at = bottom - size_.chart * value / whole;
      line(left(), at, right(), at, value == 0 ? "axis" : "grid");
      text(left() - letter(), at + size_.letter / 3, "end", "faint",
           value == 0 ? "0" : fmt::format("{:.6g} {}", value, kUnits[unit_of_size]));
    }
    const TimeUnit unit = time_unit(end_ns_);
    const double end = static_cast<double>(end_ns_) / unit.ns;
    const double time_step = axis_step(end, std::max<size_t>(1, letters_in(plot()) / 14));
    for (double time = 0; time <= end; time += time_step) {
      const double at = x(static_cast<int64_t>(time * unit.ns));
      const std::string label = fmt::format("{:.6g} {}", time, unit.name);
      const bool last = at + letter() * static_cast<double>(label.size()) / 2 > size_.width;
      line(at, bottom, at, bottom + size_.letter / 3, "axis");
      text(last ? size_.width - 2 : at, bottom + 1.15 * row(), last ? "end" : "middle", "faint",
           label);
    }
  }

  void areas(const Stacked::By& by, double bottom, uint64_t whole) {
    std::vector<uint64_t> below(by.moments.size());
    for (size_t part = 0; part < by.parts.size(); ++part) {
      std::string d;
      for (size_t i = 0; i < below.size(); ++i)
        step(d, x(by.moments[i].time_ns), y(below[i] + by.moments[i].bytes[part], bottom, whole));
      if (d.empty()) continue;
      d += fmt::format("H{:.1f}", right());
      for (size_t i = below.size(); i-- > 0;) {  // and back along what lies below
        d += fmt::format("V{:.1f}H{:.1f}", y(below[i], bottom, whole), x(by.moments[i].time_ns));
        below[i] += by.moments[i].bytes[part];
      }
      const size_t color = part + 1 == by.parts.size() ? kKindColors.size() - 1 : part;
      out_ << fmt::format(
          "<path class=\"part\" style=\"fill:{0};stroke:{0}\" "
          "d=\"{1}Z\"><title>{2}</title></path>\n",
          kKindColors[color], d, xml_text(by.parts[part]));
    }
  }

  void kinds(ScopeId sum, double bottom, uint64_t whole) {
    size_t color = 0;
    for (const ScopeId kind : timeline_kinds(profile_, sum)) {
      const char* const stroke = kKindColors[color++ % kKindColors.size()];
      if (const Series* series = times_.find(profile_.scope_info(kind).name)) {
        out_ << fmt::format("<path class=\"kind\" style=\"stroke:{}\" d=\"{}\"/>\n", stroke,
                            path(*series, bottom, whole));
      }
    }
  }

  void write_legend(const Legend& legend, double top) {
    const size_t across = legend.empty() ? 1 : entries_a_row(legend);
    const double each = (right() - size_.margin) / static_cast<double>(across);
    const std::vector<std::string> fitted = fit_titles(
        list_of(legend, &Named::name), letters_in(each) - size_letters(legend) - kAroundEntry);
    for (size_t i = 0; i < legend.size(); ++i) {
      const double at = size_.margin + each * static_cast<double>(i % across);
      const double base = top + row() * (static_cast<double>(i / across) + 0.8);
      out_ << fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" "
          "style=\"fill:{}\"/>\n",
          at, base - 0.75 * size_.letter, size_.letter, 0.8 * size_.letter,
          kKindColors[legend[i].name == kOthers ? kKindColors.size() - 1 : i % kKindColors.size()]);
      out_ << fmt::format(
          "<text x=\"{:.1f}\" y=\"{:.1f}\">{}<tspan class=\"faint\" "
          "dx=\"{:.1f}\">{}</tspan></text>\n",
          at + 1.5 * size_.letter, base, xml_text(fitted[i]), size_.letter * 0.6, legend[i].size);
    }
  }

  void phase_lanes(double top) {
    size_t index = 0;
    for (const PhaseBand& band : bands_) {
      const double begin = x(band.begin_ns), end = x(band.end_ns);
      const double at = top + static_cast<double>(band.lane) * row();
      out_ << fmt::format(
          "<rect class=\"band{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>\n",
          index++ % 2 == 1 ? " odd" : "", begin, at, std::max(0.5, end - begin), row() - 2);
      const size_t room = letters_in(end - begin - letter());
      if (room >= 3)
        text(begin + letter() / 2, at + 0.7 * row(), "start", "", fit(band.label(), room));
    }
    if (!bands_.empty()) text(left() - letter(), top + 0.7 * row(), "end", "faint", "phases");
  }

  const TimelineOf& shown_;
  const Profile& profile_;
  const TimeSeries& times_;
  const Measures size_;
  const bool follows_viewer_, dark_;
  const std::vector<PhaseBand> bands_;
  const int64_t end_ns_;
  size_t lanes_ = 0;
  double height_ = 0;
  std::vector<Legend> legends_;  ///< of each scope
  std::vector<std::string> note_;
};

}  // namespace

void Svg::line(double x1, double y1, double x2, double y2, std::string_view css) {
  out_ << fmt::format(
      "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" class=\"{}\"/>\n", x1, y1, x2,
      y2, css);
}

void Svg::text(double at_x, double at_y, std::string_view anchor, std::string_view css,
               const std::string& what) {
  out_ << fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" class=\"{}\">{}</text>\n",
                      at_x, at_y, anchor, css, xml_text(escape(what)));
}

void write_timeline_svg(const TimelineOf& shown, PictureSize size, bool dark, std::ostream& out) {
  Drawing(shown, size, dark, out).write();
}

}  // namespace gpupeak::collector
