#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "collector/summary/run_text.h"
#include "collector/text/scope_key.h"
#include "collector/write/report_sections.h"
#include "collector/write/writers.h"

namespace gpupeak::collector {
namespace {

using Lines = ReportSections::Lines;

constexpr size_t kMaxMarks = 20;

/// A section of the one screen: how many rows it has at first, how many it keeps while other
/// sections have rows to spare, and how many remain if nothing else helps.
struct Section {
  size_t rows, least;
  std::function<Lines(size_t rows)> lines;
  size_t last = least;
};

void put(const Lines& lines, std::ostream& out) {
  for (const std::string& line : lines) out << line << '\n';
}

std::string scope_of(const DeviceSummary& device) {
  return ScopeKey::device(device.ordinal).text();
}

std::string what_of(const DeviceSummary& device) {
  return device_text(device) + ", device memory";
}

struct Composition {
  std::string scope, what;
};

/// Kinds that count into no sum, if there is much of them: managed memory, since it may lie on
/// either side, and imported memory, since it is another process's.
std::vector<Composition> beyond_the_sum(const Summary& summary, const DeviceSummary& device) {
  constexpr uint64_t kMuch = 16 << 20, kShare = 10;
  const uint64_t peak = metric(device.metrics, "device.peak_bytes").value_or(0);
  std::vector<Composition> found;
  for (const std::string_view kind : {"managed", "imported"}) {
    const std::string scope = fmt::format("{}/{}", scope_of(device), kind);
    const Peak* of_kind = summary.find_peak(scope);
    if (of_kind == nullptr || of_kind->bytes < kMuch || of_kind->bytes < peak / kShare) continue;
    found.push_back(
        {scope, fmt::format("{}, {} memory, in no other sum", device_text(device), kind)});
  }
  return found;
}

/// Takes rows from the section that has most to spare, until everything fits.
void write_one_screen(const Summary& summary, const ReportSections& report, std::ostream& out) {
  const DeviceSummary* device = report.the_verdict().device;
  const auto host = [&](size_t rows) {
    return rows == 0 ? Lines{} : report.holders("host", "host memory", rows);
  };
  std::vector<Section> sections{
      {0, 0, [&](size_t) { return report.verdict(false); }},
      {2, 1, [&](size_t rows) { return report.failures(rows); }},
      {8, 0, [&](size_t rows) { return rows == 0 ? Lines{} : report.devices(rows); }},
      {6, 4, [&](size_t rows) { return report.tags(rows); }, 1},
  };
  const auto add = [&](size_t rows, size_t least, std::function<Lines(size_t)> lines) {
    sections.push_back({rows, least, std::move(lines)});
  };
  if (device == nullptr) add(10, 3, host);
  if (device != nullptr) {
    add(6, 2, [&](size_t rows) { return report.grown_pool(*device, rows); });
    add(10, 3,
        [&](size_t rows) { return report.holders(scope_of(*device), what_of(*device), rows); });
  }
  std::vector<Composition> beyond;
  if (device != nullptr) beyond = beyond_the_sum(summary, *device);
  for (const Composition& kind : beyond)
    add(4, 1, [&](size_t rows) { return report.holders(kind.scope, kind.what, rows); });
  if (device != nullptr) add(3, 1, [&](size_t rows) { return report.lowering(*device, rows); });
  add(4, 0, [&](size_t rows) { return report.arenas(rows); });
  if (device != nullptr) add(8, 1, [&](size_t rows) { return report.ledger(*device, rows); });
  add(10, 1, [&](size_t rows) { return report.phases(device != nullptr, false, rows); });
  add(0, 0, [&](size_t) { return report.calls(); });
  add(3, 0, [&](size_t rows) { return rows == 0 ? Lines{} : report.growth(rows); });
  if (device != nullptr) add(3, 0, host);
  add(3, 0, [&](size_t rows) { return rows == 0 ? Lines{} : report.marks(rows); });
  add(0, 0, [&](size_t) { return report.more(); });

  std::vector<Lines> texts;
  size_t lines = 0;
  for (const Section& section : sections) {
    texts.push_back(section.lines(section.rows));
    lines += texts.back().size();
  }
  while (lines > kReportLines) {
    size_t widest = 0;
    const auto spare = [&](size_t i) {
      return texts[i].empty() ? 0 : sections[i].rows - sections[i].least;
    };
    for (size_t i = 0; i < sections.size(); ++i) {
      if (spare(i) > spare(widest)) widest = i;
    }
    if (spare(widest) == 0) {
      const auto yields =
          std::ranges::find_if(sections, [](const Section& s) { return s.least > s.last; });
      if (yields == sections.end()) break;
      yields->least = yields->last;
      continue;
    }
    --sections[widest].rows;
    lines -= texts[widest].size();
    texts[widest] = sections[widest].lines(sections[widest].rows);
    lines += texts[widest].size();
  }
  for (const Lines& text : texts) put(text, out);
}

void write_all(const Summary& summary, const ReportSections& report, const TextStyle& style,
               std::ostream& out) {
  put(report.verdict(true), out);
  put(report.failures(kAllReportRows), out);
  put(report.devices(kAllReportRows), out);
  put(report.tags(kAllReportRows), out);
  for (const DeviceSummary& device : summary.devices) {
    put(report.grown_pool(device, kAllReportRows), out);
    put(report.holders(scope_of(device), what_of(device), kAllReportRows), out);
    for (const Composition& kind : beyond_the_sum(summary, device))
      put(report.holders(kind.scope, kind.what, kAllReportRows), out);
    put(report.lowering(device, kAllReportRows), out);
  }
  if (summary.devices.size() > 1) {
    const auto sum = metric(summary.metrics, "device.sum_of_peaks_bytes");
    put(report.holders(
            "device", fmt::format("all GPUs together (their own peaks: {})", size_text(sum, style)),
            kAllReportRows),
        out);
  }
  put(report.holders("host", "host memory", kAllReportRows), out);
  if (summary.find_peak("host") == nullptr)
    put(report.holders("host/pinned", "pinned host memory", kAllReportRows), out);
  put(report.growth(kAllReportRows), out);
  put(report.arenas(kAllReportRows), out);
  for (const DeviceSummary& device : summary.devices) {
    put(report.ledger(device, kAllReportRows), out);
    put(report.ledger_items(device), out);
  }
  put(report.resident(), out);
  put(report.kinds(), out);
  for (const bool of_device : {true, false})
    put(report.phases(of_device, true, kAllReportRows), out);
  put(report.calls(), out);
  put(report.marks(kMaxMarks), out);
  put(report.live_at_exit(), out);
  put(report.temporaries(), out);
}

}  // namespace

void write_text(const Summary& summary, std::ostream& out, const TextStyle& style,
                ReportLength length) {
  const ReportSections report(summary, style);
  if (length == ReportLength::kFull)
    write_all(summary, report, style, out);
  else
    write_one_screen(summary, report, out);
}

}  // namespace gpupeak::collector
