// Where the name of a function is from. Frames of a summary and files of symbols have it.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace gpupeak::collector {

enum class NameSource : uint8_t {
  kNone,       ///< no name, or none known
  kSymtab,     ///< the symbol table of the file or of its debug file
  kDynsym,     ///< the symbols that a library exports
  kDwarf,      ///< debug information
  kDebugData,  ///< the small table of symbols within a stripped file (.gnu_debugdata)
  kRtti,       ///< type information: class and virtual function
  kPython,     ///< the interpreter itself
  kApiTable,   ///< the table of a C API, which a rule describes
  kModel,      ///< the file of an ONNX model, by a block's size
  kPlan,       ///< what a model's first run asked for, by the framework's rule (activation_plans.h)
};

/// The names in JSON.
inline constexpr std::array<std::string_view, 10> kNameSources{
    "", "symtab", "dynsym", "dwarf", "debugdata", "rtti", "python", "api_table", "model", "plan"};

constexpr std::string_view name_source_text(NameSource source) {
  return kNameSources[static_cast<size_t>(source)];
}

/// The source with this name; kNone for any other text.
constexpr NameSource parse_name_source(std::string_view text) {
  for (size_t i = 0; i < kNameSources.size(); ++i) {
    if (kNameSources[i] == text) return static_cast<NameSource>(i);
  }
  return NameSource::kNone;
}

}  // namespace gpupeak::collector
