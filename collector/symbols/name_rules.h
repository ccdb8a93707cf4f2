// What rule files say about names: which virtual function is in which slot of a class, and which
// frames a title passes over or shows. The rules room reads them, Symbolizer is handed them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpupeak::collector {

/// Numbers of a version, 1.29.0 as {1, 29, 0}.
using Version = std::vector<uint32_t>;

/// The numbers behind whatever precedes them ("VERS_1.29.0"); empty if there are none.
Version parse_version(std::string_view text);
/// Negative, 0 or positive; of `bound` only the numbers that it has are compared, so that 1.22.3 is
/// within 1.15 to 1.22.
int compare(const Version& version, const Version& bound);

/// The virtual functions of one class, in some versions of some libraries.
struct ClassRule {
  std::string name;                    ///< demangled
  std::vector<std::string> libraries;  ///< globs of file names
  Version first, last;                 ///< both included; empty: any
  std::vector<std::string> slots;      ///< "~": a destructor; empty: a name that is not known

  bool applies_to(std::string_view library, const Version& version) const;
};

/// The functions of a C API that a library hands out as a table (OrtGetApiBase()->GetApi(…)), in
/// all versions: later ones only append.
struct TableRule {
  struct Function {
    uint32_t slot = 0;  ///< in the table, from 0 on
    std::string name;
    Version since;  ///< the first version that has it; empty: all
  };

  std::string name;                    ///< what stands before "::" and the function's name
  std::vector<std::string> libraries;  ///< globs of file names
  std::string entry;                   ///< the exported function that returns the table
  /// It returns another table, whose function in this slot returns the one that is meant.
  std::optional<uint32_t> through;
  std::vector<Function> functions;

  bool applies_to(std::string_view library) const;
};

/// Frames by globs: of each list one has to match, an empty list does not matter.
struct FrameGlobs {
  std::vector<std::string> functions;  ///< demangled, without parameters
  std::vector<std::string> modules;    ///< the file's name without its folder

  bool matches(std::string_view module, std::string_view function) const;
};

struct NameRules {
  std::vector<ClassRule> classes;
  std::vector<TableRule> tables;
  std::vector<FrameGlobs> plumbing;   ///< what merely passes an allocation on
  std::vector<FrameGlobs> landmarks;  ///< what a title shows wherever it is in the stack

  /// `function` empty: not known.
  bool is_plumbing(std::string_view module, std::string_view function) const;
  /// Of a source file of Python's, whatever its function: native functions' names mean nothing
  /// there.
  bool is_plumbing_file(std::string_view file) const;
  bool is_landmark(std::string_view module, std::string_view function) const;
  void append(const NameRules& more);
};

}  // namespace gpupeak::collector
