#include "collector/text/function_names.h"

#include <cxxabi.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>

namespace gpupeak::collector {
namespace {

constexpr size_t kMaxTemplateArguments = 20;  // characters
constexpr size_t kMaxNames = 3;

bool starts_with_any(std::string_view text, const auto& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](std::string_view prefix) { return text.starts_with(prefix); });
}

constexpr std::string_view kAnonymous = "(anonymous namespace)";
constexpr std::string_view kLambda = "{lambda(";

/// The end of the bracket that opens at `at`, after its closing partner; npos if there is none.
size_t after_bracket(std::string_view text, size_t at) {
  int depth = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    const bool arrow_or_shift = (c == '>' || c == '<') && at > 0 &&
                                (text[at - 1] == '-' || text.substr(0, at).ends_with("operator"));
    if (arrow_or_shift) continue;
    if (c == '(' || c == '<' || c == '{' || c == '[') ++depth;
    if (c == ')' || c == '>' || c == '}' || c == ']') --depth;
    if (depth == 0) return at + 1;
  }
  return std::string_view::npos;
}

}  // namespace

/// Cuts the parameters off at the end and the return type at the front.
std::string_view without_signature(std::string_view text) {
  size_t name_begin = 0;
  size_t at = 0;
  while (at < text.size()) {
    const std::string_view rest = text.substr(at);
    if (rest.starts_with("operator")) {
      size_t skip = std::string_view("operator").size();
      if (rest.substr(skip).starts_with("()")) skip += 2;
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
      // A function inside a function: "f(int)::local::g()"; go on behind its parameters.
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
  if (!name.starts_with("_Z")) return name;
  int status = 0;
  const std::unique_ptr<char, decltype(&free)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), &free);
  return status == 0 && text ? text.get() : name;
}

std::string short_function_name(std::string_view function) {
  const std::string_view name = without_signature(function);
  std::string out;
  std::array<size_t, kMaxNames> name_starts{};  // where the last names begin in `out`
  const auto begin_name = [&] {
    std::copy(name_starts.begin() + 1, name_starts.end(), name_starts.begin());
    name_starts.back() = out.size();
  };
  for (size_t at = 0; at < name.size();) {
    const std::string_view rest = name.substr(at);
    if (rest.starts_with("operator")) {
      out += rest;
      break;
    }
    if (rest.starts_with("::")) {
      out += "::";
      at += 2;
      begin_name();
      continue;
    }
    if (rest.starts_with(kAnonymous) && rest.substr(kAnonymous.size()).starts_with("::")) {
      at += kAnonymous.size() + 2;
      continue;
    }
    const char c = name[at];
    if (c == '<' || c == '(' || c == '{') {
      const size_t end = std::min(after_bracket(name, at), name.size());
      const std::string_view inside = name.substr(at, end - at);
      const bool is_name = c == '{' && !inside.starts_with(kLambda);
      if (inside.size() <= kMaxTemplateArguments || is_name) {
        out += inside;
      } else if (c == '{') {
        out += "{lambda}";
      } else {
        out += c == '<' ? "<…>" : "(…)";
      }
      at = end;
      continue;
    }
    out += c;
    ++at;
  }
  return out.substr(name_starts.front());
}

bool is_plumbing(std::string_view module, std::string_view function) {
  static constexpr std::array<std::string_view, 6> kModules{
      "libgpupeak", "libcuda.so", "libcudart", "libstdc++.so", "libc++.so", "libc++abi.so"};
  static constexpr std::array<std::string_view, 3> kLibc{"libc.so", "libc-2", "ld-linux"};
  static constexpr std::array<std::string_view, 11> kPrefixes{
      "operator new", "std::", "__gnu_cxx::", "__cxxabi", "cudaMalloc", "cudaHostAlloc",
      "cudaFree",     "cuMem", "__cuda",      "PyMem_",   "_PyMem_"};
  static constexpr std::array<std::string_view, 26> kNames{"malloc",
                                                           "calloc",
                                                           "realloc",
                                                           "reallocarray",
                                                           "posix_memalign",
                                                           "aligned_alloc",
                                                           "memalign",
                                                           "valloc",
                                                           "pvalloc",
                                                           "strdup",
                                                           "mmap",
                                                           "mmap64",
                                                           "xmalloc",
                                                           "xcalloc",
                                                           "xrealloc",
                                                           "xstrdup",
                                                           "g_malloc",
                                                           "g_malloc0",
                                                           "g_realloc",
                                                           "__libc_malloc",
                                                           "PyObject_Malloc",
                                                           "PyObject_Calloc",
                                                           "PyObject_Realloc",
                                                           "_PyObject_Malloc",
                                                           "_PyObject_Calloc",
                                                           "_PyObject_Realloc"};
  if (starts_with_any(module, kModules)) return true;
  if (function.empty()) return starts_with_any(module, kLibc);
  const std::string_view name = without_signature(function);
  return starts_with_any(name, kPrefixes) ||
         std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

bool is_python_interpreter(std::string_view module, std::string_view function) {
  static constexpr std::array<std::string_view, 5> kModules{"libpython", "python3", "python",
                                                            "_ctypes.", "libffi.so"};
  static constexpr std::array<std::string_view, 8> kPrefixes{
      "_Py",      "Py_",          "PyObject_", "PyEval_", "cfunction_", "method_vectorcall",
      "slot_tp_", "object_vacall"};
  return starts_with_any(module, kModules) || starts_with_any(function, kPrefixes);
}

bool is_installed_python(std::string_view file) {
  static constexpr std::array<std::string_view, 3> kFolders{"/site-packages/", "/dist-packages/",
                                                            "/lib/python3"};
  return file.starts_with("<frozen ") ||
         std::any_of(kFolders.begin(), kFolders.end(), [&](std::string_view folder) {
           return file.find(folder) != std::string_view::npos;
         });
}

bool is_start_code(std::string_view function) {
  static constexpr std::array<std::string_view, 8> kNames{
      "_start", "__libc_start_main", "start_thread", "clone",
      "clone3", "__clone3",          "call_init",    "__libc_csu_init"};
  return function.starts_with("__libc_start_") ||
         std::find(kNames.begin(), kNames.end(), function) != kNames.end();
}

}  // namespace gpupeak::collector
