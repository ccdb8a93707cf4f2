#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "collector/summary/run_text.h"
#include "collector/summary/site_title.h"
#include "collector/summary/verdict.h"
#include "collector/summary/what_if.h"
#include "collector/text/scope_key.h"
#include "collector/text/text_lines.h"
#include "collector/write/writers.h"

namespace gpupeak::collector {
namespace {

constexpr size_t kMaxSites = 3;
constexpr size_t kMaxPhases = 6;
constexpr size_t kMaxHints = 2;

class ShortSummary {
 public:
  ShortSummary(const Summary& summary, const TextStyle& style)
      : summary_(summary),
        style_(style),
        verdict_(verdict_of(summary, style)),
        scope_((verdict_.device == nullptr ? ScopeKey::host()
                                           : ScopeKey::device(verdict_.device->ordinal))
                   .text()),
        peak_(summary.find_peak(scope_)) {}

  void write(std::ostream& out) const {
    const TextLines head = sentences();
    TextLines tail = script_lines();
    tail.add(next_line());
    // In the order in which they are shown. If there are too many lines, the last ones are dropped.
    TextLines body = none();
    body.wrap("  " + facts(), faint);
    add_bar(verdict_, "  ", body);
    add_sites(body);
    add_lowering(body);
    add_ledger(body);
    for (size_t i = 0; i < std::min(verdict_.hints.size(), kMaxHints); ++i)
      body.wrap("  " + verdict_.hints[i]);
    add_totals(body);
    add_phases(body);
    const size_t most = kShortLines + script_devices() - 1 + verdict_.rows.size();
    body.keep(most - std::min(most, head.count() + tail.count()));
    for (const TextLines& part : {head, body, tail}) part.write(out);
  }

 private:
  TextLines none() const { return TextLines(style_, 4, kRowCountColumns, 40); }

  bool has_several() const { return summary_.whole_run && summary_.whole_run->has_several(); }

  size_t script_devices() const {
    if (has_several())
      return std::clamp<size_t>(summary_.whole_run->devices.size(), 1, kMaxScriptLines);
    const auto used = static_cast<size_t>(std::ranges::count_if(summary_.devices, was_used));
    return std::clamp<size_t>(used, 1, kMaxScriptLines);
  }

  TextLines sentences() const {
    TextLines lines = none();
    for (const Verdict::Sentence& sentence : verdict_.sentences)
      lines.wrap((lines.empty() ? "gpupeak: " : "  ") + sentence.text,
                 sentence.alarm ? alarm : bold);
    for (const std::string& row : verdict_.rows) lines.line("  " + row);
    return lines;
  }

  std::string facts() const {
    return verdict_.facts + (verdict_.warnings.empty() ? "" : " · " + verdict_.warnings);
  }

  static std::string figures_of(uint64_t bytes, uint64_t whole, const TextLines& lines) {
    return fmt::format("  {} {} %  ", lines.cell(bytes), right(percent(bytes, whole), 5));
  }

  void add_grown(const ArenaSummary& arena, TextLines& lines) const {
    lines.wrap("  in {}:", grown_arena_text(arena, style_));
    for (size_t i = 0; i < std::min(arena.largest.parts.size(), kMaxSites); ++i) {
      const ArenaSummary::Part& part = arena.largest.parts[i];
      lines.row(figures_of(part.bytes, arena.reserved_peak_bytes, lines), part.title);
    }
  }

  void add_sites(TextLines& lines) const {
    if (peak_ == nullptr) return;
    const ArenaSummary* grown = verdict_.device == nullptr
                                    ? nullptr
                                    : arena_behind_peak(summary_, verdict_.device->ordinal);
    if (grown != nullptr) return add_grown(*grown, lines);
    const size_t shown = std::min(peak_->holders.size(), kMaxSites);
    const std::vector<const Holder*> rows = rows_by_resident(*peak_, summary_.metrics);
    for (size_t i = 0; i < shown; ++i) {
      const Holder& holder = *rows[i];
      lines.row(figures_of(holder.bytes, peak_->bytes, lines), holder.title,
                role_mark(holder, lines.width(), style_) +
                    resident_mark(holder, summary_.metrics, style_),
                holder.telling_part);
    }
    if (const std::string note = role_note(*peak_, shown); !note.empty()) lines.line("  " + note);
    if (const uint64_t bytes = heap_without_sites(summary_.metrics); scope_ == "host" && bytes > 0)
      lines.add("  {}          the heap's first, without call sites: in no row", lines.cell(bytes));
  }

  /// What would save a twentieth of the peak and more.
  void add_lowering(TextLines& lines) const {
    constexpr size_t kMost = 2;
    constexpr uint64_t kWorthALine = 20;
    const std::optional<Lowering>& lowering = summary_.lowering;
    if (!lowering || lowering->scope != scope_) return;
    std::vector<std::string> texts;
    for (const Lowering::Row& row : lowering->rows) {
      const uint64_t after = row.most_bytes.value_or(row.least_bytes);
      if (after + lowering->before_bytes / kWorthALine > lowering->before_bytes) continue;
      if (texts.size() == kMost) break;
      texts.push_back(
          fmt::format("{} ({}) {}", bounds_text(row.least_bytes, row.most_bytes, style_),
                      gain_text(lowering->before_bytes, row.least_bytes, row.most_bytes),
                      setting_text(row.setting, row.about)));
    }
    if (!texts.empty()) lines.wrap("  would lower it: {}", fmt::join(texts, "; "));
  }

