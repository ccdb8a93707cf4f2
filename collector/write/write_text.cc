#include "collector/write/write_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "collector/summary/ledger_text.h"
#include "collector/summary/run_text.h"

namespace gpupeak::collector {
namespace {

constexpr size_t kMibColumns = 9;
constexpr size_t kPhaseColumns = 22;
constexpr size_t kPhaseFigures = 9;
constexpr size_t kCommandColumns = 12;
constexpr size_t kMaxMarksListed = 20;
constexpr size_t kMaxOomListed = 10;
constexpr size_t kMaxOomHolders = 3;

class TextReport {
 public:
  TextReport(const Summary& summary, std::ostream& out, const TextStyle& style)
      : summary_(summary),
        out_(out),
        style_(style),
        width_(static_cast<size_t>(std::max(style.width, 60))) {}

  void write() {
    write_run();
    write_quality();
    for (const DeviceSummary& device : summary_.devices) {
      write_composition(fmt::format("device:{}", device.ordinal),
                        device_text(device) + ", device memory");
    }
    if (summary_.devices.size() > 1) {
      const uint64_t sum = metric(summary_.metrics, "device.sum_of_peaks_bytes").value_or(0);
      write_composition("device", fmt::format("all GPUs together (their own peaks: {} MiB)",
                                              mib(sum, mib_digits(sum))));
    }
    write_composition("host", "host memory");
    if (summary_.find_peak("host") == nullptr)
      write_composition("host/pinned", "pinned host memory");
    for (const DeviceSummary& device : summary_.devices) write_ledger(device);
    write_kinds();
    write_phases("device", "device memory");
    write_phases("host", "host memory");
    write_arenas();
    write_marks();
    write_oom();
    write_live_at_exit();
    write_temporaries();
  }

 private:
  void heading(std::string_view name, std::string_view rest) {
    out_ << '\n' << bold(name, style_) << (rest.empty() ? "" : "  ") << rest << '\n';
  }
  void line(const std::string& text) { out_ << fit(text, width_) << '\n'; }
  void run_line(std::string_view name, const std::string& text) {
    line("  " + left(name, kCommandColumns) + text);
  }

  void write_run() {
    const RunSummary& run = summary_.run;
    out_ << bold("GPUPEAK", style_) << "  " << fit(summary_.log_path, width_ - 9) << '\n';
    std::string command;
    for (const std::string& word : run.command) command += (command.empty() ? "" : " ") + word;
    run_line("command", command);
    std::string process =
        fmt::format("{}{}{}, started {}, {}", run.pid, run.host.empty() ? "" : " on ", run.host,
                    run.start_time, duration(run.duration_ns));
    const std::string exit = exit_text(run);
    if (!exit.empty()) process += ", " + exit;
    run_line("process", process);
    run_line("recorded", fmt::format("{}, log {}", events_text(summary_.quality),
                                     compact_size(summary_.log_bytes)));
  }

  void write_quality() {
    const Quality& quality = summary_.quality;
    const bool fine = quality.exact && quality.log_complete;
    const std::string losses = losses_text(quality);
    out_ << "  " << left("losses", kCommandColumns)
         << (fine ? losses + ": the figures below are exact" : alarm(losses, style_)) << '\n';
    for (const Warning& warning : quality.warnings) {
      out_ << "    " << warning.code << "  " << warning.message << '\n';
    }
    run_line("measured", coverage_text());
  }

  std::string coverage_text() const {
    std::string measured = "device memory handed out by the driver, pinned";
    std::string missing;
    const auto say = [&](const std::string& name, std::string_view what) {
      std::string& list = metric(summary_.metrics, name) ? measured : missing;
      list += (list.empty() ? "" : ", ") + std::string(what);
    };
    say("host.kind.heap.peak_bytes", "heap");
    say("host.kind.mmap_anon.peak_bytes", "anonymous mappings");
    say("host.rss.peak_bytes", "RSS");
    return missing.empty() ? measured : measured + "; not measured: " + missing;
  }

  /// The error bar of an estimate, if it is one.
  static std::string error_text(const std::optional<uint64_t>& bytes, std::string_view before) {
    return bytes ? fmt::format("{}± {} MiB", before, mib(*bytes)) : "";
  }

  void write_composition(const std::string& scope, const std::string& what) {
    const Peak* peak = summary_.find_peak(scope);
    if (peak == nullptr) return;
    const std::string phase = peak->phase ? fmt::format(", phase {}", *peak->phase) : "";
    heading("PEAK COMPOSITION", fmt::format("{}, {}{}{}", what, instant(peak->time_ns), phase,
                                            error_text(peak->error_bytes, ", an estimate ")));
    line(fmt::format("{} {} {}  site", right("MiB", kMibColumns), right("%", 5), right("n", 7)));
    uint64_t sum = peak->other_bytes;
    const int digits = mib_digits(peak->bytes);
    const bool several_kinds = std::any_of(
        peak->holders.begin(), peak->holders.end(),
        [&](const Holder& holder) { return holder.kind != peak->holders.front().kind; });
    for (const Holder& holder : peak->holders) {
      sum += holder.bytes;
      std::string marks;
      if (several_kinds)
        marks += fmt::format("  [{}]", holder.kind.substr(holder.kind.find('.') + 1));
      if (holder.temporary) marks += "  [temporary]";
      marks += error_text(holder.error_bytes, "  ");
      row(holder.bytes, peak->bytes, grouped(holder.count), holder.title, marks);
    }
    if (peak->other_bytes > 0) {
      row(peak->other_bytes, peak->bytes, "", fmt::format("{} more", grouped(peak->other_sites)),
          "");
    }
    const std::string total =
        fmt::format("sum {} = peak, residual {}", mib(sum, digits), peak->bytes - sum);
    out_ << right(total, width_) << '\n';
  }

