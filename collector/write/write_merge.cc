#include "collector/write/write_merge.h"

#include <fmt/format.h>

#include "collector/summary/run_text.h"
#include "collector/write/json_values.h"

namespace gpupeak::collector {
namespace {

std::string process_text(const MergedProcess& process) {
  const std::string rank = process.run.rank ? fmt::format("rank {}, ", *process.run.rank) : "";
  std::string program = process.run.command.empty() ? "" : process.run.command.front();
  program.erase(0, program.rfind('/') + 1);
  return fmt::format("{}pid {} {}", rank, process.run.pid, program);
}

}  // namespace

void write_merge(const Merged& merged, std::ostream& out, const TextStyle& style) {
  const auto width = static_cast<size_t>(style.width);
  const size_t columns = size_columns(style);
  const auto line = [&](const std::string& text) { out << cut(text, width, style) << '\n'; };
  out << bold("MERGED", style) << "  " << merged.processes.size() << " processes\n";
  for (const MergedProcess& process : merged.processes) {
    const bool fine = process.quality.exact && process.quality.log_complete;
    const std::string losses = losses_text(process.quality);
    out << cut(fmt::format("  {}  {}: ", process_text(process), process.log_path), width, style)
        << (fine ? losses : alarm(losses, style)) << '\n';
  }
  for (const std::string& note : merged.notes) out << "  " << alarm(note, style) << '\n';
  for (const MergedSum& sum : merged.sums) {
    out << '\n' << bold("PEAK", style) << "  " << sum.name << ": ";
    if (sum.peak_bytes) {
      line(fmt::format("{}{} at once at {}; the processes' own peaks add up to {}",
                       sum.scope == "host" ? "at most " : "", size_text(*sum.peak_bytes, style),
                       instant(sum.peak_time_ns), size_text(sum.sum_of_peaks_bytes, style)));
    } else if (!sum.sum_of_peaks_bytes) {
      line("not measured by all processes");
    } else {
      line(fmt::format("at most {}, the sum of the processes' own peaks; {}",
                       size_text(sum.sum_of_peaks_bytes, style), merged.no_common_clock));
    }
    line(fmt::format("{} {}  process", right("then", columns), right("own peak", columns)));
    for (const MergedPart& part : sum.parts) {
      line(fmt::format("{} {}  {}", right(size_text(part.at_peak_bytes, style), columns),
                       right(size_text(part.peak_bytes, style), columns),
                       process_text(merged.processes[part.process])));
    }
  }
}

void write_merge_json(const Merged& merged, std::ostream& out) {
  Json json;
  json["schema"] = "gpupeak.merge/1";
  json["processes"] = Json::array();
  for (const MergedProcess& process : merged.processes) {
    json["processes"].push_back({{"log", process.log_path},
                                 {"command", process.run.command},
                                 {"host", process.run.host},
                                 {"pid", process.run.pid},
                                 {"rank", nullable(process.run.rank)},
                                 {"start_time", process.run.start_time},
                                 {"quality", quality_json(process.quality)}});
  }
  json["no_common_clock"] = text_or_null(merged.no_common_clock);
  json["notes"] = merged.notes;
  json["sums"] = Json::array();
  for (const MergedSum& sum : merged.sums) {
    Json parts = Json::array();
    for (const MergedPart& part : sum.parts) {
      parts.push_back({{"process", part.process},
                       {"peak_bytes", nullable(part.peak_bytes)},
                       {"at_peak_bytes", nullable(part.at_peak_bytes)}});
    }
    json["sums"].push_back(
        {{"scope", sum.scope},
         {"name", sum.name},
         {"uuid", text_or_null(sum.uuid)},
         {"sum_of_peaks_bytes", nullable(sum.sum_of_peaks_bytes)},
         {"peak_bytes", nullable(sum.peak_bytes)},
         {"peak_time_ns", sum.peak_bytes ? Json(sum.peak_time_ns) : Json(nullptr)},
         {"parts", std::move(parts)}});
  }
  out << json.dump(1, ' ', false, Json::error_handler_t::replace) << '\n';
}

}  // namespace gpupeak::collector
