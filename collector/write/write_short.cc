#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "collector/summary/run_text.h"
#include "collector/summary/site_title.h"
#include "collector/summary/verdict.h"
#include "collector/summary/what_if.h"
#include "collector/text/scope_key.h"
#include "collector/text/title_text.h"
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
        width_(static_cast<size_t>(std::max(style.width, 40))),
        verdict_(verdict_of(summary, style)),
        scope_((verdict_.device == nullptr ? ScopeKey::host()
                                           : ScopeKey::device(verdict_.device->ordinal))
                   .text()),
        peak_(summary.find_peak(scope_)) {}

  void write(std::ostream& out) {
    std::vector<std::string> head = sentences();
    std::vector<std::string> tail = script_lines();
    tail.push_back(next_line());
    // In the order in which they are shown. If there are too many lines, the last ones are dropped.
    std::vector<std::string> body;
    const auto add = [&](const std::vector<std::string>& lines) {
      body.insert(body.end(), lines.begin(), lines.end());
    };
    for (const std::string& line : lines_of(facts())) body.push_back(faint(line, style_));
    add(bar_lines());
    add(site_lines());
    add(lowering_lines());
    add(ledger_line());
    for (size_t i = 0; i < std::min(verdict_.hints.size(), kMaxHints); ++i)
      add(lines_of(verdict_.hints[i]));
    add(totals_lines());
    add(phase_line());
    const size_t most = kShortLines + script_devices() - 1 + verdict_.rows.size();
    const size_t room = most - std::min(most, head.size() + tail.size());
    if (body.size() > room) body.resize(room);
    for (const auto* part : {&head, &body, &tail}) {
      for (const std::string& line : *part) out << line << '\n';
    }
  }

 private:
  bool has_several() const { return summary_.whole_run && summary_.whole_run->has_several(); }

  size_t script_devices() const {
    if (has_several())
      return std::clamp<size_t>(summary_.whole_run->devices.size(), 1, kMaxScriptLines);
    const auto used = static_cast<size_t>(std::ranges::count_if(summary_.devices, was_used));
    return std::clamp<size_t>(used, 1, kMaxScriptLines);
  }

  std::vector<std::string> sentences() const {
    std::vector<std::string> lines;
    for (const Verdict::Sentence& sentence : verdict_.sentences) {
      const std::string text = (lines.empty() ? "gpupeak: " : "  ") + sentence.text;
      for (const std::string& line : wrapped(text, width_, 4, style_))
        lines.push_back(sentence.alarm ? alarm(line, style_) : bold(line, style_));
    }
    for (const std::string& row : verdict_.rows) lines.push_back(cut("  " + row, width_, style_));
    return lines;
  }

  std::vector<std::string> lines_of(const std::string& text) const {
    return wrapped("  " + text, width_, 4, style_);
  }

  std::string facts() const {
    return verdict_.facts + (verdict_.warnings.empty() ? "" : " · " + verdict_.warnings);
  }

  std::vector<std::string> bar_lines() const {
    if (verdict_.bar.empty()) return {};
    const std::string bar = "  " + bar_text(verdict_.bar, kBarColumns);
    const std::string legend = "  " + bar_legend(verdict_.bar, style_);
    if (display_width(bar) + display_width(legend) <= width_) return {bar + legend};
    std::vector<std::string> lines = wrapped(legend, width_, 2, style_);
    lines.insert(lines.begin(), bar);
    return lines;
  }

  std::vector<std::string> lines_of_grown(const ArenaSummary& arena) const {
    std::vector<std::string> lines = lines_of("in " + grown_arena_text(arena, style_) + ":");
    for (size_t i = 0; i < std::min(arena.largest.parts.size(), kMaxSites); ++i) {
      const ArenaSummary::Part& part = arena.largest.parts[i];
      const std::string figures = figures_of(part.bytes, arena.reserved_peak_bytes);
      lines.push_back(title_row(figures, part.title, "", width_, style_));
    }
    return lines;
  }

  std::string figures_of(uint64_t bytes, uint64_t whole) const {
    return fmt::format("  {} {} %  ", right(size_text(bytes, style_), size_columns(style_)),
                       right(percent(bytes, whole), 5));
  }

  std::vector<std::string> site_lines() const {
    std::vector<std::string> lines;
    if (peak_ == nullptr) return lines;
    const ArenaSummary* grown = verdict_.device == nullptr
                                    ? nullptr
                                    : arena_behind_peak(summary_, verdict_.device->ordinal);
    if (grown != nullptr) return lines_of_grown(*grown);
    const size_t shown = std::min(peak_->holders.size(), kMaxSites);
    const std::vector<const Holder*> rows = rows_by_resident(*peak_, summary_.metrics);
    for (size_t i = 0; i < shown; ++i) {
      const Holder& holder = *rows[i];
      const std::string figures = figures_of(holder.bytes, peak_->bytes);
      const std::string role =
          role_mark(holder, width_, style_) + resident_mark(holder, summary_.metrics, style_);
      lines.push_back(
          cut(title_row(figures, holder.title, role, width_, style_, holder.telling_part), width_,
              style_));
    }
    if (const std::string note = role_note(*peak_, shown); !note.empty())
      lines.push_back(cut("  " + note, width_, style_));
    if (const uint64_t bytes = heap_without_sites(summary_.metrics); scope_ == "host" && bytes > 0)
      lines.push_back(fmt::format("  {}          the heap's first, without call sites: in no row",
                                  right(size_text(bytes, style_), size_columns(style_))));
    return lines;
  }

  /// What would save a twentieth of the peak and more.
  std::vector<std::string> lowering_lines() const {
    constexpr size_t kMost = 2;
    constexpr uint64_t kWorthALine = 20;
    const std::optional<Lowering>& lowering = summary_.lowering;
    if (!lowering || lowering->scope != scope_) return {};
    std::string text;
    size_t shown = 0;
    for (const Lowering::Row& row : lowering->rows) {
      const uint64_t after = row.most_bytes.value_or(row.least_bytes);
      if (after + lowering->before_bytes / kWorthALine > lowering->before_bytes) continue;
      if (shown++ == kMost) break;
      text += fmt::format("{}{} ({}) {}", shown == 1 ? "" : "; ",
                          bounds_text(row.least_bytes, row.most_bytes, style_),
                          gain_text(lowering->before_bytes, row.least_bytes, row.most_bytes),
                          setting_text(row.setting, row.about));
    }
    return text.empty() ? std::vector<std::string>() : lines_of("would lower it: " + text);
  }

  std::vector<std::string> ledger_line() const {
    if (verdict_.device == nullptr || !verdict_.device->ledger) return {};
    const LedgerView& view = verdict_.device->ledger->at_peak;
    const std::string whose = verdict_.device->is_integrated() ? "the driver" : "nvidia-smi";
    if (!is_of_peak(view, peak_) && !view.by_failed_call)
      return wrapped("  " + whose + "'s figure is not of the peak: " +
                         ledger_nearness_text(view, peak_, style_),
                     width_, 4, style_);
    return wrapped("  " + whose + " shows " + ledger_sum_text(view, view.used_bytes / 100, style_),
                   width_, 4, style_);
  }

  /// Whether the heap's figure is the library's counter, since not every block was read.
  bool heap_is_counted() const {
    return summary_.quality.heap_not_read || summary_.quality.heap_sample_bytes > 0;
  }

  std::vector<std::string> totals_lines() const {
    const Metrics& metrics = summary_.metrics;
    std::string line;
    const auto add = [&](std::string_view what, const std::string& name) {
      const std::optional<uint64_t> bytes = metric(metrics, name);
      if (bytes.value_or(0) > 0)
        line += fmt::format("{}{} {}", line.empty() ? "" : " · ", what, size_text(bytes, style_));
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
    return line.empty() ? std::vector<std::string>() : lines_of(line);
  }

  /// Empty if the run has only the phases that every process has.
  std::vector<std::string> phase_line() const {
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
                            size_text(peak, style_));
      }
    }
    if (line.empty()) return {};
    return {cut("  phase peaks   " + line, width_, style_)};
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
  std::vector<std::string> script_lines() const {
    std::vector<std::string> lines;
    const auto add = [&](const std::string& what, const std::string& of,
                         std::optional<uint64_t> bytes) {
      const std::string brackets = of.empty() ? "" : " (" + of + ")";
      if (bytes) lines.push_back(fmt::format("Peak {}{}: {} bytes", what, brackets, *bytes));
    };
    const WholeRun* run = has_several() ? &*summary_.whole_run : nullptr;
    for (size_t i = 0; run != nullptr && i < std::min(run->devices.size(), kMaxScriptLines); ++i)
      add("device memory", fmt::format("GPU {}", gpu_number(*run, i)), run->devices[i].peak_bytes);
    for (const DeviceSummary& device : summary_.devices) {
      if (run != nullptr || lines.size() == kMaxScriptLines) break;
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
      if (display_width(line) + display_width(more) > width_) break;
      line += more;
    }
    return line;
  }

  const Summary& summary_;
  const TextStyle& style_;
  const size_t width_;
  const Verdict verdict_;
  const std::string scope_;
  const Peak* peak_;
};

}  // namespace

void write_short(const Summary& summary, std::ostream& out, const TextStyle& style) {
  ShortSummary(summary, style).write(out);
}

}  // namespace gpupeak::collector
