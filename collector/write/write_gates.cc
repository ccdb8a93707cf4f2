#include "collector/write/write_gates.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "collector/summary/change_text.h"
#include "collector/summary/run_text.h"
#include "collector/text/xml.h"
#include "collector/write/json_values.h"
#include "collector/write/write_diff.h"
#include "collector/write/write_metrics.h"

namespace gpupeak::collector {
namespace {

constexpr double kNsPerSecond = 1e9;

/// A text within <code> in a table's cell. A bar would end the cell; nothing else is markup there.
std::string code(std::string_view text) {
  std::string out = "<code>";
  for (const char c : xml_text(text)) {
    switch (c) {
      case '|':
      case '`':
      case '*':
      case '_':
      case '[':
      case '~':
      case '@':
      case '\\':
        out += fmt::format("&#{};", static_cast<int>(c));
        break;
      default:
        out += c;
    }
  }
  return out + "</code>";
}

std::string cell(const std::optional<uint64_t>& value, bool count) {
  if (count) return value ? grouped(*value) : "–";
  return size_text(value);
}

std::string losses_line(const Summary& summary) {
  const Quality& quality = summary.quality;
  return quality.exact && quality.log_complete ? "" : losses_text(quality);
}

}  // namespace

bool all_passed(const std::vector<GateResult>& results) {
  return std::all_of(results.begin(), results.end(),
                     [](const GateResult& result) { return result.passed; });
}

void write_gates(const Summary& summary, const std::vector<GateResult>& results, std::ostream& out,
                 const TextStyle& style) {
  const std::string losses = losses_line(summary);
  if (!losses.empty()) out << alarm(losses, style) << '\n';
  for (const GateResult& result : results) {
    out << (result.passed ? "pass" : alarm("FAIL", style)) << "  " << result.message << '\n';
    for (const std::string& reason : result.reasons) out << "        " << reason << '\n';
  }
}

void write_gates_json(const Summary& summary, const std::vector<GateResult>& results,
                      std::ostream& out) {
  Json json;
  json["schema"] = "gpupeak.check/1";
  json["log"] = summary.log_path;
  json["passed"] = all_passed(results);
  json["quality"] = quality_json(summary.quality);
  json["limits"] = Json::array();
  for (const GateResult& result : results) {
    json["limits"].push_back(
        {{"limit", result.gate.text},
         {"metric", result.gate.shown},
         {"passed", result.passed},
         {"value", nullable(result.value)},
         {"error_bytes", nullable(result.error_bytes)},
         {"baseline", result.gate.increase ? nullable(result.baseline) : Json(nullptr)},
         {"allowed", nullable(result.allowed)},
         {"message", result.message},
         {"reasons", result.reasons}});
  }
  out << json.dump(1, ' ', false, Json::error_handler_t::replace) << '\n';
}

void write_junit(const Summary& summary, const std::vector<GateResult>& results,
                 std::ostream& out) {
  const auto failures = std::count_if(results.begin(), results.end(),
                                      [](const GateResult& result) { return !result.passed; });
  const double seconds = static_cast<double>(summary.run.duration_ns) / kNsPerSecond;
  const std::string suite =
      fmt::format("name=\"gpupeak\" tests=\"{}\" failures=\"{}\" errors=\"0\" time=\"{:.3f}\"",
                  results.size(), failures, seconds);
  out << "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite " << suite;
  if (!summary.run.start_time.empty()) {
    out << " timestamp=\"" << xml_text(summary.run.start_time) << '"';
  }
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
    const bool count = gate.metric.ends_with("_count");
    const std::string change =
        result.value && result.baseline ? change_percent(*result.baseline, *result.value) : "";
    out << fmt::format("| {} | {} | {} | {} | {} | {} |\n", result.passed ? "✅" : "❌",
                       code(gate.where.empty() ? gate.metric : gate.metric + "@" + gate.where),
                       cell(result.value, count), gate.increase ? cell(result.baseline, count) : "",
                       change, cell(result.allowed, count));
  }
  for (const GateResult& result : results) {
    if (result.passed) continue;
    out << "\n" << code(result.message) << "\n";
    for (const std::string& reason : result.reasons) out << "- " << code(reason) << '\n';
  }
  out << '\n';
}

}  // namespace gpupeak::collector
