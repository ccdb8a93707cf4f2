// What rule files say about names: which virtual function is in which slot of a class, and which
// frames a title leaves out or shows. The rules room reads them from files and hands them to
// Symbolizer.
#pragma once

#include <libelf.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpupeak::collector {

/// The numbers of a version: 1.29.0 is {1, 29, 0}.
using Version = std::vector<uint32_t>;

/// The numbers in a text, without what stands before them ("VERS_1.29.0"); empty if there are none.
Version parse_version(std::string_view text);
/// Negative, 0 or positive. Only as many numbers are compared as `bound` has, so that 1.22.3 is
/// within 1.15 to 1.22.
int compare(const Version& version, const Version& bound);

/// The virtual functions of one class, in some versions of some libraries.
struct ClassRule {
  std::string name;                    ///< demangled
  std::vector<std::string> libraries;  ///< globs of file names
  Version first, last;                 ///< both belong to it; empty: any
  std::vector<std::string> slots;      ///< "~": a destructor; empty: a name that is not known

  bool applies_to(std::string_view library, const Version& version) const;
};

/// The functions of a C API that a library hands out as a table (OrtGetApiBase()->GetApi(…)). It is
/// for all versions, since later ones only append to the table.
struct TableRule {
  struct Function {
    uint32_t slot = 0;  ///< in the table, from 0 on
    std::string name;
    Version since;  ///< the first version that has it; empty: all
  };

  std::string name;                    ///< what a title has before "::" and the function's name
  std::vector<std::string> libraries;  ///< globs of file names
  std::string entry;                   ///< the exported function that returns the table
  /// If set, `entry` returns another table, whose function in this slot returns the API's table.
  std::optional<uint32_t> through;
  std::vector<Function> functions;

  bool applies_to(std::string_view library) const;
};

/// Matches frames by globs. One of each list has to match; an empty list matches all.
struct FrameGlobs {
  std::vector<std::string> functions;  ///< demangled, without parameters
  std::vector<std::string> modules;    ///< the file's name without its folder

  bool matches(std::string_view module, std::string_view function) const;
};

struct NameRules {
  std::vector<ClassRule> classes;
  std::vector<TableRule> tables;
  std::vector<FrameGlobs> plumbing;   ///< code that only passes an allocation on
  std::vector<FrameGlobs> landmarks;  ///< frames that a title shows wherever they are in the stack

  /// `function` empty: it is not known.
  bool is_plumbing(std::string_view module, std::string_view function) const;
  /// For a Python source file, whatever its function: globs of native functions' names mean nothing
  /// there.
  bool is_plumbing_file(std::string_view file) const;
  bool is_landmark(std::string_view module, std::string_view function) const;
  void append(const NameRules& more);
};

// Finds the functions of a C API that a stripped library hands out as a table:
//
//   OrtGetApiBase:  lea rax, [base]; ret          base:   GetApi, GetVersionString
//   GetApi:         … lea rax, [table]; … ret     table:  CreateStatus, …, CreateSession, …
//
// The exported function has a name, and the words of tables are relocated. The file only does not
// tell which slot is which function: a rule tells that. ModuleSymbols asks for the names.
struct ApiFunction {
  uint64_t begin, end;
  std::string name;  ///< with the rule's name in front: "OrtApis::CreateSession"
};

/// The functions by address. `entry`: the address of the rule's exported function. Empty if the
/// table is not found for certain. A function that is in several slots is left out.
std::vector<ApiFunction> api_functions(Elf* elf, const TableRule& rule, uint64_t entry);

}  // namespace gpupeak::collector
