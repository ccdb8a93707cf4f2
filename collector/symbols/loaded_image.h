// A shared library or executable as the dynamic linker sees it: its segments, the words that it
// relocates, and where functions begin and end by the unwinding tables. All of that survives strip.
// rtti_reader.cc finds classes with it.
#pragma once

#include <libelf.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>
#include <vector>

namespace gpupeak::collector {

// What differs between processors when a file is read as the dynamic linker sees it: its
// relocations, and how its code refers to data.

/// Machine code as the file has it.
struct Code {
  const uint8_t* bytes;
  uint64_t begin, end;  ///< addresses
};

struct Machine {
  /// Types of relocations: of an address in the file, and two of a symbol's address.
  uint64_t relative, absolute, global;
  /// The addresses in [begin, end) that the code refers to. One too many ends a vtable early, and
  /// costs names; one too few may give a function another one's name. `starts`: where functions
  /// begin, ascending.
  std::vector<uint64_t> (*referred)(const Code& code, uint64_t begin, uint64_t end,
                                    const std::vector<uint64_t>& starts);
  /// The addresses that a function takes, in its order; among them may be values that only look
  /// like one.
  std::vector<uint64_t> (*taken)(const Code& function);
  bool cut_anywhere;  ///< `referred` also finds all in pieces that do not begin with a function
};
extern const Machine kX86_64;
extern const Machine kAarch64;

inline constexpr uint64_t kWord = 8;  ///< bytes

/// A word that the dynamic linker fills in.
struct RelocatedWord {
  static constexpr uint32_t kNoSymbol = 0;
  uint64_t at;
  uint64_t value;   ///< where it points to in this image; in another image: the addend
  uint32_t symbol;  ///< index of a symbol that is not defined here, or kNoSymbol
};

/// Of ranges that are sorted by where they begin: the last one before an address, if the address
/// lies in it. nullptr: it does not.
template <typename Range>
const Range* range_at(const std::vector<Range>& sorted, uint64_t address) {
  const auto next = std::ranges::upper_bound(sorted, address, {}, &Range::begin);
  return next != sorted.begin() && address < std::prev(next)->end ? &*std::prev(next) : nullptr;
}
/// Ends each range where the next one begins: those of damaged tables may overlap.
template <typename Range>
void separate(std::vector<Range>& sorted) {
  for (size_t i = 1; i < sorted.size(); ++i)
    sorted[i - 1].end = std::min(sorted[i - 1].end, sorted[i].begin);
}

class LoadedImage {
 public:
  /// Reads a file; `elf` must outlive this. Nothing is known of a file that cannot be read this
  /// way: not x86-64 or aarch64, a debug file, damaged.
  explicit LoadedImage(Elf* elf);

  /// By address, each address once.
  const std::vector<RelocatedWord>& words() const { return words_; }
  /// The relocated word at an address; nullptr: none is there.
  const RelocatedWord* word_at(uint64_t address) const;
  /// A word as the file has it, without relocation.
  std::optional<uint64_t> plain_word(uint64_t address) const;
  std::optional<uint32_t> plain_half(uint64_t address) const;
  /// A text that ends within its segment; empty if there is none.
  std::string_view text_at(uint64_t address) const;
  std::string_view symbol_name(uint32_t symbol) const;
  /// The version that the library's own symbols carry (VERS_1.29.0), or empty.
  std::string_view symbol_version() const { return version_; }
  bool is_code(uint64_t address) const;
  /// Whether the address is data that is constant after relocation. Vtables are nowhere else.
  bool is_constant(uint64_t address) const;

  /// Starts of functions, ascending.
  const std::vector<uint64_t>& function_starts() const { return starts_; }
  struct Range {
    uint64_t begin, end;
  };
  /// The function that begins at exactly this address.
  std::optional<Range> function_from(uint64_t start) const;

  /// The addresses that the code in this range takes, in its order.
  std::vector<uint64_t> taken_in(Range code) const;

  /// Tells for each word of the constant data whether code or another word refers to it.
  class References {
   public:
    bool contains(uint64_t address) const {
      const uint64_t word = (address - begin_) / kWord;
      return address >= begin_ && word < marks_.size() && marks_[word];
    }

   private:
    friend class LoadedImage;
    void mark(uint64_t address) {
      const uint64_t word = (address - begin_) / kWord;
      if (address >= begin_ && address % kWord == 0 && word < marks_.size()) marks_[word] = true;
    }
    uint64_t begin_ = 0;
    std::vector<bool> marks_;
  };
  References references() const;

 private:
  struct Segment {
    uint64_t address, bytes;  ///< only those that the file has
    uint64_t offset;
    uint64_t flags;
  };
  void mark_referred(const Segment& segment, uint64_t end, References* found) const;
  const uint8_t* bytes_at(uint64_t address, uint64_t count) const;
  template <typename T>
  std::optional<T> read(uint64_t address) const;
  void read_segments(Elf* elf);
  void find_linkers_words(Elf* elf);
  void read_dynamic();
  void read_rela(uint64_t address, uint64_t bytes);
  void read_relr(uint64_t address, uint64_t bytes);
  void read_version(uint64_t address, uint64_t count);
  void read_unwind_header();
  void sort_words();

  const Machine* machine_ = nullptr;
  const uint8_t* file_ = nullptr;
  size_t file_bytes_ = 0;
  std::vector<Segment> segments_;
  uint64_t relro_begin_ = 0, relro_end_ = 0;
  uint64_t got_begin_ = 0, got_end_ = 0;  // the linker's own words, constant as well
  std::vector<uint64_t> arrays_;  // functions that the linker calls at the beginning and the end
  uint64_t unwind_header_ = 0, dynamic_ = 0, dynamic_count_ = 0;
  uint64_t symbols_ = 0, strings_ = 0, string_bytes_ = 0;
  std::string_view version_;
  std::vector<RelocatedWord> words_;
  std::vector<uint64_t> starts_;
  // For each of starts_, where its unwinding description begins.
  std::vector<uint64_t> descriptions_;
};

}  // namespace gpupeak::collector
