#include "collector/write/write_short.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "collector/summary/ledger_text.h"
#include "collector/summary/run_text.h"

namespace gpupeak::collector {
namespace {

constexpr size_t kMaxWarnings = 2;
constexpr size_t kMaxScriptLines = 8;  // one a GPU
constexpr size_t kMaxSites = 3;
constexpr size_t kMaxPhases = 6;
constexpr size_t kNameColumns = 18;

/// Names that are missing matter less here than losses.
bool concerns_names(const Warning& warning) {
  return warning.code == "GP025" || warning.code == "GP026" || warning.code == "GP050";
}

class ShortSummary {
 public:
  ShortSummary(const Summary& summary, const TextStyle& style)
      : summary_(summary), style_(style), width_(static_cast<size_t>(std::max(style.width, 40))) {
    for (const DeviceSummary& device : summary.devices) {
      if (was_used(device)) devices_.push_back(&device);
    }
  }

  void write(std::ostream& out) {
    std::vector<std::string> head{headline()};
    for (const std::string& line : warning_lines()) head.push_back(line);
    std::vector<std::string> tail = script_lines();
    tail.push_back(fmt::format("  next: gpupeak report {}", summary_.log_path));
    size_t room = kShortLines - head.size() - tail.size();

    const std::vector<std::string> ledgers = ledger_lines();
    const std::string totals = totals_line();
    const std::string phases = phase_line();
    const size_t peak_count = std::max<size_t>(devices_.size(), 1);
    const bool with_totals = room > 0;
    room -= with_totals;
    const bool with_peaks = room >= peak_count;
    if (with_peaks) room -= peak_count;
    const bool with_ledgers = with_peaks && room >= ledgers.size();
    if (with_ledgers) room -= ledgers.size();
    const bool with_phases = with_peaks && !phases.empty() && room > 0;
    room -= with_phases;
    const size_t lines_per_peak = room / peak_count;

    for (const std::string& line : head) out << line << '\n';
    if (with_peaks) write_peaks(lines_per_peak, out);
    if (with_ledgers)
      for (const std::string& line : ledgers) out << line << '\n';
    if (with_totals) out << totals << '\n';
    if (with_phases) out << phases << '\n';
    for (const std::string& line : tail) out << line << '\n';
  }

 private:
  std::string headline() const {
    const std::string exit = exit_text(summary_.run);
    const std::string losses = losses_text(summary_.quality);
    const bool fine = summary_.quality.exact && summary_.quality.log_complete;
    return fmt::format("gpupeak: {}{}{}, {}, log {}, {}", exit, exit.empty() ? "" : ", ",
                       duration(summary_.run.duration_ns), events_text(summary_.quality),
                       compact_size(summary_.log_bytes), fine ? losses : alarm(losses, style_));
  }

  std::vector<std::string> warning_lines() const {
    std::vector<std::string> lines;
    size_t left_out = 0;
    for (const Warning& warning : summary_.quality.warnings) {
      if (concerns_names(warning)) continue;
      if (lines.size() < kMaxWarnings) {
        lines.push_back(fmt::format("  {} {}", warning.code, warning.message));
      } else {
        ++left_out;
      }
    }
    if (left_out > 0) lines.push_back(fmt::format("  … {} more warnings in the report", left_out));
    return lines;
  }

  std::vector<std::string> script_lines() const {
    std::vector<std::string> lines;
    for (const DeviceSummary* device : devices_) {
      if (lines.size() == kMaxScriptLines) break;
      lines.push_back(fmt::format("Peak device memory (GPU {}): {} bytes", device->ordinal,
                                  metric(device->metrics, "device.peak_bytes").value_or(0)));
    }
    if (const auto heap = metric(summary_.metrics, "host.kind.heap.peak_bytes")) {
      lines.push_back(fmt::format("Peak host heap: {} bytes", *heap));
    }
    return lines;
  }

  void write_peaks(size_t lines_each, std::ostream& out) const {
    for (const DeviceSummary* device : devices_) {
      write_peak(device_text(*device), fmt::format("device:{}", device->ordinal), lines_each, out);
    }
    if (devices_.empty()) write_peak("host", "host", lines_each, out);
  }

