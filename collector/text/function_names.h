// Tells what names of functions mean, and shortens them. Symbolizer and attribution use it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpupeak::collector {

// Where the name of a function is from. Frames of a summary and files of symbols have it.

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
  kPlan,       ///< what a model's first run asked for, by the framework's rule (onnx_runtime.h)
  kPerfMap,    ///< what the program's runtime wrote of code that it made (log_reader.cc)
};

/// The names in JSON.
inline constexpr std::array<std::string_view, 11> kNameSources{
    "",       "symtab",    "dynsym", "dwarf", "debugdata", "rtti",
    "python", "api_table", "model",  "plan",  "perf_map"};

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

/// Between the names of one code, where nothing tells which of the functions it was.
inline constexpr std::string_view kOr = " or ";

/// The demangled form, or the name itself if it is no mangled name of C++ or Rust.
std::string demangle(const std::string& name);

/// "int f<int>(char)" → "f<int>": without parameters and return type.
std::string_view without_signature(std::string_view function);

/// For titles: without parameters, return type and anonymous namespaces, with long template
/// arguments as <…>, and at most the last three names of a qualified one. Rust's `<a::T as
/// b::Trait>::f` becomes `<T as Trait>::f`.
std::string short_function_name(std::string_view function);

/// A module of this name is the preload itself.
inline constexpr std::string_view kOwnModule = "libgpupeak";

/// Whether it is an allocator's own code, or code that only passes an allocation on: malloc and its
/// family, operator new, the standard library, the CUDA runtime, Python's object allocators. A site
/// is named after the first frame that is none of these.
bool is_plumbing(std::string_view module, std::string_view function);

/// Whether it is the Python interpreter's own native code, the code by which it calls C functions,
/// NumPy's core, or a Python module without names. Where a stack has Python frames, those say more.
bool is_python_interpreter(std::string_view module, std::string_view function);

/// Whether a script (Python, JavaScript) is part of an installed package or of Python itself, by
/// its path.
bool is_installed_script(std::string_view file);

/// Whether it runs before main or before a thread's function: a title does not need it.
bool is_start_code(std::string_view function);

// Brackets in names of C++ and Rust functions.

/// Has the place of a name, and is not taken for a bracket.
inline constexpr std::string_view kAnonymous = "(anonymous namespace)";

inline bool opens_bracket(char c) {
  return c == '(' || c == '<' || c == '{' || c == '[';
}

/// The place behind the closing partner of the bracket at `at`; npos: it has none.
inline size_t after_bracket(std::string_view text, size_t at) {
  int depth = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    const bool arrow_or_shift = (c == '>' || c == '<') && at > 0 &&
                                (text[at - 1] == '-' || text.substr(0, at).ends_with("operator"));
    if (arrow_or_shift) continue;
    if (opens_bracket(c)) ++depth;
    if (c == ')' || c == '>' || c == '}' || c == ']') --depth;
    if (depth == 0) return at + 1;
  }
  return std::string_view::npos;
}

// Takes names of Rust methods apart. Titles and the rules about plumbing use it.

/// `<T as Trait>::f`, or `<T>::f` without a trait.
struct ImplName {
  std::string_view type;   ///< T as the name has it
  std::string_view trait;  ///< empty: it is the type's own function
  std::string_view rest;   ///< "::f"
};

/// nullopt if it is no such name. C++ names never begin like this.
std::optional<ImplName> impl_name(std::string_view name);

/// The path that tells which crate a type or a trait is from. For a type within a method
/// (`<a::B>::f::C`) it is the path of the method's type; for built-in types core::primitive.
std::string_view type_path(std::string_view type);

// Demangles names of functions and types, in bounded time and space for any name. function_names.cc
// and RttiNames call it.

/// For both manglings of Rust, v0 and the legacy one; the result has no hashes. nullopt if it is no
/// Rust name, or if this build has no libiberty. A very long name ends in "…".
std::optional<std::string> rust_demangle(const std::string& name);

/// For C++ names as the Itanium ABI mangles them: a function's (_Z…), or a type's as std::type_info
/// has it. nullopt if it is no such name, or would take too long. A very long name ends in "…".
std::optional<std::string> cpp_demangle(const std::string& name);

/// The most back references that a name can have: each may double what is printed.
size_t back_references(const std::string& name);

// Gives functions texts that tell them apart, where their short names would be equal:
// instantiations of a template, overloads. Titles of sites and calls use it.

/// A text for each function, in the same order: its short name. If short names are equal, they get
/// as much of their template arguments as tells them apart; if that is not enough, of their
/// parameters, then of their namespaces, and at last all. Equal functions have equal texts.
///
///   void load<std::vector<float>>(unsigned long)   → load<vector<float>>
///   void load<std::vector<double>>(unsigned long)  → load<vector<double>>
std::vector<std::string> names_apart(const std::vector<std::string_view>& functions);

/// Shortens the inside of a bracket of template arguments to at most `most` characters: without
/// namespaces and default arguments of the standard library, and if need be without inner brackets.
/// Empty if it is still longer.
std::string short_arguments(std::string_view inside, size_t most);

// Finds texts that are equal though they stand for different things. Names of functions and titles
// of frames use it.

/// Groups of indexes whose texts are equal, if `same(i, j)` is not true for all of a group.
template <typename Same>
std::vector<std::vector<size_t>> alike(const std::vector<std::string>& texts, const Same& same) {
  std::map<std::string_view, std::vector<size_t>> by_text;
  for (size_t i = 0; i < texts.size(); ++i) by_text[texts[i]].push_back(i);
  std::vector<std::vector<size_t>> groups;
  for (auto& [text, group] : by_text) {
    const size_t first = group.front();
    if (!std::ranges::all_of(group, [&](size_t i) { return same(i, first); }))
      groups.push_back(std::move(group));
  }
  return groups;
}

}  // namespace gpupeak::collector
