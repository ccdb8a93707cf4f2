// What rule files say about names: which virtual function is in which slot of a class, and which
// frames a title passes over or shows. The rules room reads them, Symbolizer is handed them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpupeak::collector {

/// Numbers of a version, 1.29.0 as {1, 29, 0}.
using Version = std::vector<uint32_t>;

/// The numbers behind whatever precedes them ("VERS_1.29.0"); empty if there are none.
Version parse_version(std::string_view text);

/// The virtual functions of one class, in some versions of some libraries.
struct ClassRule {
  std::string name;                    ///< demangled
  std::vector<std::string> libraries;  ///< globs of file names
  Version first, last;                 ///< both included; empty: any
  std::vector<std::string> slots;      ///< "~": a destructor; empty: a name that is not known

  bool applies_to(std::string_view library, const Version& version) const;
};

/// Frames by globs: of each list one has to match, an empty list does not matter.
struct FrameGlobs {
  std::vector<std::string> functions;  ///< demangled, without parameters
  std::vector<std::string> modules;    ///< the file's name without its folder

  bool matches(std::string_view module, std::string_view function) const;
};

struct NameRules {
  std::vector<ClassRule> classes;
  std::vector<FrameGlobs> plumbing;   ///< what merely passes an allocation on
  std::vector<FrameGlobs> landmarks;  ///< what a title shows wherever it is in the stack

  /// `function` empty: not known.
  bool is_plumbing(std::string_view module, std::string_view function) const;
  bool is_landmark(std::string_view module, std::string_view function) const;
  void append(const NameRules& more);
};

}  // namespace gpupeak::collector
