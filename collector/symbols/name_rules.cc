#include "collector/symbols/name_rules.h"

#include <algorithm>
#include <charconv>

#include "collector/text/function_names.h"
#include "collector/text/glob.h"
#include "collector/text/rust_names.h"

namespace gpupeak::collector {
namespace {

bool any_matches(const std::vector<std::string>& globs, std::string_view text) {
  return std::any_of(globs.begin(), globs.end(),
                     [&](const std::string& glob) { return glob_match(glob, text); });
}

bool any_matches(const std::vector<FrameGlobs>& frames, std::string_view module,
                 std::string_view function) {
  const auto any = [&](std::string_view name) {
    return std::any_of(frames.begin(), frames.end(),
                       [&](const FrameGlobs& globs) { return globs.matches(module, name); });
  };
  const std::string_view name = without_signature(function);
  if (any(name)) return true;
  // `<T as Trait>::f` is in the crate of T or of Trait, so it counts as a part of both.
  const std::optional<ImplName> impl = impl_name(name);
  return impl && any(type_path(impl->type)) && (impl->trait.empty() || any(type_path(impl->trait)));
}

}  // namespace

int compare(const Version& version, const Version& bound) {
  for (size_t i = 0; i < bound.size(); ++i) {
    const uint32_t part = i < version.size() ? version[i] : 0;
    if (part != bound[i]) return part < bound[i] ? -1 : 1;
  }
  return 0;
}

bool FrameGlobs::matches(std::string_view module, std::string_view function) const {
  return (modules.empty() || any_matches(modules, module)) &&
         (functions.empty() || (!function.empty() && any_matches(functions, function)));
}

bool NameRules::is_plumbing(std::string_view module, std::string_view function) const {
  return any_matches(plumbing, module, function);
}

bool NameRules::is_plumbing_file(std::string_view file) const {
  return std::any_of(plumbing.begin(), plumbing.end(), [file](const FrameGlobs& globs) {
    return globs.functions.empty() && any_matches(globs.modules, file);
  });
}

bool NameRules::is_landmark(std::string_view module, std::string_view function) const {
  return any_matches(landmarks, module, function);
}

void NameRules::append(const NameRules& more) {
  classes.insert(classes.end(), more.classes.begin(), more.classes.end());
  tables.insert(tables.end(), more.tables.begin(), more.tables.end());
  plumbing.insert(plumbing.end(), more.plumbing.begin(), more.plumbing.end());
  landmarks.insert(landmarks.end(), more.landmarks.begin(), more.landmarks.end());
}

Version parse_version(std::string_view text) {
  Version version;
  size_t at = text.find_first_of("0123456789");
  while (at < text.size()) {
    uint32_t part = 0;
    const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), part);
    if (error != std::errc()) break;
    version.push_back(part);
    at = static_cast<size_t>(end - text.data());
    if (at >= text.size() || text[at] != '.') break;
    ++at;
  }
  return version;
}

bool ClassRule::applies_to(std::string_view library, const Version& version) const {
  if (!any_matches(libraries, library)) return false;
  if (first.empty() && last.empty()) return true;
  return !version.empty() && compare(version, first) >= 0 && compare(version, last) <= 0;
}

bool TableRule::applies_to(std::string_view library) const {
  return any_matches(libraries, library);
}

}  // namespace gpupeak::collector
