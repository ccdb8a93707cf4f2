#include <fmt/format.h>

#include <algorithm>

#include "collector/summary/run_text.h"
#include "collector/summary/site_title.h"
#include "collector/text/sanitize.h"
#include "collector/text/text_lines.h"
#include "collector/write/writers.h"

namespace gpupeak::collector {
namespace {

constexpr size_t kMetricColumns = 42;
constexpr size_t kPhaseNameColumns = 28;

std::string cell(const std::optional<uint64_t>& value, std::string_view metric,
                 const TextStyle& style = {}) {
  if (!metric.ends_with("_count")) return size_text(value, style);
  return value ? grouped(*value) : "–";
}

/// Whether the scope is one device or the host. Text does not show scopes of a kind, since they
/// repeat rows of the whole. JSON has them.
bool is_main(const std::string& scope) {
  return scope.find('/') == std::string::npos && scope != "total";
}

/// Empty if nothing was lost.
std::string losses_line(const Summary& summary) {
  const Quality& quality = summary.quality;
  return quality.exact && quality.log_complete ? "" : losses_text(quality);
}

class TextDiff {
 public:
  TextDiff(const Summary& a, const Summary& b, size_t top, const TextStyle& style)
      : a_(a),
        b_(b),
        top_(top),
        style_(style),
        columns_(size_columns(style) + 1),
        diff_(diff(a, b)),
        text_(style, 2, kRowCountColumns, 60),
        sites_(text_, {{"change", columns_}, {"A", columns_}, {"B", columns_}}) {}

  void write(std::ostream& out) {
    text_.add(bold("DIFF", style_));
    add_run("A", a_);
    add_run("B", b_);
    for (const PeakDiff& peak : diff_.peaks) {
      if (is_main(peak.scope)) add_peak(peak);
    }
    add_metrics();
    add_phases("device", "device memory, peaks");
    add_phases("host", "host memory, peaks");
    text_.write(out);
  }

 private:
  std::string size(const std::optional<uint64_t>& bytes) const { return text_.size(bytes); }

  void add_run(std::string_view name, const Summary& summary) {
    const std::string losses = losses_line(summary);
    text_.line("  {}  {}  {}", name, summary.log_path, command_text(summary.run));
    text_.add("     {}, {}", summary.run.start_time,
              losses.empty() ? losses_text(summary.quality) : alarm(losses, style_));
  }

  void add_peak(const PeakDiff& peak) {
    if (!peak.a_bytes || !peak.b_bytes) {
      text_.section("PEAK",
                    fmt::format("{}: {}{}{}, not measured in {}", peak.scope, size(peak.a_bytes),
                                kChangeArrow, size(peak.b_bytes), peak.a_bytes ? "B" : "A"));
      return;
    }
    std::string title =
        fmt::format("{}: {}{}{}, {}", peak.scope, size(peak.a_bytes), kChangeArrow,
                    size(peak.b_bytes), change_size(*peak.a_bytes, *peak.b_bytes, style_));
    const std::string relative = change_percent(*peak.a_bytes, *peak.b_bytes);
    if (!relative.empty()) title += fmt::format(" ({})", relative);
    if (peak.a_phase != peak.b_phase) {
      title += fmt::format(", phase {}{}{}", peak.a_phase.value_or("–"), kChangeArrow,
                           peak.b_phase.value_or("–"));
    } else if (peak.b_phase) {
      title += ", phase " + *peak.b_phase;
    }
    text_.section("PEAK", title);
    if (const std::string text = nameless_text(peak); !text.empty()) text_.wrap(text, alarm);
    add_sites(peak);
  }

