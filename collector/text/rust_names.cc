#include "collector/text/rust_names.h"

#include <algorithm>
#include <array>

#include "collector/text/brackets.h"

namespace gpupeak::collector {

std::optional<ImplName> impl_name(std::string_view name) {
  constexpr std::string_view kAs = " as ";
  if (!name.starts_with('<')) return std::nullopt;
  const size_t end = after_bracket(name, 0);
  if (end == std::string_view::npos || !name.substr(end).starts_with("::")) return std::nullopt;
  const std::string_view inside = name.substr(1, end - 2);
  size_t at = 0;
  while (at < inside.size() && !inside.substr(at).starts_with(kAs)) {
    const size_t next = opens_bracket(inside[at]) ? after_bracket(inside, at) : at + 1;
    at = std::min(next, inside.size());
  }
  const std::string_view trait = inside.substr(std::min(at + kAs.size(), inside.size()));
  return ImplName{inside.substr(0, at), trait, name.substr(end)};
}

std::string_view type_sigils(std::string_view type) {
  static constexpr std::array<std::string_view, 5> kSigils{"&", "mut ", "*const ", "*mut ", "dyn "};
  size_t size = 0;
  for (;;) {
    const std::string_view rest = type.substr(size);
    const auto* const sigil =
        std::find_if(kSigils.begin(), kSigils.end(),
                     [&](std::string_view one) { return rest.starts_with(one); });
    if (sigil == kSigils.end()) return type.substr(0, size);
    size += sigil->size();
  }
}

bool is_type_path(std::string_view type) {
  return type.starts_with('<') || type.find("::") < type.find_first_of("<([{ ");
}

std::string_view type_path(std::string_view type) {
  std::string_view bare = type.substr(type_sigils(type).size());
  while (const std::optional<ImplName> around = impl_name(bare)) {
    bare = around->type.substr(type_sigils(around->type).size());
  }
  return is_type_path(bare) ? bare : "core::primitive";
}

}  // namespace gpupeak::collector
