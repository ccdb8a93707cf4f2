#include "collector/text/function_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cctype>

#include "collector/text/lists.h"
#include "collector/text/name_match.h"

namespace gpupeak::collector {
namespace {

constexpr size_t kMaxTemplateArguments = 20;  // most characters, with brackets

bool starts_with_any(std::string_view text, const auto& prefixes) {
  return std::ranges::any_of(prefixes,
                             [&](std::string_view prefix) { return text.starts_with(prefix); });
}

constexpr std::string_view kLambda = "{lambda(";

/// The marks in front of a type's name: "&mut ", "*const ", "dyn ".
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

/// Whether a type without its marks is a path (`a::B<C>`): not built in like `u8`, `[T]`, `(A, B)`,
/// `fn(A)`, and not a parameter's letter.
bool is_type_path(std::string_view type) {
  return type.starts_with('<') || type.find("::") < type.find_first_of("<([{ ");
}

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
  return text.front() == kAnonymous.front() && text.starts_with(kAnonymous) &&
         text.substr(kAnonymous.size()).starts_with("::");
}

/// The length of an operator's name at the beginning of the text ("operator<<", "operator()"; of
/// "operator new" and "operator bool" that of the keyword). 0: there is none.
size_t operator_length(std::string_view text) {
  constexpr std::string_view kOperator = "operator";
  if (text.front() != kOperator.front()) return 0;  // at once, since it is asked for each character
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

constexpr size_t kTitleNames = 3;
/// The last `most` names of a qualified one.
std::string_view last_names(std::string_view name, size_t most = kTitleNames) {
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
      kOwnModule, "libcuda.so", "libcudart", "libstdc++.so", "libc++.so", "libc++abi.so"};
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

std::string_view type_path(std::string_view type) {
  std::string_view bare = type.substr(type_sigils(type).size());
  while (const std::optional<ImplName> around = impl_name(bare))
    bare = around->type.substr(type_sigils(around->type).size());
  return is_type_path(bare) ? bare : "core::primitive";
}

namespace {

constexpr std::string_view kCut = "…";
/// An argument of up to so many characters stays, though it is the same everywhere.
constexpr size_t kShortArgument = 8;
constexpr size_t kShortBracket = 20;  ///< the same for a bracket
constexpr int kMaxNesting = 48;

struct Piece;
/// Texts and brackets of a name, in their order.
using Sequence = std::vector<Piece>;

struct Piece {
  std::string_view source;      ///< as the name has it
  std::string text;             ///< empty for a bracket
  char open = 0;                ///< 0: text
  std::vector<Sequence> parts;  ///< between the commas of a bracket
};

char closing(char open) {
  return open == '(' ? ')' : open == '<' ? '>' : open == '{' ? '}' : ']';
}

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

std::string_view source_of(const Sequence& sequence) {
  if (sequence.empty()) return {};
  const char* const begin = sequence.front().source.data();
  const std::string_view last = sequence.back().source;
  return {begin, static_cast<size_t>(last.data() + last.size() - begin)};
}

/// Arguments that are left out behind the first one, since they are its defaults.
bool is_default_argument(std::string_view argument) {
  constexpr std::array<std::string_view, 6> kDefaults{"std::allocator<",      "std::char_traits<",
                                                      "std::less<",           "std::hash<",
                                                      "std::default_delete<", "std::equal_to<"};
  return std::ranges::any_of(kDefaults,
                             [&](std::string_view name) { return argument.starts_with(name); });
}

void replace(std::string& text, std::string_view what, std::string_view by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
}

Sequence parse(std::string_view text, int depth);

/// The parts between commas, without commas inside of inner brackets.
std::vector<Sequence> parse_parts(std::string_view inside, int depth) {
  std::vector<Sequence> parts;
  size_t begin = 0;
  for (size_t at = 0; at < inside.size();) {
    if (opens_bracket(inside[at])) {
      at = std::min(after_bracket(inside, at), inside.size());
    } else if (inside[at++] == ',') {
      parts.push_back(parse(trimmed(inside.substr(begin, at - 1 - begin)), depth));
      begin = at;
    }
  }
  if (const std::string_view last = trimmed(inside.substr(begin)); !last.empty() || begin > 0)
    parts.push_back(parse(last, depth));
  return parts;
}

Sequence parse(std::string_view text, int depth) {
  Sequence pieces;
  size_t begin = 0;
  const auto end_text = [&](size_t end) {
    if (end > begin) {
      const std::string_view source = text.substr(begin, end - begin);
      pieces.push_back({source, std::string(source), 0, {}});
    }
    begin = end;
  };
  for (size_t at = 0; at < text.size();) {
    const bool begins_word =
        at == 0 ||
        (std::isalnum(static_cast<unsigned char>(text[at - 1])) == 0 && text[at - 1] != '_');
    if (const size_t length = begins_word ? operator_length(text.substr(at)) : 0) {
      at += length;
    } else if (text.substr(at).starts_with(kAnonymous)) {
      at += kAnonymous.size();
    } else if (opens_bracket(text[at]) && depth < kMaxNesting) {
      const size_t end = after_bracket(text, at);
      if (end == std::string_view::npos) break;
      end_text(at);
      pieces.push_back({text.substr(at, end - at), "", text[at],
                        parse_parts(text.substr(at + 1, end - at - 2), depth + 1)});
      begin = at = end;
    } else {
      ++at;
    }
  }
  end_text(text.size());
  for (size_t i = 0; i < pieces.size(); ++i) {
    Piece& piece = pieces[i];
    if (piece.open == '<') {
      while (piece.parts.size() > 1 && is_default_argument(source_of(piece.parts.back())))
        piece.parts.pop_back();
      continue;
    }
    for (const std::string_view version : {"std::__cxx11::", "std::__1::"})
      replace(piece.text, version, "std::");
    constexpr std::string_view kString = "std::basic_string";
    if (piece.text.ends_with(kString) && i + 1 < pieces.size() && pieces[i + 1].open == '<' &&
        pieces[i + 1].source.starts_with("<char,")) {
      piece.text.replace(piece.text.size() - kString.size(), kString.size(), "std::string");
      piece.source = {piece.source.data(), piece.source.size() + pieces[i + 1].source.size()};
      pieces.erase(pieces.begin() + static_cast<ptrdiff_t>(i) + 1);
    }
  }
  return pieces;
}

/// `const a::b::C&` → `const C&`.
std::string without_namespaces(std::string_view text) {
  std::string out;
  size_t word = 0;  // where the last word begins in `out`
  for (size_t at = 0; at < text.size(); ++at) {
    if (text.substr(at).starts_with(kAnonymous)) {
      out += kAnonymous;
      at += kAnonymous.size() - 1;
      continue;
    }
    const char c = text[at];
    if (at > 0 && text.substr(at).starts_with("::")) {  // at 0 it goes on behind a bracket
      out.resize(word);
      ++at;
      continue;
    }
    const bool in_word = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
    out += c;
    if (!in_word) word = out.size();
  }
  return out;
}

struct Detail {
  bool parameters = false;
  bool namespaces = false;
};

std::string shown_text(const Piece& piece, bool of_argument, const Detail& detail) {
  return of_argument && !detail.namespaces ? without_namespaces(piece.text) : piece.text;
}

std::string whole(const Sequence& sequence, const Detail& detail);
std::string in_a_row(const std::vector<std::string>& parts) {
  return fmt::format("{}", fmt::join(parts, ", "));
}
std::string bracketed(char open, const std::string& inside) {
  return open + inside + closing(open);
}

std::string whole(const Piece& piece, const Detail& detail) {
  if (piece.open == 0) return shown_text(piece, true, detail);
  std::vector<std::string> parts;
  for (const Sequence& part : piece.parts) parts.push_back(whole(part, detail));
  return bracketed(piece.open, in_a_row(parts));
}
std::string whole(const Sequence& sequence, const Detail& detail) {
  std::string out;
  for (const Piece& piece : sequence) out += whole(piece, detail);
  return out;
}

/// The text of a sequence. Brackets longer than `most` are cut.
std::string shallow(const Sequence& sequence, size_t most, const Detail& detail) {
  std::string out;
  for (const Piece& piece : sequence) {
    std::string text = whole(piece, detail);
    if (piece.open != 0 && text.size() > most) text = bracketed(piece.open, std::string(kCut));
    out += text;
  }
  return out;
}

/// Writes one name so that it differs from others.
class Beside {
 public:
  explicit Beside(const Detail& detail) : detail_(detail) {}

  std::string sequence(const Sequence& mine, const std::vector<const Sequence*>& others,
                       bool of_argument) const {
    const bool alike = std::ranges::all_of(others, [&](const Sequence* other) {
      return std::equal(mine.begin(), mine.end(), other->begin(), other->end(),
                        [](const Piece& a, const Piece& b) { return a.open == b.open; });
    });
    if (!alike) return of_argument ? shallow(mine, kShortBracket, detail_) : whole(mine, detail_);
    std::string out;
    for (size_t i = 0; i < mine.size(); ++i) {
      if (mine[i].open == 0) {
        out += shown_text(mine[i], of_argument, detail_);
        continue;
      }
      out += bracket(mine[i], list_of(others, [i](const Sequence* other) { return &(*other)[i]; }));
    }
    return out;
  }

  std::string bracket(const Piece& mine, const std::vector<const Piece*>& others) const {
    const auto all = [&](const auto& holds) { return std::ranges::all_of(others, holds); };
    if (all([&](const Piece* other) { return other->source == mine.source; })) {
      const std::string text = whole(mine, detail_);
      return text.size() <= kShortBracket ? text : bracketed(mine.open, std::string(kCut));
    }
    const bool same_count =
        all([&](const Piece* other) { return other->parts.size() == mine.parts.size(); });
    std::vector<std::string> parts;
    for (size_t i = 0; i < mine.parts.size(); ++i) {
      const Sequence& part = mine.parts[i];
      if (!same_count) {
        parts.push_back(shallow(part, kShortBracket, detail_));
        continue;
      }
      const bool same =
          all([&](const Piece* other) { return source_of(other->parts[i]) == source_of(part); });
      if (same) {
        std::string text = whole(part, detail_);
        if (text.size() > kShortArgument) text = kCut;
        if (text != kCut || parts.empty() || parts.back() != kCut) parts.push_back(text);
        continue;
      }
      const auto peers = list_of(others, [i](const Piece* other) { return &other->parts[i]; });
      parts.push_back(sequence(part, peers, true));
    }
    return bracketed(mine.open, in_a_row(parts));
  }

 private:
  const Detail& detail_;
};

struct Taken {
  std::string_view function;
  Sequence name;        ///< the last names
  Sequence whole_name;  ///< with all namespaces
  Sequence signature;   ///< parameters and what follows them
};

Taken take(std::string_view function) {
  const std::string_view name = without_signature(function);
  const size_t behind = static_cast<size_t>(name.data() - function.data()) + name.size();
  return {function, parse(last_names(name), 0), parse(name, 0),
          parse(function.substr(std::min(behind, function.size())), 0)};
}

std::string shown(const Taken& mine, const std::vector<const Taken*>& others,
                  const Detail& detail) {
  const Beside beside(detail);
  const auto of = [&](Sequence Taken::*part, bool of_argument) {
    const auto peers = list_of(others, [part](const Taken* other) { return &(other->*part); });
    return beside.sequence(mine.*part, peers, of_argument);
  };
  std::string text = of(detail.namespaces ? &Taken::whole_name : &Taken::name, false);
  if (!detail.namespaces) replace(text, std::string(kAnonymous) + "::", "");
  if (detail.parameters) text += of(&Taken::signature, true);
  return text;
}

}  // namespace

std::vector<std::string> names_apart(const std::vector<std::string_view>& functions) {
  std::vector<std::string> texts = list_of(functions, short_function_name);
  const auto same = [&](size_t i, size_t j) { return functions[i] == functions[j]; };
  constexpr std::array<Detail, 4> kDetails{
      {{false, false}, {true, false}, {false, true}, {true, true}}};
  for (const Detail& detail : kDetails) {
    for (const std::vector<size_t>& group : alike(texts, same)) {
      const auto taken = list_of(group, [&](size_t i) { return take(functions[i]); });
      for (size_t i = 0; i < group.size(); ++i) {
        std::vector<const Taken*> others;
        for (size_t j = 0; j < group.size(); ++j) {
          if (functions[group[j]] != functions[group[i]]) others.push_back(&taken[j]);
        }
        texts[group[i]] = shown(taken[i], others, detail);
      }
    }
  }
  for (const std::vector<size_t>& group : alike(texts, same)) {
    for (const size_t i : group) texts[i] = functions[i];
  }
  return texts;
}

std::string short_arguments(std::string_view inside, size_t most) {
  const std::vector<Sequence> parts = parse_parts(inside, 0);
  // Default arguments are left out, as parse() does in a bracket.
  std::vector<Sequence> kept = parts;
  while (kept.size() > 1 && is_default_argument(source_of(kept.back()))) kept.pop_back();
  constexpr size_t kHeads = 4;  ///< an inner bracket of so many characters stays even then
  for (const size_t bracket : {most, kHeads}) {
    std::string text =
        in_a_row(list_of(kept, [&](const Sequence& part) { return shallow(part, bracket, {}); }));
    if (text.size() <= most) return text;
  }
  return "";
}

}  // namespace gpupeak::collector
