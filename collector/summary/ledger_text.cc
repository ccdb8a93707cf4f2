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
  std::string text = cause;
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

std::string ledger_sum_text(const LedgerView& view, uint64_t least, int digits) {
  std::string text = fmt::format("{} MiB: {} tracked", mib(view.used_bytes, digits),
                                 mib(view.tracked_bytes, digits));
  for (const LedgerRow& row : view.rows) {
    const auto size = static_cast<uint64_t>(std::llabs(row.bytes));
    if (size < std::max<uint64_t>(least, 1) && row.cause != "unexplained") continue;
    text += fmt::format(" {} {} {}", row.bytes < 0 ? "−" : "+", mib(size, digits),
                        ledger_cause_text(row.cause));
  }
  return text;
}

}  // namespace gpupeak::collector