  void add_sites(const PeakDiff& peak) {
    SiteDiff rest;
    rest.a_bytes = peak.a_other_bytes;
    rest.b_bytes = peak.b_other_bytes;
    uint64_t a_sum = rest.a_bytes;
    uint64_t b_sum = rest.b_bytes;
    size_t left_out = 0;
    sites_.head("site");
    for (size_t i = 0; i < peak.sites.size(); ++i) {
      const SiteDiff& site = peak.sites[i];
      a_sum += site.a_bytes;
      b_sum += site.b_bytes;
      if (i < top_ && site.change() > 0) {
        add_site(site);
      } else {
        rest.a_bytes += site.a_bytes;
        rest.b_bytes += site.b_bytes;
        ++left_out;
      }
    }
    if (left_out > 0 || rest.a_bytes > 0 || rest.b_bytes > 0)
      row(rest, fmt::format("{} more", grouped(left_out)), "");
    for (const auto& [name, summary] : {std::pair("A", &a_), std::pair("B", &b_)}) {
      const Peak* of_side = summary->find_peak(peak.scope);
      if (of_side != nullptr && of_side->other_bytes > 0)
        text_.line("  {} lists only its largest sites; all: report --json --top 1000000", name);
    }
    const bool whole = a_sum == *peak.a_bytes && b_sum == *peak.b_bytes;
    if (whole)
      text_.sum("sum {} = change of the peak, residual 0", change_size(a_sum, b_sum, style_));
    else
      text_.sum("the rows do not add up to the peaks: the JSON is damaged");
  }

  void add_site(const SiteDiff& site) {
    const char* mark = site.unlisted       ? "  [not listed]"
                       : site.a_bytes == 0 ? "  [new]"
                       : site.b_bytes == 0 ? "  [gone]"
                                           : "";
    row(site, site.title, kind_mark(site.kind) + mark);
  }

  void row(const SiteDiff& site, const std::string& title, const std::string& marks) {
    sites_.row(
        {change_size(site.a_bytes, site.b_bytes, style_), size(site.a_bytes), size(site.b_bytes)},
        title, marks);
  }

  void add_metrics() {
    text_.section("METRICS", "those that differ");
    size_t same = 0;
    for (const MetricDiff& metric : diff_.metrics) {
      if (metric.a == metric.b) {
        ++same;
        continue;
      }
      const std::string relative = metric.a && metric.b ? change_percent(*metric.a, *metric.b) : "";
      text_.line("  {} {}{}{}{}", left(metric.name, kMetricColumns),
                 cell(metric.a, metric.name, style_), kChangeArrow,
                 cell(metric.b, metric.name, style_),
                 relative.empty() ? "" : fmt::format("  ({})", relative));
    }
    text_.line("  {} are equal", grouped(same));
  }

  void add_phases(const std::string& side, const std::string& what) {
    const std::string wanted = side + ".peak_bytes";
    const size_t longest =
        most_of(diff_.phases, [](const PhaseDiff& phase) { return display_width(phase.name); });
    const size_t names = name_columns(kPhaseNameColumns, longest, style_);
    const std::vector<TextColumn> columns{
        {"phase", names, true}, {"A", columns_}, {"B", columns_}, {"change", columns_}};
    const TextTable table(text_, columns, "  ");
    bool any = false;
    for (const PhaseDiff& phase : diff_.phases) {
      const auto peak = std::ranges::find(phase.metrics, wanted, &MetricDiff::name);
      if (peak == phase.metrics.end() || peak->a == peak->b) continue;
      if (!std::exchange(any, true)) {
        text_.section("PHASES", what + ", those that differ");
        table.head();
      }
      TextTable::Cells cells{phase.name, phase.in_a ? size(peak->a) : "none",
                             phase.in_b ? size(peak->b) : "none"};
      if (peak->a && peak->b) cells.push_back(change_size(*peak->a, *peak->b, style_));
      table.line(cells);
    }
  }

