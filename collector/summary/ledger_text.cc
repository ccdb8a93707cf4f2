#include "collector/summary/ledger_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "collector/text/text_format.h"

namespace gpupeak::collector {

std::string ledger_cause_text(const std::string& cause) {
  if (cause == "start") return "in use before (driver, other processes)";
  if (cause == "start_and_context") return "in use before, and context";
  if (cause == "external") return "other processes since";
  if (cause == "others_and_context") return "other processes, and context and code";
  if (cause == "host") return "the program's host memory, which is of the same";
  if (cause == "managed") return "managed memory, as far as it is on the device";
  std::string text = cause;
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

std::string ledger_sum_text(const LedgerView& view, uint64_t least, const TextStyle& style) {
  std::string text = fmt::format("{}: {} handed out", size_text(view.used_bytes, style),
                                 size_text(view.tracked_bytes, style));
  for (const LedgerRow& row : view.rows) {
    const auto size = static_cast<uint64_t>(std::llabs(row.bytes));
    if (size == 0 || (size < least && row.cause != "unexplained")) continue;
    text += fmt::format(" {} {} {}", row.bytes < 0 ? "-" : "+", size_text(size, style),
                        ledger_cause_text(row.cause));
  }
  return text + others_text(view, style);
}

std::string others_text(const LedgerView& view, const TextStyle& style) {
  if (!view.of_process || view.others_bytes.value_or(0) == 0) return "";
  return fmt::format("; others {}{}; in all {} of the card", size_text(*view.others_bytes, style),
                     others_list(view, style), size_text(view.card_used_bytes, style));
}

std::string others_list(const LedgerView& view, const TextStyle& style) {
  constexpr size_t kMostShown = 3;
  std::string text;
  for (size_t i = 0; i < std::min(kMostShown, view.others.size()); ++i) {
    const LedgerProcess& other = view.others[i];
    text += fmt::format("{} pid {}{}{}{} {}", i == 0 ? ":" : ",", other.pid,
                        other.name.empty() ? "" : " ", other.name,
                        other.of_run ? " of this run" : "", size_text(other.bytes, style));
  }
  return text + (view.others.size() > kMostShown ? ", …" : "");
}

bool is_of_peak(const LedgerView& view, const Peak* peak) {
  return peak != nullptr && view.tracked_bytes >= peak->bytes;
}

std::string ledger_nearness_text(const LedgerView& view, const Peak* peak, const TextStyle& style) {
  if (view.by_failed_call)
    return fmt::format("when an allocation failed, {}", instant(view.time_ns));
  if (peak == nullptr) return fmt::format("read at {}", instant(view.time_ns));
  if (is_of_peak(view, peak)) return fmt::format("at the peak, {}", instant(view.time_ns));
  const bool before = view.time_ns < peak->time_ns;
  const std::string apart =
      duration(before ? peak->time_ns - view.time_ns : view.time_ns - peak->time_ns);
  return fmt::format("read {} {} the peak, when {} of {} were handed out", apart,
                     before ? "before" : "after", size_text(view.tracked_bytes, style),
                     size_text(peak->bytes, style));
}

std::string ledger_percent(const LedgerView& view, int64_t bytes) {
  return percent(static_cast<uint64_t>(std::llabs(bytes)), view.used_bytes);
}

}  // namespace gpupeak::collector
