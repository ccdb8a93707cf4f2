
#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>

#include "collector/text/function_names.h"

namespace gpupeak::collector {
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
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : ", ") + part;
  return out;
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
      std::vector<const Piece*> peers;
      peers.reserve(others.size());
      for (const Sequence* other : others) peers.push_back(&(*other)[i]);
      out += bracket(mine[i], peers);
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
      std::vector<const Sequence*> peers;
      peers.reserve(others.size());
      for (const Piece* other : others) peers.push_back(&other->parts[i]);
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
    std::vector<const Sequence*> peers;
    peers.reserve(others.size());
    for (const Taken* other : others) peers.push_back(&(other->*part));
    return beside.sequence(mine.*part, peers, of_argument);
  };
  std::string text = of(detail.namespaces ? &Taken::whole_name : &Taken::name, false);
  if (!detail.namespaces) replace(text, std::string(kAnonymous) + "::", "");
  if (detail.parameters) text += of(&Taken::signature, true);
  return text;
}

}  // namespace

std::vector<std::string> names_apart(const std::vector<std::string_view>& functions) {
  std::vector<std::string> texts;
  texts.reserve(functions.size());
  for (const std::string_view function : functions) texts.push_back(short_function_name(function));
  const auto same = [&](size_t i, size_t j) { return functions[i] == functions[j]; };
  constexpr std::array<Detail, 4> kDetails{
      {{false, false}, {true, false}, {false, true}, {true, true}}};
  for (const Detail& detail : kDetails) {
    for (const std::vector<size_t>& group : alike(texts, same)) {
      std::vector<Taken> taken;
      taken.reserve(group.size());
      for (const size_t i : group) taken.push_back(take(functions[i]));
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
    std::vector<std::string> texts;
    texts.reserve(kept.size());
    for (const Sequence& part : kept) texts.push_back(shallow(part, bracket, {}));
    std::string text = in_a_row(texts);
    if (text.size() <= most) return text;
  }
  return "";
}

}  // namespace gpupeak::collector
