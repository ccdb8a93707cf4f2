#include "collector/text/function_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "collector/text/name_match.h"

namespace gpupeak::collector {
namespace {

constexpr size_t kMaxTemplateArguments = 20;  // most characters, with brackets

bool starts_with_any(std::string_view text, const auto& prefixes) {
  return std::ranges::any_of(prefixes,
                             [&](std::string_view prefix) { return text.starts_with(prefix); });
}

constexpr std::string_view kLambda = "{lambda(";

/// Rust's v0 mangling has `<a::B>::f`. Everybody else writes a::B::f.
std::string without_brackets(const std::string& name) {
  const std::optional<ImplName> impl = impl_name(name);
  if (!impl || !impl->trait.empty() || !is_type_path(impl->type)) return name;
  return fmt::format("{}{}", impl->type, impl->rest);
}

/// The arguments, shortened; `<…>` if even their beginnings are too long.
std::string short_template_arguments(std::string_view bracket) {
  const std::string text =
      short_arguments(bracket.substr(1, bracket.size() - 2), kMaxTemplateArguments - 2);
  return "<" + (text.empty() ? "…" : text) + ">";
}

bool begins_anonymous(std::string_view text) {
  return text.starts_with(kAnonymous) && text.substr(kAnonymous.size()).starts_with("::");
}

/// A name without parameters and long template arguments.
std::string shortened(std::string_view name) {
  std::string out;
  for (size_t at = 0; at < name.size();) {
    const std::string_view rest = name.substr(at);
    if (operator_length(rest) > 0) {
      out += rest;
      break;
    }
    if (begins_anonymous(rest)) {
      at += kAnonymous.size() + 2;
      continue;
    }
    const char c = name[at];
    if (c == '<' || c == '(' || c == '{') {
      const size_t end = std::min(after_bracket(name, at), name.size());
      const std::string_view inside = name.substr(at, end - at);
      const bool is_name = c == '{' && !inside.starts_with(kLambda);
      const bool qualified = c == '<' && inside.find("::") != std::string_view::npos;
      if ((inside.size() <= kMaxTemplateArguments && !qualified) || is_name) {
        out += inside;
      } else if (c == '{') {
        out += "{lambda}";
      } else if (c == '<') {
        out += short_template_arguments(inside);
      } else {
        out += "(…)";
      }
      at = end;
      continue;
    }
    out += c;
    ++at;
  }
  return out;
}

/// For Rust: `&mut a::b::C<D>` → `&mut C<D>`.
std::string short_type(std::string_view type) {
  const std::string_view sigils = type_sigils(type);
  const std::string_view bare = type.substr(sigils.size());
  const bool whole = !is_type_path(bare) && bare.size() <= kMaxTemplateArguments;
  if (whole) return std::string(type);
  return std::string(sigils) + (is_type_path(bare) ? shortened(last_names(bare, 1)) : "…");
}

}  // namespace

size_t operator_length(std::string_view text) {
  constexpr std::string_view kOperator = "operator";
  if (!text.starts_with(kOperator) || text.size() == kOperator.size()) return 0;
  size_t length = kOperator.size();
  const auto next = [&] { return length < text.size() ? text[length] : '\0'; };
  if (std::isalnum(static_cast<unsigned char>(next())) != 0 || next() == '_' || next() == ':')
    return 0;
  if (text.substr(length).starts_with("()")) return length + 2;
  while (next() != '\0' && std::string_view("<>=-+*/%^&|~!,[]").find(next()) != std::string::npos)
    ++length;
  return length;
}

std::string_view last_names(std::string_view name, size_t most) {
  std::array<size_t, kTitleNames> starts{};
  for (size_t at = 0; at < name.size();) {
    const std::string_view rest = name.substr(at);
    if (operator_length(rest) > 0) break;
    if (begins_anonymous(rest)) {
      at += kAnonymous.size() + 2;
    } else if (opens_bracket(name[at])) {
      at = std::min(after_bracket(name, at), name.size());
    } else if (rest.starts_with("::")) {
      at += 2;
      if (rest.starts_with("::<")) continue;  // Rust's arguments belong to the name in front
      std::copy(starts.begin() + 1, starts.end(), starts.begin());
      starts.back() = at;
    } else {
      ++at;
    }
  }
  return name.substr(starts[kTitleNames - most]);
}

/// Cuts the parameters off at the end and the return type at the front.
std::string_view without_signature(std::string_view text) {
  size_t name_begin = 0;
  size_t at = 0;
  while (at < text.size()) {
    const std::string_view rest = text.substr(at);
    if (size_t skip = operator_length(rest)) {
      while (skip < rest.size() && rest[skip] != '(') ++skip;  // "operator new[]", "operator<<"
      at += skip;
      continue;
    }
    if (rest.starts_with(kAnonymous)) {
      at += kAnonymous.size();
      continue;
    }
    const char c = text[at];
    if (c == '(') {
      // A function inside a function, "f(int)::local::g()": goes on behind the parameters.
      const size_t end = after_bracket(text, at);
      if (end == std::string_view::npos) return text.substr(name_begin, at - name_begin);
      std::string_view behind = text.substr(end);
      if (behind.starts_with(" const")) behind.remove_prefix(6);
      if (!behind.starts_with("::")) return text.substr(name_begin, at - name_begin);
      at = end;
      continue;
    }
    if (c == '<' || c == '{' || c == '[') {
      const size_t end = after_bracket(text, at);
      if (end == std::string_view::npos) break;
      at = end;
      continue;
    }
    if (c == ' ') name_begin = at + 1;
    ++at;
  }
  return text.substr(name_begin);
}

std::string demangle(const std::string& name) {
  if (const std::optional<std::string> rust = rust_demangle(name)) return without_brackets(*rust);
  return name.starts_with("_Z") ? cpp_demangle(name).value_or(name) : name;
}

size_t back_references(const std::string& name) {
  size_t count = 0;
  for (size_t i = 0; i + 1 < name.size(); ++i) {
    const char next = name[i + 1];
    const bool is_number =
        next == '_' || (next >= '0' && next <= '9') || (next >= 'A' && next <= 'Z');
    count += (name[i] == 'S' || name[i] == 'T') && is_number ? 1 : 0;
  }
  return count;
}

std::string short_function_name(std::string_view function) {
  if (const size_t at = function.find(kOr); at != function.npos) {
    return short_function_name(function.substr(0, at)) + std::string(kOr) +
           short_function_name(function.substr(at + kOr.size()));
  }
  const std::string_view name = without_signature(function);
  const std::optional<ImplName> impl = impl_name(name);
  if (!impl || impl->trait.empty()) return shortened(last_names(name));
  return fmt::format("<{} as {}>{}", short_type(impl->type), short_type(impl->trait),
                     shortened(last_names(impl->rest)));
}

bool is_plumbing(std::string_view module, std::string_view function) {
  static constexpr std::array<std::string_view, 6> kModules{
      "libgpupeak", "libcuda.so", "libcudart", "libstdc++.so", "libc++.so", "libc++abi.so"};
  static constexpr std::array<std::string_view, 3> kLibc{"libc.so", "libc-2", "ld-linux"};
  static constexpr std::array<std::string_view, 11> kPrefixes{
      "operator new", "std::", "__gnu_cxx::", "__cxxabi", "cudaMalloc", "cudaHostAlloc",
      "cudaFree",     "cuMem", "__cuda",      "PyMem_",   "_PyMem_"};
  static constexpr std::string_view kNames =
      "malloc calloc realloc reallocarray posix_memalign aligned_alloc memalign valloc pvalloc "
      "strdup mmap mmap64 xmalloc xcalloc xrealloc xstrdup g_malloc g_malloc0 g_realloc "
      "__libc_malloc PyObject_Malloc PyObject_Calloc PyObject_Realloc _PyObject_Malloc "
      "_PyObject_Calloc _PyObject_Realloc";
  if (starts_with_any(module, kModules)) return true;
  if (function.empty()) return starts_with_any(module, kLibc);
  const std::string_view name = without_signature(function);
  return starts_with_any(name, kPrefixes) || is_word_of(kNames, name);
}

bool is_python_interpreter(std::string_view module, std::string_view function) {
  // _multiarray_umath is NumPy's core, which all its functions call to make an array.
  static constexpr std::array<std::string_view, 6> kModules{
      "libpython", "python3", "python", "_ctypes.", "libffi.so", "_multiarray_umath."};
  static constexpr std::array<std::string_view, 8> kPrefixes{
      "_Py",      "Py_",          "PyObject_", "PyEval_", "cfunction_", "method_vectorcall",
      "slot_tp_", "object_vacall"};
  // A Python module without names says no more than the Python line that calls it.
  const bool nameless_module = function.empty() && (module.find(".cpython-") != module.npos ||
                                                    module.find(".abi3.so") != module.npos);
  return nameless_module || starts_with_any(module, kModules) ||
         starts_with_any(function, kPrefixes);
}

bool is_installed_script(std::string_view file) {
  static constexpr std::array<std::string_view, 4> kFolders{"/site-packages/", "/dist-packages/",
                                                            "/lib/python3", "/node_modules/"};
  return file.starts_with("<frozen ") ||
         std::ranges::any_of(kFolders, [&](std::string_view folder) {
           return file.find(folder) != std::string_view::npos;
         });
}

bool is_start_code(std::string_view function) {
  static constexpr std::array<std::string_view, 8> kNames{
      "_start", "__libc_start_main", "start_thread", "clone",
      "clone3", "__clone3",          "call_init",    "__libc_csu_init"};
  // Rust's start code of a program and of a thread.
  static constexpr std::array<std::string_view, 4> kPrefixes{
      "__libc_start_", "std::rt::lang_start", "std::sys::backtrace::__rust_begin_short_backtrace",
      "std::sys_common::backtrace::__rust_begin_short_backtrace"};
  return starts_with_any(function, kPrefixes) ||
         std::find(kNames.begin(), kNames.end(), function) != kNames.end();
}

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
        std::ranges::find_if(kSigils, [&](std::string_view one) { return rest.starts_with(one); });
    if (sigil == kSigils.end()) return type.substr(0, size);
    size += sigil->size();
  }
}

bool is_type_path(std::string_view type) {
  return type.starts_with('<') || type.find("::") < type.find_first_of("<([{ ");
}

std::string_view type_path(std::string_view type) {
  std::string_view bare = type.substr(type_sigils(type).size());
  while (const std::optional<ImplName> around = impl_name(bare))
    bare = around->type.substr(type_sigils(around->type).size());
  return is_type_path(bare) ? bare : "core::primitive";
}

}  // namespace gpupeak::collector
