#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <tuple>

#include "collector/summary/run_text.h"
#include "collector/summary/site_title.h"
#include "collector/text/sanitize.h"
#include "collector/views/views.h"

namespace gpupeak::collector {
namespace {

constexpr size_t kWidestName = 24;
constexpr size_t kNarrowestHolder = 30;

/// The change of the largest figure that both runs have; none: there is none.
std::optional<double> growth(const SuiteRow& row) {
  const bool device = row.device_before.value_or(0) > 0 && row.device_bytes;
  const std::optional<uint64_t>& before = device ? row.device_before : row.host_before;
  const std::optional<uint64_t>& now = device ? row.device_bytes : row.host_bytes;
  if (!now || before.value_or(0) == 0) return std::nullopt;
  return static_cast<double>(*now) / static_cast<double>(*before) - 1;
}

Json row_json(const SuiteRow& row) {
  return object(
      "run, command, exit, complete, device_peak_bytes, device_before_bytes, host_peak_bytes, "
      "host_error_bytes, host_before_bytes, holder, holder_bytes, holder_of_bytes, role, "
      "lowered_by, lowered_bytes, duration_ns, error",
      row.run, text_or_null(row.command), row.end, row.complete, row.device_bytes,
      row.device_before, row.host_bytes, row.host_error, row.host_before, text_or_null(row.holder),
      row.holder_bytes, row.holder_of, text_or_null(row.role), text_or_null(row.lowered_by),
      row.lowered_bytes, row.duration_ns, text_or_null(row.error));
}

std::string csv_value(const Json& value) {
  if (value.is_null()) return "";
  return value.is_string() ? csv_field(value.get<std::string>()) : value.dump();
}

std::string end_of(const SuiteRow& row) {
  if (!row.error.empty()) return "not read";
  const std::string text = exit_text(row.end);
  return text.empty() ? "no end" : text;
}

/// A figure of a run that did not end in order is a lower bound.
std::string figure(const SuiteRow& row, const std::optional<uint64_t>& bytes,
                   const std::optional<uint64_t>& error, const TextStyle& style) {
  std::string text = size_text(bytes, style);
  if (bytes && !row.end.in_order()) text = "≥ " + text;
  if (bytes && error && *error > 0) text += " " + error_percent(*error, *bytes);
  return text;
}

struct SuiteCell {
  std::string text;
  bool is_figure = false;
  bool alarm = false;
};

std::vector<SuiteCell> heads(bool compared) {
  std::vector<SuiteCell> cells{{"run"}, {"exit"}, {"device peak", true}};
  if (compared) cells.push_back({"change", true});
  cells.insert(cells.end(),
               {{"host peak", true}, {"time", true}, {"who holds it, and what would lower it"}});
  return cells;
}

std::vector<SuiteCell> cells_of(const SuiteRow& row, bool compared, const TextStyle& style) {
  std::string who = row.error;
  if (row.holder_of > 0) {
    who = fmt::format("{:>5} %  {}", percent(row.holder_bytes, row.holder_of), row.holder);
    if (!row.role.empty()) who += " · " + row.role;
    if (row.lowered_bytes)
      who += fmt::format(
          "; {} {}", row.lowered_by,
          gain_text(row.device_bytes.value_or(0), *row.lowered_bytes, row.lowered_bytes));
  }
  std::vector<SuiteCell> cells{{row.run},
                               {end_of(row), false, !row.end.in_order() || !row.complete},
                               {figure(row, row.device_bytes, std::nullopt, style), true}};
  if (compared) {
    const std::optional<double> grown = growth(row);
    cells.push_back(
        {grown ? fmt::format("{:+.1f} %", 100 * *grown) : "–", true, grown.value_or(0) > 0});
  }
  cells.push_back({figure(row, row.host_bytes, row.host_error, style), true});
  cells.push_back({row.error.empty() ? duration(row.duration_ns) : "–", true});
  cells.push_back({who});
  return cells;
}

std::string closing_line(const std::vector<SuiteRow>& rows, bool compared) {
  const auto many = [&](const auto& is) { return std::ranges::count_if(rows, is); };
  std::string text = fmt::format("{} {}, {} ended with exit 0, {} complete", rows.size(),
                                 rows.size() == 1 ? "run" : "runs",
                                 many([](const SuiteRow& row) { return row.end.in_order(); }),
                                 many([](const SuiteRow& row) { return row.complete; }));
  if (compared)
    text += fmt::format(
        ", {} grown, {} not there before",
        many([](const SuiteRow& row) { return growth(row).value_or(0) > 0; }),
        many([](const SuiteRow& row) { return !row.device_before && !row.host_before; }));
  return text;
}

void write_csv(const std::vector<SuiteRow>& rows, std::ostream& out) {
  const Json keys = row_json({});
  for (auto key = keys.begin(); key != keys.end(); ++key)
    out << (key == keys.begin() ? "" : ",") << key.key();
  out << "\r\n";
  for (const SuiteRow& row : rows) {
    Json values = row_json(row);
    values["exit"] = end_of(row);
    for (auto value = values.begin(); value != values.end(); ++value)
      out << (value == values.begin() ? "" : ",") << csv_value(*value);
    out << "\r\n";
  }
}

}  // namespace

SuiteRow suite_row(const std::string& run, const Summary& summary) {
  SuiteRow row;
  row.run = run;
  row.command = command_text(summary.run);
  row.end = summary.run.end;
  row.device_bytes = metric(summary.metrics, "device.peak_bytes");
  row.host_bytes = metric(summary.metrics, "host.peak_bytes");
  row.host_error = error_of(summary, "host.peak_bytes");
  row.duration_ns = summary.run.duration_ns;
  const Peak* peak = largest_device_peak(summary);
  if (peak == nullptr) peak = summary.find_peak("host");
  if (peak != nullptr && !peak->holders.empty()) {
    const Holder& largest = *rows_by_resident(*peak, summary.metrics).front();
    row.holder = largest.title;
    row.role = role_text(largest, 1, TextStyle());
    row.holder_bytes = largest.bytes;
    row.holder_of = peak->bytes;
  }
  if (summary.lowering && !summary.lowering->rows.empty()) {
    const Lowering::Row& most = summary.lowering->rows.front();
    if (most.most_bytes) {
      row.lowered_by = setting_text(most.setting, most.about);
      row.lowered_bytes = most.most_bytes;
    }
  }
  return row;
}

void order(std::vector<SuiteRow>& rows, SuiteOrder by) {
  const auto first = [by](const SuiteRow& row) {
    const double all[] = {static_cast<double>(row.device_bytes.value_or(0)),
                          static_cast<double>(row.host_bytes.value_or(0)),
                          static_cast<double>(row.duration_ns),
                          growth(row).value_or(-2),  // below all that is known
                          0};
    return all[static_cast<size_t>(by)];
  };
  std::ranges::stable_sort(rows, {}, [&](const SuiteRow& row) {
    return std::tuple(-first(row), std::string_view(row.run));
  });
}

void write_suite(const std::vector<SuiteRow>& rows, bool compared, std::ostream& out,
                 const ViewStyle& style) {
  if (style.is_json())
    return write_line(object("schema, runs", "gpupeak.suite/1", array_of(rows, row_json)), out);
  if (style.is_csv()) return write_csv(rows, out);
  std::vector<std::vector<SuiteCell>> table{heads(compared)};
  for (const SuiteRow& row : rows) table.push_back(cells_of(row, compared, style));
  std::vector<size_t> columns(table.front().size() - 1);
  for (const std::vector<SuiteCell>& cells : table)
    for (size_t i = 0; i < columns.size(); ++i)
      columns[i] = std::max(columns[i], display_width(cells[i].text));
  columns[0] = name_columns(std::min(columns[0], kWidestName), columns[0], style);
  const size_t used = 2 * columns.size() + std::reduce(columns.begin(), columns.end());
  const auto width = static_cast<size_t>(style.width);
  const size_t rest = std::max(kNarrowestHolder, width > used ? width - used : 0);
  for (size_t line = 0; line < table.size(); ++line) {
    for (size_t i = 0; i < columns.size(); ++i) {
      const SuiteCell& cell = table[line][i];
      const std::string text =
          cell.is_figure ? right(cell.text, columns[i]) : name_cell(cell.text, columns[i], style);
      out << (line == 0 ? bold(text, style) : cell.alarm ? alarm(text, style) : text) << "  ";
    }
    const std::string text = cut(table[line].back().text, rest, style);
    out << (line == 0 ? bold(text, style) : text) << '\n';
  }
  out << closing_line(rows, compared) << '\n';
}

void write_suite_html(const std::vector<SuiteRow>& rows, bool compared, std::ostream& out) {
  out << R"(<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><title>gpupeak: a suite</title>
<style>
:root { color-scheme: light dark }
body { font: 14px/1.5 system-ui, sans-serif; margin: 2em }
table { border-collapse: collapse }
th, td { text-align: left; padding: .2em .8em; border-bottom: 1px solid #8884 }
.figure { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums }
.alarm { color: #c33 }
</style>
<table>
)";
  const auto write = [&](const char* element, const std::vector<SuiteCell>& cells) {
    out << "<tr>";
    for (const SuiteCell& cell : cells)
      out << fmt::format("<{0} class=\"{1}{2}\">{3}</{0}>", element,
                         cell.is_figure ? "figure " : "", cell.alarm ? "alarm" : "",
                         xml_text(cell.text));
    out << "</tr>\n";
  };
  write("th", heads(compared));
  for (const SuiteRow& row : rows) write("td", cells_of(row, compared, TextStyle()));
  out << "</table>\n<p>" << xml_text(closing_line(rows, compared)) << "</p>\n</html>\n";
}

}  // namespace gpupeak::collector
