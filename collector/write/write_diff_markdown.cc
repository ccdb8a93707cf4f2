#include "collector/write/write_diff_markdown.h"

#include <fmt/format.h>

#include "collector/summary/change_text.h"
#include "collector/summary/diff.h"
#include "collector/summary/run_text.h"
#include "collector/text/text_format.h"
#include "collector/write/write_metrics.h"

namespace gpupeak::collector {
namespace {

/// The text as code, so that no name is taken for Markdown or HTML.
std::string as_code(const std::string& text) {
  std::string fence = "`";
  while (text.find(fence) != std::string::npos) fence += '`';
  std::string shown;
  for (const char c : text) {
    if (c == '|') shown += '\\';  // ends a cell, even within code
    shown += c == '\n' ? ' ' : c;
  }
  const bool needs_space = shown.starts_with('`') || shown.ends_with('`');
  return fence + (needs_space ? " " : "") + shown + (needs_space ? " " : "") + fence;
}

/// Whether the scope is one device or the host. Scopes of a kind are not shown, since they repeat
/// rows of the whole.
bool is_main(const std::string& scope) {
  return scope.find('/') == std::string::npos && scope != "total";
}

void write_losses_of(const char* which, const Summary& summary, std::ostream& out) {
  if (summary.quality.exact && summary.quality.log_complete) return;
  out << "> ⚠️ " << which << ": " << as_code(losses_text(summary.quality)) << "\n\n";
}

}  // namespace

void write_diff_markdown(const Summary& a, const Summary& b, size_t top, std::ostream& out) {
  const Diff found = diff(a, b);
  out << "### Peak memory of " << as_code(program_of(b)) << "\n\n";
  write_losses_of("before", a, out);
  write_losses_of("after", b, out);
  out << "| | before | after | change |\n|---|--:|--:|--:|\n";
  for (const PeakDiff& peak : found.peaks) {
    if (!is_main(peak.scope)) continue;
    const bool both = peak.a_bytes && peak.b_bytes;
    const std::string percent = both ? change_percent(*peak.a_bytes, *peak.b_bytes) : "";
    out << fmt::format("| {} | {} | {} | {} |\n", as_code(peak.scope), size_text(peak.a_bytes, {}),
                       size_text(peak.b_bytes, {}),
                       !both ? "not measured in both"
                       : *peak.a_bytes == *peak.b_bytes
                           ? "none"
                           : change_size(*peak.a_bytes, *peak.b_bytes, {}) +
                                 (percent.empty() ? "" : " (" + percent + ")"));
  }
  for (const PeakDiff& peak : found.peaks) {
    if (!is_main(peak.scope) || !peak.a_bytes || !peak.b_bytes || *peak.a_bytes == *peak.b_bytes)
      continue;
    out << "\nWhat changed most in " << as_code(peak.scope) << ":\n";
    size_t shown = 0;
    for (const SiteDiff& site : peak.sites) {
      if (shown == top || site.change() == 0) break;
      out << "- " << as_code(change_text(site)) << '\n';
      ++shown;
    }
    if (shown == 0) out << "- no site alone: the baseline lists too few of them\n";
  }
  out << '\n';
}

}  // namespace gpupeak::collector
