#include "collector/summary/role_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "collector/text/function_names.h"
#include "collector/text/title_text.h"

namespace gpupeak::collector {
namespace {

/// Kernels by what they do with the buffer: "read by a, b".
void add_kernels(const BufferRole& role, size_t most, std::vector<std::string>& texts) {
  struct Use {
    std::string name;
    bool reads = false, writes = false;
  };
  std::vector<Use> uses;
  for (const BufferRole::Kernel& kernel : role.kernels) {
    std::string name = kernel.library.empty() ? short_function_name(kernel.name) : kernel.library;
    auto use = std::find_if(uses.begin(), uses.end(), [&](const Use& u) { return u.name == name; });
    if (use == uses.end()) use = uses.insert(uses.end(), Use{std::move(name)});
    use->reads |= kernel.access == KernelAccess::kRead;
    use->writes |= kernel.access == KernelAccess::kWritten;
  }
  const size_t shown = std::min(most, uses.size());
  const auto add = [&](std::string_view verb, bool reads, bool writes) {
    std::vector<std::string> names;
    for (size_t i = 0; i < shown; ++i) {
      if (uses[i].reads == reads && uses[i].writes == writes) names.push_back(uses[i].name);
    }
    if (!names.empty()) texts.push_back(fmt::format("{} {}", verb, fmt::join(names, ", ")));
  };
  add("written by", false, true);
  add("read and written by", true, true);
  add("read by", true, false);
  add("given to", false, false);
  if (shown < uses.size())
    texts.push_back(
        fmt::format("{} more kernel{}", uses.size() - shown, uses.size() - shown == 1 ? "" : "s"));
}

}  // namespace

std::string role_text(const Holder& row, size_t kernels, const TextStyle& style) {
  if (!row.role) return "";
  const BufferRole& role = *row.role;
  std::vector<std::string> texts;
  if (role.copied_in > 0) texts.emplace_back("copied in");
  if (role.copied_to > 0) texts.emplace_back("copied to from other memory");
  if (role.filled > 0) texts.emplace_back("filled");
  add_kernels(role, kernels, texts);
  if (role.textures > 0) texts.emplace_back("a texture or surface");
  if (role.copied_from > 0) texts.emplace_back("copied to other memory");
  if (role.copied_out > 0) texts.emplace_back("copied out");
  if (role.passed_on) texts.emplace_back("passed on");
  if (!role.was_seen_used() && !role.passed_on) {
    texts.emplace_back("never seen used");
  } else if (role.unused_bytes > 0) {
    texts.push_back(size_text(role.unused_bytes, style) + " never seen used");
  }
  return fmt::format("{}", fmt::join(texts, " · "));
}

std::string role_mark(const Holder& row, size_t width, const TextStyle& style) {
  const std::string text = role_text(row, kFewKernels, style);
  return text.empty() ? "" : "   " + cut(text, width / 2, style);
}

std::string role_note(const Peak& peak, size_t rows) {
  for (size_t i = 0; i < std::min(rows, peak.holders.size()); ++i) {
    const Holder& row = peak.holders[i];
    if (row.role && row.role->unused_bytes > 0)
      return "never seen used: by no copy, fill or launch; a kernel may still read it by a pointer "
             "that it found in memory";
  }
  return "";
}

}  // namespace gpupeak::collector