  void write_peak(const std::string& name, const std::string& scope, size_t lines,
                  std::ostream& out) const {
    const Peak* peak = summary_.find_peak(scope);
    const std::string title = "  " + left(fit(name, kNameColumns - 1), kNameColumns);
    if (peak == nullptr) {
      out << title << (scope == "host" ? "peak –, not measured" : "peak 0") << '\n';
      return;
    }
    const std::string phase = peak->phase ? fmt::format(", in phase {}", *peak->phase) : "";
    const int digits = mib_digits(peak->bytes);
    out << bold(fit(fmt::format("{}peak {} MiB at {}{}", title, mib(peak->bytes, digits),
                                instant(peak->time_ns), phase),
                    width_),
                style_)
        << '\n';
    size_t shown = std::min({peak->holders.size(), kMaxSites, lines});
    const bool all = shown == peak->holders.size() && peak->other_sites == 0;
    const bool with_rest = !all && shown > 1;
    if (with_rest && shown == lines) --shown;
    uint64_t rest = peak->bytes;
    for (size_t i = 0; i < shown; ++i) {
      const Holder& holder = peak->holders[i];
      rest -= holder.bytes;
      const std::string freed =
          holder.temporary && holder.longest_life_ns > 0
              ? fmt::format("  freed {} later", duration(holder.longest_life_ns))
              : "";
      const std::string figures = fmt::format("  {}  {} %  ", right(mib(holder.bytes, digits), 9),
                                              right(percent(holder.bytes, peak->bytes), 4));
      const size_t room = width_ > display_width(figures) + freed.size()
                              ? width_ - display_width(figures) - freed.size()
                              : 0;
      out << figures << fit(holder.title, room) << freed << '\n';
    }
    if (!with_rest) return;
    const uint64_t rest_rows = peak->holders.size() - shown + peak->other_sites;
    out << fmt::format("  {}  {} %  {} more sites\n", right(mib(rest, digits), 9),
                       right(percent(rest, peak->bytes), 4), grouped(rest_rows));
  }

  /// Each device at its peak. With one device there is no need to say which.
  std::vector<std::string> ledger_lines() const {
    std::vector<std::string> lines;
    for (const DeviceSummary* device : devices_) {
      if (!device->ledger) continue;
      const LedgerView& view = device->ledger->at_peak;
      const std::string which =
          devices_.size() > 1 ? fmt::format(" for GPU {}", device->ordinal) : "";
      lines.push_back(fit(
          fmt::format("  nvidia-smi would say{} {}", which,
                      ledger_sum_text(view, view.used_bytes / 1000, mib_digits(view.used_bytes))),
          width_));
    }
    return lines;
  }

  std::string totals_line() const {
    const Metrics& metrics = summary_.metrics;
    std::string line = "  ";
    if (!devices_.empty()) {
      line += fmt::format("pinned {} · managed {} · ",
                          compact_size(metric(metrics, "host.kind.pinned.peak_bytes")),
                          compact_size(metric(metrics, "device.managed.peak_bytes")));
    }
    line += fmt::format("host heap {} · host mappings {} · RSS peak {}",
                        compact_size(metric(metrics, "host.kind.heap.peak_bytes")),
                        compact_size(metric(metrics, "host.kind.mmap_anon.peak_bytes")),
                        compact_size(metric(metrics, "host.rss.peak_bytes")));
    return line;
  }

  /// Empty if there are none but those that every process has.
  std::string phase_line() const {
    std::string line;
    size_t shown = 0;
    for (const PhaseSummary& phase : summary_.phases) {
      if (phase.source == "auto") continue;
      for (const PhaseInstances& instances : phase.instances) {
        if (devices_.empty() && !instances.host) continue;
        if (++shown > kMaxPhases) break;
        const uint64_t peak =
            devices_.empty() ? instances.host->peak_bytes : instances.device.peak_bytes;
        line += fmt::format("{}{} {}", line.empty() ? "" : " | ", instances_text(phase, instances),
                            compact_size(peak));
      }
    }
    return line.empty() ? "" : fit("  phase peaks   " + line, width_);
  }

  const Summary& summary_;
  const TextStyle& style_;
  const size_t width_;
  std::vector<const DeviceSummary*> devices_;
};

}  // namespace

void write_short(const Summary& summary, std::ostream& out, const TextStyle& style) {
  ShortSummary(summary, style).write(out);
}

}  // namespace gpupeak::collector
