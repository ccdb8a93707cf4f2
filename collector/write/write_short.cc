#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "collector/analyze/summary_parts.h"
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
    for (const std::string& hint : first_of(verdict_.hints, kMaxHints)) body.wrap("  " + hint);
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

  static void row(uint64_t bytes, uint64_t whole, TextLines& lines, const auto&... title) {
    const TextTable table(lines, {{"size"}, {"%", 7}}, "  ");
    table.row({lines.size(bytes), percent(bytes, whole) + " %"}, title...);
  }

  void add_grown(const ArenaSummary& arena, TextLines& lines) const {
    lines.wrap("  in {}:", grown_arena_text(arena, style_));
    for (const ArenaSummary::Part& part : first_of(arena.largest.parts, kMaxSites))
      row(part.bytes, arena.reserved_peak_bytes, lines, part.title);
  }

  void add_sites(TextLines& lines) const {
    if (peak_ == nullptr) return;
    const ArenaSummary* grown = verdict_.device == nullptr
                                    ? nullptr
                                    : arena_behind_peak(summary_, verdict_.device->ordinal);
    if (grown != nullptr) return add_grown(*grown, lines);
    const size_t shown = std::min(peak_->holders.size(), kMaxSites);
    const std::vector<const Holder*> rows = rows_by_resident(*peak_, summary_.metrics);
    for (const Holder* holder : first_of(rows, shown)) {
      row(holder->bytes, peak_->bytes, lines, holder->title,
          role_mark(*holder, lines.width(), style_) +
              resident_mark(*holder, summary_.metrics, style_),
          holder->telling_part);
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
      lines.wrap("  {} shows {}{}", whose, ledger_sum_text(view, view.used_bytes / 100, style_),
                 carried_on_text(view));
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

class Counters {
 public:
  Counters(const LogHead& log, const TextStyle& style)
      : page_(log.counters),
        header_(log.header),
        log_bytes_(log.bytes),
        style_(style),
        heap_is_counted_(coverage_of(header_, page_).heap_counters) {
    const uint32_t devices = std::min<uint32_t>(page_.device_count, GPUPEAK_LOG_MAX_DEVICES);
    for (uint32_t device = 0; device < devices; ++device) {
      if (page_.device[device].total.peak > 0) used_.push_back(device);
    }
  }

  void write(const std::string& path, std::ostream& out) const {
    TextLines text(style_);
    std::vector<std::string> head = losses();
    head.push_back(bold(peak(), style_));
    for (const std::string& line : head) text.add((text.empty() ? "gpupeak: " : "  ") + line);
    text.add(faint("  " + facts(), style_));
    if (const std::string line = totals(); !line.empty()) text.add("  " + line);
    for (size_t i = 0; i < std::min<size_t>(used_.size(), kMaxScriptLines); ++i)
      text.add("Peak device memory (GPU {}): {} bytes", used_[i], device_peak(used_[i]));
    if (heap_is_counted_)
      text.add("Peak host heap (usable, within 64 KiB a thread): {} bytes", page_.heap.peak);
    text.add("  next: gpupeak report {}   who held it, in which phase, and what failed",
             quoted(path));
    text.write(out);
  }

 private:
  std::string size(uint64_t bytes) const { return size_text(bytes, style_); }
  uint64_t device_peak(uint32_t device) const { return page_.device[device].total.peak; }
  bool has(uint64_t bit) const { return (page_.quality & bit) != 0; }

  std::vector<std::string> losses() const {
    std::vector<std::string> lines;
    const auto say = [&](const std::string& text) { lines.push_back(alarm(text, style_)); };
    if (page_.dropped_events > 0)
      say(fmt::format("{} EVENTS LOST: the figures are what was seen",
                      grouped(page_.dropped_events)));
    if (has(GPUPEAK_Q_DEVICE_TABLE_FULL)) say("DEVICE EVENTS LOST: the figures are what was seen");
    if (page_.ended == 0 && page_.exit_kind != GPUPEAK_EXIT_CODE) {
      const std::string killed = exit_text(run_end(page_));
      say(killed.empty() ? "log without an end" : killed);
    }
    if (has(GPUPEAK_Q_LOG_MAX))
      say("the log reached its limit: the heap's holders are estimates since then, what stands "
          "here is not");
    return lines;
  }

  std::string peak() const {
    constexpr std::string_view kWhy = ", as it was counted: the log could not be read";
    if (used_.empty() && !heap_is_counted_)
      return "no memory of a GPU was handed out, and the host's was not measured";
    if (used_.empty()) return fmt::format("peak {} of host heap{}", size(page_.heap.peak), kWhy);
    const uint32_t most =
        std::ranges::max(used_, {}, [this](uint32_t of) { return device_peak(of); });
    std::string text = fmt::format("peak {} on GPU {}", size(device_peak(most)), most);
    if (used_.size() > 1) text += fmt::format(", less on {} more", used_.size() - 1);
    return text + std::string(kWhy);
  }

  std::string facts() const {
    std::string text;
    const auto add = [&](const std::string& part) {
      if (!part.empty()) text += (text.empty() ? "" : " · ") + part;
    };
    if (page_.end_monotonic_ns > header_.start_monotonic_ns)
      add(duration(static_cast<int64_t>(page_.end_monotonic_ns - header_.start_monotonic_ns)));
    add(exit_text(run_end(page_)));
    add(fmt::format("{} device events", grouped(page_.device_events)));
    if (heap_is_counted_) {
      add(fmt::format("{} mallocs and frees",
                      grouped(page_.heap_alloc_count + page_.heap_free_count)));
    }
    add("log " + size(log_bytes_));
    return text;
  }

  std::string totals() const {
    std::string text;
    const auto add = [&](std::string_view what, uint64_t bytes) {
      if (bytes > 0) text += fmt::format("{}{} {}", text.empty() ? "" : " · ", what, size(bytes));
    };
    if (heap_is_counted_) add("host heap in usable bytes", page_.heap.peak);
    add("pinned", page_.pinned.peak);
    add("managed", page_.managed.peak);
    add("RSS", page_.rss_peak_bytes);
    return text;
  }

  const gpupeak_counters_page& page_;
  const gpupeak_file_header& header_;
  const uint64_t log_bytes_;
  const TextStyle& style_;
  const bool heap_is_counted_;
  std::vector<uint32_t> used_;  // devices that had memory
};

}  // namespace

void write_short(const Summary& summary, std::ostream& out, const TextStyle& style) {
  ShortSummary(summary, style).write(out);
}

void write_counters(const LogHead& log, const std::string& path, std::ostream& out,
                    const TextStyle& style) {
  Counters(log, style).write(path, out);
}

}  // namespace gpupeak::collector