  void add_ledger(TextLines& lines) const {
    if (verdict_.device == nullptr || !verdict_.device->ledger) return;
    const LedgerView& view = verdict_.device->ledger->at_peak;
    const std::string whose = verdict_.device->is_integrated() ? "the driver" : "nvidia-smi";
    if (!is_of_peak(view, peak_) && !view.by_failed_call)
      lines.wrap("  {}'s figure is not of the peak: {}", whose,
                 ledger_nearness_text(view, peak_, style_));
    else
      lines.wrap("  {} shows {}", whose, ledger_sum_text(view, view.used_bytes / 100, style_));
  }

  /// Whether the heap's figure is the library's counter, since not every block was read.
  bool heap_is_counted() const {
    return summary_.quality.heap_not_read || summary_.quality.heap_sample_bytes > 0;
  }

  void add_totals(TextLines& lines) const {
    const Metrics& metrics = summary_.metrics;
    std::string line;
    const auto add = [&](std::string_view what, const std::string& name) {
      const std::optional<uint64_t> bytes = metric(metrics, name);
      if (bytes.value_or(0) > 0)
        line += fmt::format("{}{} {}", line.empty() ? "" : " · ", what, lines.size(bytes));
    };
    if (heap_is_counted()) {
      add("host heap in usable bytes", "host.kind.heap.usable_peak_bytes");
      if (summary_.quality.heap_sample_bytes > 0) line += " (exact)";
    } else {
      if (!metric(metrics, "host.kind.heap.peak_bytes")) line = "host heap not measured";
      add("host heap", "host.kind.heap.peak_bytes");
    }
    add("host mappings", "host.kind.mmap_anon.peak_bytes");
    if (verdict_.device != nullptr) {
      add("pinned", "host.kind.pinned.peak_bytes");
      add("managed", "device.managed.peak_bytes");
    }
    add("RSS", "host.rss.peak_bytes");
    if (!line.empty()) lines.wrap("  " + line);
  }

  /// Nothing if the run has only the phases that every process has.
  void add_phases(TextLines& lines) const {
    std::string line;
    size_t shown = 0;
    const bool of_host = verdict_.device == nullptr;
    for (const PhaseSummary& phase : summary_.phases) {
      if (phase.source == "auto" || phase.source == "node" || phase.of_library) continue;
      for (const PhaseInstances& instances : phase.instances) {
        if (of_host && !instances.host) continue;
        if (++shown > kMaxPhases) break;
        const uint64_t peak = of_host ? instances.host->peak_bytes : instances.device.peak_bytes;
        line += fmt::format("{}{} {}", line.empty() ? "" : " | ", instances_text(phase, instances),
                            lines.size(peak));
      }
    }
    if (!line.empty()) lines.line("  phase peaks   " + line);
  }

  /// The number that the program gives the GPU; if two GPUs of the run have the same number, the
  /// place in the list.
  static size_t gpu_number(const WholeRun& run, size_t i) {
    for (size_t other = 0; other < run.devices.size(); ++other) {
      if (other != i && run.devices[other].ordinal == run.devices[i].ordinal) return i;
    }
    return static_cast<size_t>(run.devices[i].ordinal.value_or(static_cast<int32_t>(i)));
  }

  /// For a run of several processes: each GPU, and the host heap of one process, whose pid stands
  /// there so that nobody takes the figure for a sum.
  TextLines script_lines() const {
    TextLines lines = none();
    const auto add = [&](const std::string& what, const std::string& of,
                         std::optional<uint64_t> bytes) {
      const std::string brackets = of.empty() ? "" : " (" + of + ")";
      if (bytes) lines.add("Peak {}{}: {} bytes", what, brackets, *bytes);
    };
    const WholeRun* run = has_several() ? &*summary_.whole_run : nullptr;
    for (size_t i = 0; run != nullptr && i < std::min(run->devices.size(), kMaxScriptLines); ++i)
      add("device memory", fmt::format("GPU {}", gpu_number(*run, i)), run->devices[i].peak_bytes);
    for (const DeviceSummary& device : summary_.devices) {
      if (run != nullptr || lines.count() == kMaxScriptLines) break;
      if (was_used(device))
        add("device memory", fmt::format("GPU {}", device.ordinal),
            metric(device.metrics, "device.peak_bytes").value_or(0));
    }
    const std::string pid =
        run == nullptr ? "" : fmt::format("pid {}", run->processes[run->lead].pid);
    if (run != nullptr ? summary_.quality.heap_not_read : heap_is_counted())
      add("host heap", pid.empty() ? "usable" : "usable, " + pid,
          metric(summary_.metrics, "host.kind.heap.usable_peak_bytes"));
    else
      add("host heap", pid, metric(summary_.metrics, "host.kind.heap.peak_bytes"));
    add("host memory", pid, metric(summary_.metrics, "host.memory.peak_bytes"));
    return lines;
  }

  std::string next_line() const {
    std::string line = fmt::format("  next: gpupeak report {}", quoted(summary_.log_path));
    for (const Verdict::Step& step : verdict_.next) {
      if (step.page && page_template().empty()) continue;
      const std::string more =
          fmt::format(" | {}{}{}", step.command, step.why.empty() ? "" : "  ", step.why);
      if (display_width(line) + display_width(more) > none().width()) break;
      line += more;
    }
    return line;
  }

  const Summary& summary_;
  const TextStyle& style_;
  const Verdict verdict_;
  const std::string scope_;
  const Peak* peak_;
};

}  // namespace

void write_short(const Summary& summary, std::ostream& out, const TextStyle& style) {
  ShortSummary(summary, style).write(out);
}

}  // namespace gpupeak::collector
