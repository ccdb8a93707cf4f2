#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "collector/log/kinds.h"
#include "collector/text/error.h"
#include "collector/text/sanitize.h"
#include "collector/text/title_text.h"
#include "collector/views/views.h"

namespace gpupeak::collector {
namespace {

constexpr size_t kTextLanes = 3;
constexpr size_t kColumnsPerTick = 14;

std::string dashes(size_t columns) {
  return fmt::format("{:─<{}}", "", columns);
}

class Chart {
 public:
  Chart(const TimelineOf& shown, size_t height, std::ostream& out, const TextStyle& style)
      : shown_(shown),
        profile_(shown.profile),
        times_(shown.times),
        height_(std::max<size_t>(height, 1)),
        out_(out),
        style_(style),
        label_columns_(size_columns(style) + 3),
        columns_(static_cast<size_t>(style.width) - label_columns_ - 1),
        end_ns_(std::max<int64_t>(1, shown.end_ns())) {}

  void write(ScopeId scope) {
    TextLines heading(style_);
    add_heading(profile_, peak_of(profile_, scope), heading);
    heading.write(out_);
    const uint64_t peak = profile_.sum(scope).peak;
    if (peak == 0) return;
    write_bars(scope, peak);
    write_axis();
    write_phases();
    if (const Stacked::By* const by = shown_.parts_of(scope)) {
      write_parts(*by, peak);
    } else {
      write_kinds(scope, peak);
    }
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
      for (size_t b = std::max(begin, series->first_bucket); b < end; ++b)
        maxima[i] = std::max(maxima[i], series->buckets[b - series->first_bucket].max);
    }
    return maxima;
  }

  void write_bars(ScopeId scope, uint64_t peak) {
    const std::vector<uint64_t> values = maxima(scope);
    const auto highest = static_cast<size_t>(std::ranges::max_element(values) - values.begin());
    out_ << std::string(label_columns_ + 1 + highest, ' ') << alarm("▼", style_) << '\n';
    for (size_t row = height_; row-- > 0;) {
      const bool labelled = row + 1 == height_ || (height_ >= 4 && row + 1 == height_ / 2);
      const uint64_t value = row + 1 == height_ ? peak : peak * (row + 1) / height_;
      const std::string label = labelled ? size_text(value, style_) + " ┤" : " │";
      std::string cells;
      for (size_t i = 0; i < columns_; ++i) {
        const std::string_view cell = bar_cell(values[i], peak, height_, row);
        cells += i == highest && cell != " " ? alarm(cell, style_) : std::string(cell);
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
      line += dashes(where - at) + "┴";
      labels += std::string(where - display_width(labels), ' ') + label;
      at = where + 1;
    }
    line += dashes(columns_ - at);
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
        line += "╶" + name + dashes(end - begin - 2 - display_width(name)) + "╴";
      }
      if (!line.empty())
        out_ << left(lane == 0 ? "  phases" : "", label_columns_ + 1) << line << '\n';
    }
  }

  void write_kinds(ScopeId sum, uint64_t peak) {
    for (const ScopeId kind : timeline_kinds(profile_, sum)) {
      std::string cells;
      for (const uint64_t value : maxima(kind)) cells += bar_cell(value, peak, 1, 0);
      const std::string name{kind_name(profile_.scope_info(kind).kind)};
      out_ << left("  " + fit(name, label_columns_ - 2), label_columns_ + 1) << cells << '\n';
    }
  }

  /// A line for each part, below what it is and the most that it held.
  void write_parts(const Stacked::By& by, uint64_t peak) {
    const std::vector<std::string> titles =
        style_.whole_lines ? by.parts : fit_titles(by.parts, columns_);
    for (size_t part = 0; part < by.parts.size(); ++part) {
      std::vector<uint64_t> maxima(columns_);
      uint64_t now = 0, most = 0;
      size_t at = 0;
      for (const Stacked::Moment& moment : by.moments) {
        const size_t to = column(moment.time_ns);
        for (; at < to; ++at) maxima[at] = std::max(maxima[at], now);
        maxima[to] = std::max({maxima[to], now, moment.bytes[part]});
        now = moment.bytes[part];
        most = std::max(most, now);
      }
      for (; at < columns_; ++at) maxima[at] = std::max(maxima[at], now);
      if (most == 0) continue;
      std::string cells;
      for (const uint64_t value : maxima) cells += bar_cell(value, peak, 1, 0);
      out_ << std::string(label_columns_ + 1, ' ') << titles[part] << '\n'
           << left(right(size_text(most, style_), label_columns_ - 2), label_columns_ + 1) << cells
           << '\n';
    }
  }

  const TimelineOf& shown_;
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
  Json json = object("name, kind, buckets", series.name, kind_of(series), Json::array());
  for_each_change(profile, times, series, [&](int64_t begin_ns, const SeriesBucket& bucket) {
    json["buckets"].push_back({begin_ns, bucket.min, bucket.max});
  });
  return json;
}

