#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "collector/analyze/summary_parts.h"
#include "collector/log/log_head.h"
#include "collector/summary/run_text.h"
#include "collector/summary/verdict.h"
#include "collector/text/text_lines.h"
#include "collector/write/writers.h"

namespace gpupeak::collector {
namespace {

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
    const uint32_t most = *std::ranges::max_element(
        used_, [this](uint32_t a, uint32_t b) { return device_peak(a) < device_peak(b); });
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

void write_counters(const LogHead& log, const std::string& path, std::ostream& out,
                    const TextStyle& style) {
  Counters(log, style).write(path, out);
}

}  // namespace gpupeak::collector
