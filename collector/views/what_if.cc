#include "collector/summary/what_if.h"

#include <fmt/format.h>

#include <algorithm>

#include "collector/text/sanitize.h"
#include "collector/text/scope_key.h"
#include "collector/views/heading.h"
#include "collector/views/views.h"
#include "collector/write/write_html.h"

namespace gpupeak::collector {
namespace {

std::string where_text(const WhatIfSum& sum) {
  if (sum.device < 0) return "host memory";
  return sum.name.empty() ? fmt::format("GPU {}", sum.device)
                          : fmt::format("GPU {} ({})", sum.device, sum.name);
}

/// "of what the log has, " if the log does not have all; else empty.
std::string_view part_text(const WhatIfSum& sum) {
  return sum.is_whole ? "" : "of what the log has, ";
}

/// The peak that the library counted, if the log comes to another one.
void write_counted(const WhatIfSum& sum, std::ostream& out, const TextStyle& style) {
  if (!sum.counted_bytes) return;
  const std::string counted = size_text(*sum.counted_bytes, style);
  if (*sum.counted_bytes < sum.before_bytes) {
    write_wrapped(fmt::format("  the peak that was counted is {}: frees are missing from the log, "
                              "so that it has too much",
                              counted),
                  out, style);
    return;
  }
  write_wrapped(
      fmt::format("  the peak that was counted is {}, with what is not in the log: what that would "
                  "be with the change is not known",
                  counted),
      out, style);
}

}  // namespace

Json what_if_json(const WhatIf& what_if) {
  Json json = object("schema", "gpupeak.whatif/1");
  json["changes"] = Json::array();
  for (size_t i = 0; i < what_if.changes.scales.size(); ++i) {
    const Changes::Scale& scale = what_if.changes.scales[i];
    json["changes"].push_back(
        object("pattern, factor, blocks", escape(scale.pattern), scale.factor, what_if.matched[i]));
  }
  for (const PoolSetting setting : what_if.changes.settings())
    json["changes"].push_back(setting_name(setting));
  json["sums"] = Json::array();
  for (const WhatIfSum& sum : what_if.sums) {
    Json row = object(
        "scope, before, exact, peak_bytes, least_bytes, most_bytes, time_ns, used_before_bytes, "
        "used_bytes, holders",
        (sum.device < 0 ? ScopeKey::host() : ScopeKey::device(sum.device)).text(),
        object("peak_bytes, time_ns", sum.before_bytes, sum.before_time_ns), sum.is_exact(),
        json_if(sum.is_exact(), sum.least_bytes), sum.least_bytes, sum.most_bytes, sum.time_ns,
        sum.used_before_bytes, sum.used_bytes, Json::array());
    for (const WhatIfSum::Holder& holder : sum.holders) {
      row["holders"].push_back(
          object("title, bytes, count", holder.title, holder.bytes, holder.count));
    }
    extend(row, "other_bytes, notes, whole, counted_peak_bytes", sum.other_bytes, sum.notes,
           sum.is_whole, sum.counted_bytes);
    json["sums"].push_back(std::move(row));
  }
  return json;
}

void write_what_if(const WhatIf& what_if, std::ostream& out, const TextStyle& style) {
  out << bold("WHAT IF", style) << "  " << changes_text(what_if.changes) << '\n';
  for (const WhatIfSum& sum : what_if.sums) {
    write_wrapped(fmt::format("{}: {}peak {} at {} in place of {} at {}, {}{}", where_text(sum),
                              part_text(sum), bounds_text(sum.least_bytes, sum.most_bytes, style),
                              instant(sum.time_ns), size_text(sum.before_bytes, style),
                              instant(sum.before_time_ns),
                              gain_text(sum.before_bytes, sum.least_bytes, sum.most_bytes),
                              sum.is_exact() ? ", exact" : ""),
                  out, style);
    if (sum.used_bytes)
      write_wrapped(
          fmt::format("  nvidia-smi would show {} in place of {}, the driver's own being "
                      "as it was",
                      size_text(*sum.used_bytes, style), size_text(*sum.used_before_bytes, style)),
          out, style);
    write_counted(sum, out, style);
    for (const std::string& note : sum.notes) write_wrapped("  " + note, out, style);
    const uint64_t whole = sum.most_bytes.value_or(sum.least_bytes);
    const auto row = [&](uint64_t bytes, const std::string& count, const std::string& title) {
      const std::string figures =
          fmt::format("{} {} {}  ", right(size_text(bytes, style), size_columns(style)),
                      right(percent(bytes, whole), 5), right(count, kRowCountColumns));
      const size_t width = static_cast<size_t>(std::max(style.width, 40));
      out << figures << cut(title, width - std::min(width, display_width(figures)), style) << '\n';
    };
    for (const WhatIfSum::Holder& holder : sum.holders)
      row(holder.bytes, grouped(holder.count), holder.title);
    if (sum.other_bytes > 0) row(sum.other_bytes, "", "more");
  }
}

void write_what_if_json(const WhatIf& what_if, std::ostream& out) {
  write_line(what_if_json(what_if), out);
}

void write_lowering(const std::vector<WhatIf>& all, size_t rows, std::ostream& out,
                    const TextStyle& style) {
  if (all.empty()) return;
  out << bold("WHAT WOULD LOWER IT", style) << "  "
      << fmt::format("{}, {}{}: each alone, by replay\n", where_text(all.front().sums.front()),
                     part_text(all.front().sums.front()),
                     size_text(all.front().sums.front().before_bytes, style));
  for (size_t i = 0; i < std::min(rows, all.size()); ++i) {
    const WhatIfSum& sum = all[i].sums.front();
    const std::string figures =
        fmt::format("  {}  {}  ", left(bounds_text(sum.least_bytes, sum.most_bytes, style), 22),
                    right(gain_text(sum.before_bytes, sum.least_bytes, sum.most_bytes), 8));
    const auto width = static_cast<size_t>(std::max(style.width, 40));
    out << figures
        << cut(changes_text(all[i].changes), width - std::min(width, display_width(figures)), style)
        << '\n';
  }
}

void write_lowering_json(const std::vector<WhatIf>& all, std::ostream& out) {
  Json json = object("schema, changes", "gpupeak.lowering/1",
                     array_of(all, [&](const WhatIf& one) { return what_if_json(one); }));
  write_line(json, out);
}

// What a change would have made of a run, as a page of its own. collector/page/what_if.js draws it.

namespace {

/// Each point as [ns since the point before, bytes as recorded, lower bound with the change, upper
/// bound with the change]. The upper bound is left out if it equals the lower one.
Json curve_json(const WhatIfSum& sum) {
  Json points = Json::array();
  int64_t last = 0;
  for (const WhatIfPoint& point : sum.curve) {
    Json one = {point.time - last, point.before, point.least};
    if (sum.most_bytes && point.most != point.least) one.push_back(point.most);
    points.push_back(std::move(one));
    last = point.time;
  }
  return points;
}

std::string answer_data(const WhatIf& what_if) {
  Json json = what_if_json(what_if);
  extend(json, "text, log, duration_ns", changes_text(what_if.changes), what_if.log,
         what_if.duration_ns);
  for (size_t i = 0; i < what_if.sums.size(); ++i) {
    json["sums"][i]["name"] = what_if.sums[i].name;
    json["sums"][i]["curve"] = curve_json(what_if.sums[i]);
  }
  return page_text(json);
}

}  // namespace

void write_what_if_page(const std::vector<WhatIf>& all, const std::string& tool_version,
                        std::ostream& out) {
  std::vector<std::string> answers;
  answers.reserve(all.size());
  for (const WhatIf& what_if : all) answers.push_back(answer_data(what_if));
  write_page("whatif", answers, tool_version, out);
}

}  // namespace gpupeak::collector