  void row(uint64_t bytes, uint64_t whole, const std::string& count, const std::string& title,
           const std::string& marks) {
    const std::string figures =
        fmt::format("{} {} {}  ", right(mib(bytes, mib_digits(whole)), kMibColumns),
                    right(percent(bytes, whole), 5), right(count, 7));
    const size_t used = display_width(figures) + display_width(marks);
    out_ << figures << fit(title, width_ > used ? width_ - used : 0) << marks << '\n';
  }

  void write_ledger(const DeviceSummary& device) {
    if (!device.ledger) return;
    const DeviceLedgerSummary& ledger = *device.ledger;
    const LedgerView& view = ledger.at_peak;
    heading("WHAT NVIDIA-SMI SHOWS",
            fmt::format("{} at the peak, read at {} ({})", device_text(device),
                        instant(view.time_ns), ledger.source));
    const int digits = mib_digits(view.used_bytes);
    const auto row = [&](int64_t bytes, const std::string& what) {
      const auto size = static_cast<uint64_t>(std::llabs(bytes));
      line(fmt::format("{} {}  {}", right((bytes < 0 ? "−" : "") + mib(size, digits), kMibColumns),
                       right(percent(size, view.used_bytes), 5), what));
    };
    row(static_cast<int64_t>(view.tracked_bytes), "tracked, by the sites above");
    for (const LedgerRow& part : view.rows) {
      if (part.bytes != 0 || part.cause == "unexplained")
        row(part.bytes, ledger_cause_text(part.cause));
    }
    out_ << right(fmt::format("sum {} = in use", mib(view.used_bytes, digits)), width_) << '\n';
    const LedgerView& exit = ledger.at_exit;
    line(fmt::format("  at exit {}",
                     ledger_sum_text(exit, exit.used_bytes / 1000, mib_digits(exit.used_bytes))));
    if (ledger.items.empty()) return;
    line("  the largest behind these causes:");
    for (const LedgerItem& item : ledger.items) {
      row(item.bytes,
          fmt::format("{}: {}{}", ledger_cause_text(item.cause), item.name,
                      item.count > 1 ? fmt::format(", {} calls", grouped(item.count)) : ""));
    }
  }

  void write_kinds() {
    heading("PEAKS BY KIND", "each at its own time; they do not add up");
    for (const auto& [name, value] : summary_.metrics) {
      if (!name.ends_with("peak_bytes") && !name.ends_with("reserved_va_bytes")) continue;
      if (!value || *value == 0) continue;
      line(fmt::format("{}  {}  {} bytes", right(mib(value), kMibColumns), left(name, 40),
                       grouped(*value)));
    }
  }

  void write_phases(const std::string& side, const std::string& what) {
    uint64_t largest = 0;
    for (const PhaseSummary& phase : summary_.phases) {
      largest = std::max(largest, metric(phase.metrics, side + ".peak_bytes").value_or(0));
    }
    if (largest == 0) return;
    heading("PHASES", what);
    const auto figure = [](std::string_view name) { return right(name, kPhaseFigures); };
    line(fmt::format("  {} {} {} {} {} {}  biggest new site", left("phase", kPhaseColumns),
                     figure("start MiB"), figure("peak MiB"), figure("end MiB"), figure("kept MiB"),
                     figure("allocs")));
    for (const PhaseSummary& phase : summary_.phases) {
      write_phase(phase, side, mib_digits(largest));
    }
  }

  /// A row for instances that are alike.
  void write_phase(const PhaseSummary& phase, const std::string& side, int digits) {
    const bool of_device = side == "device";
    const std::optional<Holder>& biggest =
        of_device ? phase.biggest_new_device_site : phase.biggest_new_host_site;
    std::string site = biggest ? biggest->title : "–";
    for (const PhaseInstances& instances : phase.instances) {
      const std::optional<PhaseInstanceSide> row = of_device ? instances.device : instances.host;
      std::string name(static_cast<size_t>(std::min(phase.depth, 8)) * 2, ' ');
      name += instances_text(phase, instances);
      const auto bytes = [&](bool known, uint64_t value) {
        return right(known ? mib(value, digits) : "–", kPhaseFigures);
      };
      const PhaseInstanceSide figures = row.value_or(PhaseInstanceSide{});
      const std::string kept = signed_mib(figures.kept_bytes, digits);
      const std::string allocs = figures.alloc_count ? grouped(*figures.alloc_count) : "–";
      line(fmt::format("  {} {} {} {} {} {}  {}", left(fit(name, kPhaseColumns), kPhaseColumns),
                       bytes(row.has_value(), figures.start_bytes),
                       bytes(row.has_value(), figures.peak_bytes),
                       bytes(row && instances.end_ns, figures.end_bytes),
                       right(kept, kPhaseFigures), right(allocs, kPhaseFigures), site));
      site = instances.alike ? "" : "(they differ)";
    }
  }

