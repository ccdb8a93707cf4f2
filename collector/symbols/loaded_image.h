// A shared library or executable as the dynamic linker sees it: its segments, the words that it
// relocates, and where functions begin and end by the unwinding tables. All of that survives strip.
// rtti_reader.cc finds classes with it.
#pragma once

#include <gelf.h>
#include <libelf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "collector/log/parallel.h"

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
  explicit LoadedImage(Elf* elf) {
    GElf_Ehdr header;
    if (elf == nullptr || gelf_getehdr(elf, &header) == nullptr) return;
    if (header.e_machine == EM_X86_64) machine_ = &kX86_64;
    if (header.e_machine == EM_AARCH64) machine_ = &kAarch64;
    const bool known = machine_ != nullptr && header.e_ident[EI_CLASS] == ELFCLASS64 &&
                       header.e_ident[EI_DATA] == ELFDATA2LSB;
    if (!known || !has_its_dynamic_section(elf)) return;
    file_ = reinterpret_cast<const uint8_t*>(elf_rawfile(elf, &file_bytes_));
    if (file_ == nullptr) return;
    read_segments(elf);
    find_linkers_words(elf);
    read_dynamic();
    sort_words();
    read_unwind_header();
  }

  /// By address, each address once.
  const std::vector<RelocatedWord>& words() const { return words_; }
  /// The relocated word at an address; nullptr: none is there.
  const RelocatedWord* word_at(uint64_t address) const {
    const auto word = std::ranges::lower_bound(words_, address, {}, &RelocatedWord::at);
    return word != words_.end() && word->at == address ? &*word : nullptr;
  }
  /// A word as the file has it, without relocation.
  std::optional<uint64_t> plain_word(uint64_t address) const { return read<uint64_t>(address); }
  std::optional<uint32_t> plain_half(uint64_t address) const { return read<uint32_t>(address); }
  /// A text that ends within its segment; empty if there is none.
  std::string_view text_at(uint64_t address) const {
    for (const Segment& segment : segments_) {
      const uint64_t inside = address - segment.address;
      if (address < segment.address || inside >= segment.bytes) continue;
      const auto* text = reinterpret_cast<const char*>(file_ + segment.offset + inside);
      const uint64_t limit = std::min(segment.bytes - inside, kMaxText);
      const size_t size = strnlen(text, limit);
      return size < limit ? std::string_view(text, size) : std::string_view();
    }
    return {};
  }
  std::string_view symbol_name(uint32_t symbol) const {
    const auto entry = read<Elf64_Sym>(symbols_ + symbol * sizeof(Elf64_Sym));
    if (!entry || entry->st_name >= string_bytes_) return {};
    return text_at(strings_ + entry->st_name);
  }
  /// The version that the library's own symbols carry (VERS_1.29.0), or empty.
  std::string_view symbol_version() const { return version_; }
  bool is_code(uint64_t address) const {
    return std::ranges::any_of(segments_, [&](const Segment& segment) {
      return (segment.flags & PF_X) != 0 && address - segment.address < segment.bytes;
    });
  }
  /// Whether the address is data that is constant after relocation. Vtables are nowhere else.
  bool is_constant(uint64_t address) const {
    const bool linkers = address >= got_begin_ && address < got_end_;
    return address >= relro_begin_ && address < relro_end_ && !linkers;
  }

  /// Starts of functions, ascending.
  const std::vector<uint64_t>& function_starts() const { return starts_; }
  struct Range {
    uint64_t begin, end;
  };
  /// The function that begins at exactly this address.
  std::optional<Range> function_from(uint64_t start) const {
    const auto entry = std::lower_bound(starts_.begin(), starts_.end(), start);
    if (entry == starts_.end() || *entry != start) return std::nullopt;
    const uint64_t description = descriptions_[static_cast<size_t>(entry - starts_.begin())];
    const auto back = read<uint32_t>(description + 4);
    if (!back || read<uint32_t>(description) == UINT32_MAX) return std::nullopt;  // 64-bit form
    // The common part (CIE) tells the encoding of addresses.
    const uint64_t common = description + 4 - *back;
    const std::string_view augmentation = text_at(common + 9);
    if (!augmentation.starts_with("z")) return std::nullopt;
    uint64_t at = common + 9 + augmentation.size() + 1;
    const auto skip_number = [&] {
      while (const auto byte = read<uint8_t>(at++)) {
        if ((*byte & 0x80) == 0) break;
      }
    };
    for (int number = 0; number < 4; ++number) skip_number();  // alignments, register, length
    uint8_t encoding = 0;
    for (const char c : augmentation.substr(1)) {
      const auto byte = read<uint8_t>(at);
      if (!byte) return std::nullopt;
      if (c == 'R') encoding = *byte;
      if (c == 'L' || c == 'R') ++at;
      if (c == 'P') at += 1 + encoded_bytes(*byte);
    }
    const uint64_t size = encoded_bytes(encoding);
    if (size == 0) return std::nullopt;
    const uint64_t length_at = description + 8 + size;
    std::optional<uint64_t> bytes = read<uint32_t>(length_at);
    if (size == kWord) bytes = read<uint64_t>(length_at);
    if (!bytes || *bytes == 0) return std::nullopt;
    return Range{start, start + *bytes};
  }

  /// The addresses that the code in this range takes, in its order.
  std::vector<uint64_t> taken_in(Range code) const {
    constexpr uint64_t kMost = 64 << 10;  // for a damaged file
    const uint64_t end = std::min(code.end, code.begin + kMost);
    const uint8_t* bytes = end > code.begin ? bytes_at(code.begin, end - code.begin) : nullptr;
    return bytes == nullptr ? std::vector<uint64_t>() : machine_->taken({bytes, code.begin, end});
  }

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
  References references() const {
    References found;
    found.begin_ = relro_begin_ / kWord * kWord;
    found.marks_.resize(relro_end_ > found.begin_ ? (relro_end_ - found.begin_) / kWord : 0);
    for (const RelocatedWord& word : words_) {
      if (word.symbol == RelocatedWord::kNoSymbol) found.mark(word.value);
    }
    for (const uint64_t at : arrays_) found.mark(at);
    const uint64_t end = found.begin_ + found.marks_.size() * kWord;
    for (const Segment& segment : segments_) {
      if ((segment.flags & PF_X) != 0) mark_referred(segment, end, &found);
    }
    return found;
  }

 private:
  static constexpr uint32_t kTypeRelr = 36;  // DT_RELR and DT_RELRSZ: newer than some <elf.h>
  static constexpr uint32_t kTypeRelrBytes = 35;
  static constexpr uint64_t kMaxText = 64 << 10;  // longer names are not shown
  static constexpr uint64_t kMaxVersions = 256;

  // Encodings of pointers in unwinding tables (LSB, "DWARF Extensions").
  static constexpr uint8_t kSigned4 = 0x0b;
  static constexpr uint8_t kRelativeToTable = 0x30;
  static constexpr uint8_t kOmitted = 0xff;

  /// The bytes of a pointer in this encoding; 0: they vary.
  static uint64_t encoded_bytes(uint8_t encoding) {
    switch (encoding & 0x0f) {
      case 0x00:
      case 0x04:
      case 0x0c:
        return 8;
      case 0x03:
      case 0x0b:
        return 4;
      default:
        return 0;
    }
  }

  /// False for a debug file: it keeps the headers of segments, but not their bytes.
  static bool has_its_dynamic_section(Elf* elf) {
    bool any = false;
    for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf, section)) != nullptr;) {
      GElf_Shdr header;
      if (gelf_getshdr(section, &header) == nullptr) continue;
      any = true;
      if (header.sh_type == SHT_DYNAMIC) return true;
    }
    return !any;
  }

  struct Segment {
    uint64_t address, bytes;  ///< only those that the file has
    uint64_t offset;
    uint64_t flags;
  };
  /// Some libraries have hundreds of megabytes of code, so it is read in pieces, in parallel. A
  /// piece begins with a function. Where not all functions are known, and the machine allows it
  /// (cut_anywhere), it begins anywhere.
  void mark_referred(const Segment& segment, uint64_t end, References* found) const {
    constexpr uint64_t kPiece = 1 << 20;
    constexpr uint64_t kInstruction = 16;  // the last instruction of a piece may end behind it
    std::vector<uint64_t> borders{segment.address};
    const uint64_t last = segment.address + segment.bytes;
    const auto cut_up_to = [&](uint64_t next) {
      while (machine_->cut_anywhere && next - borders.back() >= 2 * kPiece)
        borders.push_back(borders.back() + kPiece);
    };
    for (const uint64_t start : starts_) {
      if (start - segment.address >= segment.bytes || start - borders.back() < kPiece) continue;
      cut_up_to(start);
      borders.push_back(start);
    }
    cut_up_to(last);
    borders.push_back(last);
    std::mutex mutex;
    in_parallel(borders.size() - 1, 1, [&](size_t piece, size_t /*next*/) {
      const uint64_t begin = borders[piece];
      const Code code{file_ + segment.offset + (begin - segment.address), begin,
                      std::min(borders[piece + 1] + kInstruction, last)};
      const std::vector<uint64_t> referred = machine_->referred(code, found->begin_, end, starts_);
      const std::lock_guard lock(mutex);
      for (const uint64_t at : referred) found->mark(at);
    });
  }
  const uint8_t* bytes_at(uint64_t address, uint64_t count) const {
    for (const Segment& segment : segments_) {
      const uint64_t inside = address - segment.address;
      if (address < segment.address || inside > segment.bytes || count > segment.bytes - inside)
        continue;
      return file_ + segment.offset + inside;
    }
    return nullptr;
  }
  template <typename T>
  std::optional<T> read(uint64_t address) const {
    const uint8_t* bytes = bytes_at(address, sizeof(T));
    if (bytes == nullptr) return std::nullopt;
    T value;
    memcpy(&value, bytes, sizeof value);
    return value;
  }
  void read_segments(Elf* elf) {
    size_t count = 0;
    constexpr size_t kMostSegments = 128;  // each word is looked for in each segment
    if (elf_getphdrnum(elf, &count) != 0 || count > kMostSegments) return;
    for (size_t i = 0; i < count; ++i) {
      GElf_Phdr header;
      if (gelf_getphdr(elf, static_cast<int>(i), &header) == nullptr) continue;
      if (header.p_type == PT_LOAD && header.p_offset <= file_bytes_ &&
          header.p_filesz <= file_bytes_ - header.p_offset) {
        segments_.push_back({header.p_vaddr, header.p_filesz, header.p_offset, header.p_flags});
      }
      if (header.p_type == PT_GNU_RELRO) {
        relro_begin_ = header.p_vaddr;
        relro_end_ = header.p_vaddr + header.p_memsz;
      }
      if (header.p_type == PT_GNU_EH_FRAME) unwind_header_ = header.p_vaddr;
      if (header.p_type == PT_DYNAMIC) {
        dynamic_ = header.p_vaddr;
        dynamic_count_ = header.p_filesz / sizeof(Elf64_Dyn);
      }
    }
    // Bounded by what the file has, whatever its header says.
    uint64_t end = relro_begin_;
    for (const Segment& segment : segments_) {
      if (relro_begin_ - segment.address < segment.bytes) end = segment.address + segment.bytes;
    }
    relro_end_ = std::min(relro_end_, end);
  }
  void find_linkers_words(Elf* elf) {
    size_t names = 0;
    if (elf_getshdrstrndx(elf, &names) != 0) return;
    for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf, section)) != nullptr;) {
      GElf_Shdr header;
      if (gelf_getshdr(section, &header) == nullptr) continue;
      const char* name = elf_strptr(elf, names, header.sh_name);
      if (name == nullptr || strcmp(name, ".got") != 0) continue;
      got_begin_ = header.sh_addr;
      got_end_ = header.sh_addr + header.sh_size;
    }
  }
  void read_dynamic() {
    uint64_t rela = 0, rela_bytes = 0, relr = 0, relr_bytes = 0, versions = 0, version_count = 0;
    const std::pair<int64_t, uint64_t*> values[] = {
        {DT_SYMTAB, &symbols_},        {DT_STRTAB, &strings_},
        {DT_STRSZ, &string_bytes_},    {DT_RELA, &rela},
        {DT_RELASZ, &rela_bytes},      {kTypeRelr, &relr},
        {kTypeRelrBytes, &relr_bytes}, {DT_VERDEF, &versions},
        {DT_VERDEFNUM, &version_count}};
    for (uint64_t i = 0; i < dynamic_count_; ++i) {
      const auto entry = read<Elf64_Dyn>(dynamic_ + i * sizeof(Elf64_Dyn));
      if (!entry || entry->d_tag == DT_NULL) break;
      if (entry->d_tag == DT_INIT_ARRAY || entry->d_tag == DT_FINI_ARRAY)
        arrays_.push_back(entry->d_un.d_val);
      for (const auto& [tag, value] : values) {
        if (entry->d_tag == tag) *value = entry->d_un.d_val;
      }
    }
    read_rela(rela, rela_bytes);
    read_relr(relr, relr_bytes);
    read_version(versions, version_count);
  }
  void read_rela(uint64_t address, uint64_t bytes) {
    const uint64_t count = bytes / sizeof(Elf64_Rela);
    const uint8_t* table = bytes_at(address, count * sizeof(Elf64_Rela));
    if (table == nullptr) return;
    words_.reserve(count);
    for (uint64_t i = 0; i < count; ++i) {
      Elf64_Rela entry;
      memcpy(&entry, table + i * sizeof entry, sizeof entry);
      const uint64_t type = ELF64_R_TYPE(entry.r_info);
      const auto addend = static_cast<uint64_t>(entry.r_addend);
      if (type == machine_->relative) {
        words_.push_back({entry.r_offset, addend, RelocatedWord::kNoSymbol});
      } else if (type == machine_->absolute || type == machine_->global) {
        const auto index = static_cast<uint32_t>(ELF64_R_SYM(entry.r_info));
        const auto symbol = read<Elf64_Sym>(symbols_ + index * sizeof(Elf64_Sym));
        if (!symbol) continue;
        const bool here = symbol->st_shndx != SHN_UNDEF;
        words_.push_back({entry.r_offset, here ? symbol->st_value + addend : addend,
                          here ? RelocatedWord::kNoSymbol : index});
      }
    }
  }
  /// DT_RELR: an address, then bitmaps of the words behind it. The words hold the value that is to
  /// be relocated.
  void read_relr(uint64_t address, uint64_t bytes) {
    constexpr uint64_t kBitmapWords = 63;
    uint64_t next = 0;
    const auto add = [&](uint64_t at) {
      if (const auto value = plain_word(at))
        words_.push_back({at, *value, RelocatedWord::kNoSymbol});
    };
    for (uint64_t i = 0; i < bytes / kWord; ++i) {
      const auto entry = plain_word(address + i * kWord);
      if (!entry) return;
      if ((*entry & 1) == 0) {
        add(*entry);
        next = *entry + kWord;
        continue;
      }
      for (uint64_t bit = 0; bit < kBitmapWords; ++bit) {
        if ((*entry >> (bit + 1) & 1) != 0) add(next + bit * kWord);
      }
      next += kBitmapWords * kWord;
    }
  }
  /// The first definition is the file itself. Only a library with versions of its own has others.
  void read_version(uint64_t address, uint64_t count) {
    for (uint64_t i = 0; i < std::min(count, kMaxVersions); ++i) {
      const auto entry = read<Elf64_Verdef>(address);
      if (!entry) return;
      const auto name = read<Elf64_Verdaux>(address + entry->vd_aux);
      if ((entry->vd_flags & VER_FLG_BASE) == 0 && name && name->vda_name < string_bytes_)
        version_ = text_at(strings_ + name->vda_name);
      if (entry->vd_next == 0) return;
      address += entry->vd_next;
    }
  }
  void read_unwind_header() {
    constexpr uint64_t kHeaderBytes = 12;
    const auto header = read<uint32_t>(unwind_header_);
    if (unwind_header_ == 0 || !header) return;
    const auto encoding_of_count = static_cast<uint8_t>(*header >> 16);
    const auto encoding_of_table = static_cast<uint8_t>(*header >> 24);
    const auto encoding_of_frames = static_cast<uint8_t>(*header >> 8);
    // This is what linkers write; another header is not read.
    if ((*header & 0xff) != 1 || encoding_of_table != (kRelativeToTable | kSigned4) ||
        encoding_of_count == kOmitted || encoded_bytes(encoding_of_count) != 4 ||
        encoded_bytes(encoding_of_frames) != 4) {
      return;
    }
    const auto count = read<uint32_t>(unwind_header_ + 8);
    const uint8_t* table =
        count ? bytes_at(unwind_header_ + kHeaderBytes, uint64_t{*count} * kWord) : nullptr;
    if (table == nullptr) return;
    starts_.reserve(*count);
    descriptions_.reserve(*count);
    for (uint32_t i = 0; i < *count; ++i) {
      int32_t pair[2];
      memcpy(pair, table + i * sizeof pair, sizeof pair);
      const uint64_t start = unwind_header_ + static_cast<uint64_t>(int64_t{pair[0]});
      if (!starts_.empty() && start <= starts_.back()) continue;  // the table is sorted
      starts_.push_back(start);
      descriptions_.push_back(unwind_header_ + static_cast<uint64_t>(int64_t{pair[1]}));
    }
  }
  void sort_words() {
    const auto before = [](const RelocatedWord& a, const RelocatedWord& b) { return a.at < b.at; };
    if (!std::ranges::is_sorted(words_, before)) std::ranges::stable_sort(words_, before);
    const auto same = [](const RelocatedWord& a, const RelocatedWord& b) { return a.at == b.at; };
    words_.erase(std::unique(words_.begin(), words_.end(), same), words_.end());
  }

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