  const Summary& a_;
  const Summary& b_;
  const size_t top_;
  const TextStyle& style_;
  const size_t columns_;
  const Diff diff_;
  TextLines text_;
  const TextTable sites_;
};

Json run_json(const Summary& summary) {
  return object("file, command, start_time, quality", summary.log_path, summary.run.command,
                summary.run.start_time, summary.quality);
}

/// The difference as a signed number; null if one side was not measured.
Json change_json(const std::optional<uint64_t>& a, const std::optional<uint64_t>& b) {
  if (!a || !b) return nullptr;
  return static_cast<int64_t>(*b - *a);
}

Json metrics_json(const std::vector<MetricDiff>& metrics) {
  Json json = Json::object();
  for (const MetricDiff& metric : metrics)
    json[metric.name] = object("a, b, change", metric.a, metric.b, change_json(metric.a, metric.b));
  return json;
}

Json peak_json(const PeakDiff& peak) {
  Json sites = array_of(peak.sites, [&](const SiteDiff& site) {
    return object("site, kind, a_bytes, b_bytes, change_bytes, a_count, b_count", site.title,
                  site.kind, site.a_bytes, site.b_bytes, change_json(site.a_bytes, site.b_bytes),
                  site.a_count, site.b_count);
  });
  return object(
      "scope, a_bytes, b_bytes, change_bytes, a_phase, b_phase, sites, a_nameless_bytes, "
      "b_nameless_bytes, a_other_bytes, b_other_bytes",
      peak.scope, peak.a_bytes, peak.b_bytes, change_json(peak.a_bytes, peak.b_bytes), peak.a_phase,
      peak.b_phase, std::move(sites), peak.a_nameless_bytes, peak.b_nameless_bytes,
      peak.a_other_bytes, peak.b_other_bytes);
}

Json diff_json(const Summary& a, const Summary& b) {
  const Diff changes = diff(a, b);
  return object("schema, a, b, grouped_by, peaks, metrics, phases", "gpupeak.diff/1", run_json(a),
                run_json(b), b.grouped_by, array_of(changes.peaks, peak_json),
                metrics_json(changes.metrics),
                array_of(changes.phases, [&](const PhaseDiff& phase) {
                  return object("name, in_a, in_b, metrics", phase.name, phase.in_a, phase.in_b,
                                metrics_json(phase.metrics));
                }));
}

/// The text as code, so that no name is taken for Markdown or HTML. A bar would end a table's cell.
std::string code(std::string_view text) {
  std::string out = "<code>";
  for (const char c : xml_text(text)) {
    if (std::string_view("|`*_[~@\\").find(c) != std::string_view::npos)
      out += fmt::format("&#{};", static_cast<int>(c));
    else
      out += c;
  }
  return out + "</code>";
}

void write_losses_of(const char* which, const Summary& summary, std::ostream& out) {
  if (const std::string losses = losses_line(summary); !losses.empty())
    out << "> ⚠️ " << which << ": " << code(losses) << "\n\n";
}

Json gates_json(const Summary& summary, const std::vector<GateResult>& results) {
  return object(
      "schema, log, passed, quality, limits", "gpupeak.check/1", summary.log_path,
      all_passed(results), summary.quality, array_of(results, [&](const GateResult& result) {
        return object(
            "limit, metric, passed, value, error_bytes, baseline, allowed, message, reasons",
            result.gate.text, result.gate.shown, result.passed, result.value, result.error_bytes,
            json_if(result.gate.increase, result.baseline), result.allowed, result.message,
            result.reasons);
      }));
}

}  // namespace

void write_diff(const Summary& a, const Summary& b, size_t top, std::ostream& out,
                const ViewStyle& style) {
  if (style.is_json()) return write_line(diff_json(a, b), out);
  TextDiff(a, b, top, style).write(out);
}

void write_diff_markdown(const Summary& a, const Summary& b, size_t top, std::ostream& out) {
  const Diff found = diff(a, b);
  out << "### Peak memory of " << code(program_of(b)) << "\n\n";
  write_losses_of("before", a, out);
  write_losses_of("after", b, out);
  out << "| | before | after | change |\n|---|--:|--:|--:|\n";
  for (const PeakDiff& peak : found.peaks) {
    if (!is_main(peak.scope)) continue;
    const bool both = peak.a_bytes && peak.b_bytes;
    const std::string percent = both ? change_percent(*peak.a_bytes, *peak.b_bytes) : "";
    out << fmt::format("| {} | {} | {} | {} |\n", code(peak.scope), size_text(peak.a_bytes, {}),
                       size_text(peak.b_bytes, {}),
                       !both ? "not measured in both"
                       : *peak.a_bytes == *peak.b_bytes
                           ? "none"
                           : change_size(*peak.a_bytes, *peak.b_bytes, {}) +
                                 (percent.empty() ? "" : " (" + percent + ")"));
  }
  for (const PeakDiff& peak : found.peaks) {
    if (!is_main(peak.scope) || !peak.a_bytes || !peak.b_bytes || *peak.a_bytes == *peak.b_bytes)
      continue;
    out << "\nWhat changed most in " << code(peak.scope) << ":\n";
    size_t shown = 0;
    for (const SiteDiff& site : peak.sites) {
      if (shown == top || site.change() == 0) break;
      out << "- " << code(change_text(site)) << '\n';
      ++shown;
    }
    if (shown == 0) out << "- no site alone: the baseline lists too few of them\n";
  }
  out << '\n';
}

bool all_passed(const std::vector<GateResult>& results) {
  return std::ranges::all_of(results, &GateResult::passed);
}

void write_gates(const Summary& summary, const std::vector<GateResult>& results, std::ostream& out,
                 const ViewStyle& style) {
  if (style.is_json()) return write_line(gates_json(summary, results), out);
  const std::string losses = losses_line(summary);
  if (!losses.empty()) out << alarm(losses, style) << '\n';
  for (const GateResult& result : results) {
    out << (result.passed ? "pass" : alarm("FAIL", style)) << "  " << result.message << '\n';
    for (const std::string& reason : result.reasons) out << "        " << reason << '\n';
  }
}

void write_junit(const Summary& summary, const std::vector<GateResult>& results,
                 std::ostream& out) {
  const auto failures = std::ranges::count(results, false, &GateResult::passed);
  const double seconds = static_cast<double>(summary.run.duration_ns) / kNsPerSecond;
  const std::string suite =
      fmt::format("name=\"gpupeak\" tests=\"{}\" failures=\"{}\" errors=\"0\" time=\"{:.3f}\"",
                  results.size(), failures, seconds);
  out << "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite " << suite;
  if (!summary.run.start_time.empty())
    out << " timestamp=\"" << xml_text(summary.run.start_time) << '"';
  out << ">\n";
  for (const GateResult& result : results) {
    out << fmt::format("<testcase classname=\"gpupeak.{}\" name=\"{}{}\" time=\"0\"",
                       xml_text(program_of(summary)),
                       result.gate.increase ? "max-increase " : "max ", xml_text(result.gate.text));
    if (result.passed) {
      out << "/>\n";
      continue;
    }
    out << "><failure type=\"gpupeak\" message=\"" << xml_text(result.message) << "\">"
        << xml_text(result.message) << '\n';
    for (const std::string& reason : result.reasons) out << xml_text(reason) << '\n';
    out << "</failure></testcase>\n";
  }
  out << "</testsuite>\n</testsuites>\n";
}

void write_markdown(const Summary& summary, const std::vector<GateResult>& results,
                    std::ostream& out) {
  out << "### " << (all_passed(results) ? "✅" : "❌") << " Peak memory of "
      << code(program_of(summary)) << "\n\n";
  const std::string losses = losses_line(summary);
  if (!losses.empty()) out << "> ⚠️ " << losses << "\n\n";
  out << "| | metric | this run | baseline | change | allowed |\n|---|---|--:|--:|--:|--:|\n";
  for (const GateResult& result : results) {
    const Gate& gate = result.gate;
    const std::string change =
        result.value && result.baseline ? change_percent(*result.baseline, *result.value) : "";
    out << fmt::format("| {} | {} | {} | {} | {} | {} |\n", result.passed ? "✅" : "❌",
                       code(gate.where.empty() ? gate.metric : gate.metric + "@" + gate.where),
                       cell(result.value, gate.metric),
                       gate.increase ? cell(result.baseline, gate.metric) : "", change,
                       cell(result.allowed, gate.metric));
  }
  for (const GateResult& result : results) {
    if (result.passed) continue;
    out << "\n" << code(result.message) << "\n";
    for (const std::string& reason : result.reasons) out << "- " << code(reason) << '\n';
  }
  out << '\n';
}

}  // namespace gpupeak::collector