/// The sums of the scopes, each followed by its kinds, and all gauges.
std::vector<const Series*> shown_series(const TimelineOf& of) {
  const auto& [profile, times, scopes, parts] = of;
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

/// The sums that a timeline shows for `scope`. Empty: every device that was used, and the host.
/// Throws UsageError if the log has nothing of the scope.
std::vector<ScopeId> timeline_scopes(const Profile& profile, const std::string& scope) {
  if (!scope.empty()) return {profile.scope(scope)};
  std::vector<ScopeId> shown = sides(profile);
  if (shown.empty()) shown.push_back(profile.scope(""));
  return shown;
}

void write_csv(const TimelineOf& shown, std::ostream& out) {
  if (!shown.stacked.empty()) {
    out << "scope,by,part,time_ns,bytes\n";
    for (const ScopeId id : shown.scopes) {
      const Stacked::By* const by = shown.parts_of(id);
      if (by == nullptr) continue;
      for (const Stacked::Moment& moment : by->moments) {
        for (size_t part = 0; part < by->parts.size(); ++part)
          out << shown.profile.scope_info(id).name << ',' << group_by_name(by->by) << ','
              << csv_field(by->parts[part]) << ',' << moment.time_ns << ',' << moment.bytes[part]
              << '\n';
      }
    }
    return;
  }
  out << "series,kind,begin_ns,min_bytes,max_bytes\n";
  for (const Series* series : shown_series(shown)) {
    for_each_change(shown.profile, shown.times, *series,
                    [&](int64_t begin_ns, const SeriesBucket& bucket) {
                      out << csv_field(series->name) << ',' << kind_of(*series) << ',' << begin_ns
                          << ',' << bucket.min << ',' << bucket.max << '\n';
                    });
  }
}

Json timeline_json(const TimelineOf& shown) {
  const auto& [profile, times, scopes, stacked] = shown;
  Json json = view_json(profile, "gpupeak.timeline/1");
  extend(json, "bucket_ns, end_ns, peaks, series", times.begin_ns(1, profile.log().clock()),
         shown.end_ns(), Json::array(), Json::array());
  for (const ScopeId id : scopes) {
    const PeakFinder::Scope& sum = profile.sum(id);
    json["peaks"].push_back(object("scope, bytes, time_ns, phase", profile.scope_info(id).name,
                                   sum.peak, profile.to_ns(sum.peak_ticks),
                                   profile.phase_at_peak(id)));
    if (const Stacked::By* const by = shown.parts_of(id)) {
      json["stacked"].push_back(
          object("scope, by, parts, moments", profile.scope_info(id).name, group_by_name(by->by),
                 by->parts,
                 array_of(by->moments, "time_ns, bytes", &Stacked::Moment::time_ns,
                          &Stacked::Moment::bytes)));
    }
  }
  for (const Series* series : shown_series(shown))
    json["series"].push_back(series_json(profile, times, *series));
  json["phases"] = array_of(phase_bands(profile, SIZE_MAX), "name, begin_ns, end_ns",
                            &PhaseBand::label, &PhaseBand::begin_ns, &PhaseBand::end_ns);
  return json;
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

std::vector<ScopeId> timeline_kinds(const Profile& profile, ScopeId sum) {
  const std::string prefix = profile.scope_info(sum).name + "/";
  std::vector<ScopeId> kinds;
  for (const ScopeId id : profile.scopes()) {
    const ScopeInfo& info = profile.scope_info(id);
    if (info.name.starts_with(prefix) && counts_into_sum(info.kind)) kinds.push_back(id);
  }
  return kinds.size() > 1 ? kinds : std::vector<ScopeId>{};
}

TimelineOf::TimelineOf(const Profile& of, const TimeSeries& series, const std::string& scope,
                       std::vector<Stacked> parts)
    : profile(of), times(series), scopes(timeline_scopes(of, scope)), stacked(std::move(parts)) {
  if (!stacked.empty() && !scope.empty() && parts_of(scopes.front()) == nullptr)
    throw UsageError("--by takes apart device:N or host, not " + scope);
}

const Stacked::By* TimelineOf::parts_of(ScopeId scope) const {
  const std::string& name = profile.scope_info(scope).name;
  const auto found = std::ranges::find(stacked, name, &Stacked::scope);
  return found == stacked.end() ? nullptr : &found->ways.front();
}

void write_timeline(const TimelineOf& shown, size_t height, std::ostream& out,
                    const ViewStyle& style) {
  if (style.is_json()) return write_line(timeline_json(shown), out);
  if (style.is_csv()) return write_csv(shown, out);
  view_text(shown.profile, style).write(out);
  Chart chart(shown, height, out, style);
  const char* separator = "";
  for (const ScopeId id : shown.scopes) {
    out << separator;
    separator = "\n";
    chart.write(id);
  }
}

}  // namespace gpupeak::collector
