// Demangles with libiberty. It limits its recursion, but not the length of what it prints nor the
// number of its steps, and a damaged log may have any name.
//
// So its output function leaves it by longjmp once the text is long enough. That is allowed: all
// frames in between are C, and write() has nothing to destroy. A look at the name does not help:
// real names have as many back references as names that double without end, and only a parser of
// the whole grammar could tell them apart. No packaged library is better: LLVM's demangler knows no
// legacy Rust names and has no limit of length either; the Rust crate rustc-demangle has none, and
// no C interface in Debian 12.
#include "collector/text/function_names.h"

// Without this its own declaration of basename differs from that of <string.h>, which clang
// refuses.
#define HAVE_DECL_BASENAME 1
#include <demangle.h>

#include <atomic>
#include <cctype>
#include <csetjmp>
#include <ctime>

namespace gpupeak::collector {
namespace {

constexpr size_t kMaxMangled = size_t{1} << 14;
constexpr size_t kMaxText = size_t{1} << 13;

struct Output {
  std::array<char, kMaxText> text;
  size_t size = 0;
  bool cut = false;
  std::jmp_buf full;

  std::string_view view() const { return {text.data(), size}; }
};

/// libiberty's output function. A few letters can stand for a text that doubles again and again.
/// libiberty cannot be told to stop, so this leaves it by longjmp.
void add(const char* data, size_t size, void* to) {
  Output& out = *static_cast<Output*>(to);
  const std::string_view piece(data, size);
  out.cut = out.cut || size > out.text.size() - out.size;
  if (!out.cut) {
    std::copy(piece.begin(), piece.end(), out.text.begin() + static_cast<ptrdiff_t>(out.size));
    out.size += size;
    return;
  }
  // A piece that is not ASCII is in memory that libiberty frees after this call, so we leave at the
  // next piece.
  if (std::ranges::none_of(piece, [](char c) { return (c & 0x80) != 0; }))
    std::longjmp(out.full, 1);
}

/// Whether it is a Rust name. `out` is another frame's, so that longjmp does not change it.
bool write(const std::string& name, Output& out) {
  if (setjmp(out.full) != 0) return true;
  return rust_demangle_callback(name.c_str(), DMGL_NO_OPTS, &add, &out) != 0;
}

bool is_digit(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0;
}

/// The places where the type of a function or a trait object may bind more than a few lifetimes
/// (FG…_, DG…_, with a number of base 62). libiberty counts them one by one, up to 2^64.
std::vector<size_t> many_lifetimes(std::string_view name) {
  std::vector<size_t> found;
  for (size_t at = name.find('G', 1); at < name.size(); at = name.find('G', at + 1)) {
    const auto digits = name.begin() + static_cast<ptrdiff_t>(at) + 1;
    const auto end = std::find_if_not(digits, name.end(), is_digit);
    const bool is_long = end - digits > 1 && end != name.end() && *end == '_';
    if (is_long && (name[at - 1] == 'F' || name[at - 1] == 'D')) found.push_back(at);
  }
  return found;
}

/// Whether it has an identifier of a thousand characters or more that are not ASCII: libiberty puts
/// it together in quadratic time.
bool has_long_punycode(std::string_view name) {
  constexpr size_t kDigits = 4;
  for (size_t at = name.find('u'); at < name.size(); at = name.find('u', at + 1)) {
    const std::string_view length = name.substr(at + 1, kDigits);
    if (length.size() == kDigits &&
        std::ranges::all_of(length, [](char c) { return c >= '0' && c <= '9'; })) {
      return true;
    }
  }
  return false;
}

/// Writes a name without such lifetimes. The same letters may be in hashes, which are not shown,
/// and in words, which are. So each such G is replaced by two other letters in turn, which bind
/// nothing: where the two texts differ was a G.
bool write_without_lifetimes(std::string name, const std::vector<size_t>& places, Output& out) {
  Output other;
  for (const size_t place : places) name[place] = 'H';
  if (!write(name, out)) return false;
  for (const size_t place : places) name[place] = 'I';
  if (!write(name, other) || other.size != out.size) return false;
  for (size_t i = 0; i < out.size; ++i) {
    if (out.text[i] == other.text[i]) continue;
    if (out.text[i] != 'H' || other.text[i] != 'I') return false;
    out.text[i] = 'G';
  }
  return true;
}

/// Whether it may have a pack expansion. libiberty searches all that is repeated for what it prints
/// of a pack, and calls no function of ours meanwhile.
bool has_expansion(const std::string& name) {
  return name.find("Dp") != std::string::npos || name.find("sp") != std::string::npos ||
         name.find("sP") != std::string::npos || name.find("sZ") != std::string::npos;
}

int64_t cpu_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
}

/// How much time all such names together may take. Real ones take microseconds.
std::atomic<int64_t> g_patience_ns{2'000'000'000};

bool write_cpp(const std::string& name, Output& out) {
  if (setjmp(out.full) != 0) return true;
  return cplus_demangle_v3_callback(name.c_str(), DMGL_PARAMS | DMGL_TYPES, &add, &out) != 0;
}

}  // namespace

std::optional<std::string> rust_demangle(const std::string& name) {
  const bool is_v0 = name.starts_with("_R");
  if ((!is_v0 && !name.starts_with("_ZN")) || name.size() > kMaxMangled) return std::nullopt;
  if (is_v0 && has_long_punycode(name)) return std::nullopt;
  const std::vector<size_t> lifetimes = is_v0 ? many_lifetimes(name) : std::vector<size_t>{};
  Output out;
  const bool is_rust =
      lifetimes.empty() ? write(name, out) : write_without_lifetimes(name, lifetimes, out);
  if (!is_rust || out.size == 0) return std::nullopt;
  return std::string(out.view()) + (out.cut ? "…" : "");
}

std::optional<std::string> cpp_demangle(const std::string& name) {
  // 48 references are 3^(48/3) steps: a fifth of a second.
  constexpr size_t kFewReferences = 24, kMostReferences = 48;
  if (name.size() > kMaxMangled) return std::nullopt;
  const size_t references = has_expansion(name) ? back_references(name) : 0;
  if (references > kMostReferences || (references > kFewReferences && g_patience_ns <= 0))
    return std::nullopt;
  Output out;
  const int64_t began = references > kFewReferences ? cpu_ns() : 0;
  const bool is_name = write_cpp(name, out);
  if (references > kFewReferences) g_patience_ns -= cpu_ns() - began;
  if (!is_name || out.size == 0) return std::nullopt;
  return std::string(out.view()) + (out.cut ? "…" : "");
}

}  // namespace gpupeak::collector