  void write_arenas() {
    if (summary_.arenas.empty()) return;
    heading("ARENAS", "in use of what they manage; each at its own peak");
    for (const ArenaSummary& arena : summary_.arenas) {
      const std::string of =
          arena.capacity_bytes ? fmt::format(" of {}", mib(*arena.capacity_bytes)) : "";
      line(fmt::format("  {}  peak {}{} MiB at {}, {} at the end, {} allocations", arena.name,
                       mib(arena.peak_bytes), of, instant(arena.peak_time_ns),
                       mib(arena.live_bytes), grouped(arena.alloc_count)));
      for (const ArenaSummary::Part& part : arena.parts) {
        line(fmt::format("  {} {}  {}", right(mib(part.bytes), kMibColumns),
                         right(grouped(part.count), 7), part.title));
      }
      if (arena.other_bytes > 0) {
        line(fmt::format("  {}          more", right(mib(arena.other_bytes), kMibColumns)));
      }
    }
  }

  void write_marks() {
    if (summary_.marks.empty()) return;
    heading("MARKS", grouped(summary_.mark_count));
    size_t listed = 0;
    for (const MarkSummary& mark : summary_.marks) {
      if (++listed > kMaxMarksListed) {
        line(fmt::format("  … {} more", grouped(summary_.mark_count - kMaxMarksListed)));
        break;
      }
      std::string text =
          fmt::format("  {}  {}", instant(mark.time_ns),
                      mark.domain.empty() ? mark.name : mark.domain + ":" + mark.name);
      text +=
          fmt::format("  device {} MiB, host {} MiB", mib(mark.device_bytes), mib(mark.host_bytes));
      line(text);
    }
  }

  /// Why memory that is there in sum does not help.
  static std::string slack_text(const OutOfMemory& oom) {
    std::string text = fmt::format("pools {} MiB, pages of small blocks {} MiB",
                                   mib(oom.pool_slack_bytes), mib(oom.page_slack_bytes));
    if (oom.unmapped_address_bytes > 0)
      text += fmt::format(", addresses without memory {} MiB", mib(oom.unmapped_address_bytes));
    return text;
  }

  void write_oom() {
    if (summary_.oom.empty()) return;
    heading("FAILED ALLOCATIONS", grouped(summary_.oom_count));
    size_t listed = 0;
    for (const OutOfMemory& oom : summary_.oom) {
      if (++listed > kMaxOomListed) break;
      const std::string where = oom.device ? fmt::format(" on GPU {}", *oom.device) : "";
      line(fmt::format("  {}  {} of {} MiB{}: {}", instant(oom.time_ns), oom.api,
                       mib(oom.requested_bytes), where, oom.result));
      line(fmt::format("    live then {} MiB, free on the device {} MiB", mib(oom.live_bytes),
                       mib(oom.driver_free_bytes)));
      line(fmt::format("    would have fitted: at most {} MiB", mib(oom.largest_fit_bytes)));
      line("    held and not in use: " + slack_text(oom));
      line("    at " + oom.title);
      for (size_t i = 0; i < std::min(oom.holders.size(), kMaxOomHolders); ++i) {
        line(fmt::format("    {} MiB held by {}", mib(oom.holders[i].bytes), oom.holders[i].title));
      }
    }
    const uint64_t shown = std::min(summary_.oom.size(), kMaxOomListed);
    if (summary_.oom_count > shown) {
      line(fmt::format("  … {} more", grouped(summary_.oom_count - shown)));
    }
  }

  void write_live_at_exit() {
    if (summary_.live_at_exit.empty()) return;
    const std::string_view when = summary_.quality.log_complete ? "" : "at the last event";
    heading("LIVE AT EXIT", when);
    const int digits = mib_digits(summary_.live_at_exit.front().bytes);
    for (const Holder& holder : summary_.live_at_exit) {
      line(fmt::format("{} {}  {}  [{}]", right(mib(holder.bytes, digits), kMibColumns),
                       right(grouped(holder.count), 7), holder.title, holder.kind));
    }
  }

  void write_temporaries() {
    if (summary_.temporaries.empty()) return;
    heading("TEMPORARY", "blocks freed right after their allocation");
    for (const Holder& holder : summary_.temporaries) {
      line(fmt::format("{} blocks  {}  [{}]", right(grouped(holder.count), 12), holder.title,
                       holder.kind));
    }
  }

  const Summary& summary_;
  std::ostream& out_;
  const TextStyle& style_;
  const size_t width_;
};

}  // namespace

void write_text(const Summary& summary, std::ostream& out, const TextStyle& style) {
  TextReport(summary, out, style).write();
}

}  // namespace gpupeak::collector
