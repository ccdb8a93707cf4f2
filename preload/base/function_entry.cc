#include "base/function_entry.h"

#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstring>
#include <initializer_list>

#include "base/memory.h"
#include "base/syscalls.h"

namespace gpupeak::preload {
namespace {

constexpr size_t kRoomBytes = 64 << 10;

bool protect(uintptr_t begin, uintptr_t end, int protection) {
  const uintptr_t from = page_begin(begin);
  return !sys::failed(
      sys::mprotect(reinterpret_cast<void*>(from), page_end(end) - from, protection));
}

constexpr uint64_t kMostBytes = 256 << 20;  // of symbols and of names

/// Whether the file has a symbol table. Found by reads: a mapping costs more than all of these, and
/// most programs are stripped.
bool has_symbols(long fd) {
  ElfW(Ehdr) header;
  if (sys::pread(fd, &header, sizeof header, 0) != static_cast<long>(sizeof header)) return false;
  for (size_t first = 0; first < header.e_shnum;) {
    ElfW(Shdr) sections[40];  // all sections of most programs
    const long bytes = sys::pread(fd, sections, sizeof sections,
                                  static_cast<int64_t>(header.e_shoff + first * sizeof *sections));
    if (bytes < static_cast<long>(sizeof *sections)) return false;
    const size_t got = static_cast<size_t>(bytes) / sizeof *sections;
    for (size_t i = 0; i < got && first + i < header.e_shnum; ++i) {
      if (sections[i].sh_type == SHT_SYMTAB) return true;
    }
    first += got;
  }
  return false;
}

/// A file's bytes; empty: it cannot be read, or has no symbol table.
class File : NoCopies {
 public:
  explicit File(const char* path) {
    const sys::Descriptor file(sys::open_to_read(path));
    struct stat info;
    if (!file.is_open() || !has_symbols(file.fd) || sys::failed(sys::fstat(file.fd, &info)) ||
        !S_ISREG(info.st_mode) || info.st_size <= 0)
      return;
    bytes_ = static_cast<size_t>(info.st_size);
    void* at = sys::mmap(nullptr, bytes_, PROT_READ, MAP_PRIVATE, file.fd, 0);
    if (!sys::mmap_failed(at)) at_ = static_cast<const uint8_t*>(at);
  }
  ~File() {
    if (at_ != nullptr) sys::munmap(const_cast<uint8_t*>(at_), bytes_);
  }

  /// nullptr: the file ends before this.
  template <typename T>
  const T* at(uint64_t offset, uint64_t count) const {
    const bool fits = at_ != nullptr && offset <= bytes_ && offset % alignof(T) == 0 &&
                      count <= (bytes_ - offset) / sizeof(T);
    return fits ? reinterpret_cast<const T*>(at_ + offset) : nullptr;
  }

 private:
  const uint8_t* at_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace

bool CodeRoom::open(const void* function) {
  const auto wanted = reinterpret_cast<uintptr_t>(function);
  // Below the function first: a program's heap begins behind the program.
  for (const intptr_t step : {-0x100000, -0x1000000, -0x4000000, 0x1000000, 0x4000000}) {
    for (int i = 1; i <= 8; ++i) {
      const uintptr_t hint = (wanted + static_cast<uintptr_t>(step * i)) & ~uintptr_t{0xffff};
      void* found = sys::mmap(reinterpret_cast<void*>(hint), kRoomBytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (sys::mmap_failed(found)) return false;
      const auto at = reinterpret_cast<uintptr_t>(found);
      if ((at < wanted ? wanted - at : at - wanted) < arch::kCodeReach) {
        begin_ = at_ = static_cast<uint8_t*>(found);
        end_ = begin_ + kRoomBytes;
        note_own(found, kRoomBytes);
        return true;
      }
      sys::munmap(found, kRoomBytes);
    }
  }
  return false;
}

bool CodeRoom::close() {
  const auto begin = reinterpret_cast<uintptr_t>(begin_);
  arch::code_was_written(begin_, at_);
  return protect(begin, begin + kRoomBytes, PROT_READ | PROT_EXEC);
}

bool prepare_entry(const void* function, size_t bytes, const void* replacement, CodeRoom& room,
                   FunctionEntry& entry) {
  auto* const code = static_cast<uint8_t*>(const_cast<void*>(function));
  const size_t marks = arch::landing_bytes(code, bytes);
  if (bytes <= marks || room.left() < arch::kMostMovedBytes) return false;
  MovedCode moved;
  if (!arch::move_code(code + marks, code + bytes, room.at(), moved)) return false;
  entry.original = room.at();
  room.take(moved.written_bytes);
  uint8_t* const stub = room.at();
  room.take(arch::write_far_jump(stub, replacement));
  entry.at = code + marks;
  entry.jump_bytes = arch::write_near_jump(entry.jump, entry.at, stub);
  return entry.jump_bytes != 0;
}

bool replace_entry(const FunctionEntry& entry) {
  const auto begin = reinterpret_cast<uintptr_t>(entry.at);
  const uintptr_t end = begin + entry.jump_bytes;
  if (!protect(begin, end, PROT_READ | PROT_WRITE | PROT_EXEC)) return false;
  memcpy(entry.at, entry.jump, entry.jump_bytes);
  arch::code_was_written(entry.at, entry.at + entry.jump_bytes);
  protect(begin, end, PROT_READ | PROT_EXEC);
  return true;
}

void for_each_file_symbol(
    const char* path, FunctionRef<void(const char* name, uint64_t address, size_t bytes)> visit) {
  const File file(path);
  const auto* header = file.at<ElfW(Ehdr)>(0, 1);
  if (header == nullptr || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return;
  const auto* sections = file.at<ElfW(Shdr)>(header->e_shoff, header->e_shnum);
  if (sections == nullptr) return;
  for (size_t i = 0; i < header->e_shnum; ++i) {
    const ElfW(Shdr)& table = sections[i];
    if (table.sh_type != SHT_SYMTAB || table.sh_link >= header->e_shnum) continue;
    const ElfW(Shdr)& names = sections[table.sh_link];
    const uint64_t count = table.sh_size / sizeof(ElfW(Sym));
    const auto* symbols = file.at<ElfW(Sym)>(table.sh_offset, count);
    const auto* text = file.at<char>(names.sh_offset, names.sh_size);
    if (symbols == nullptr || text == nullptr || table.sh_size > kMostBytes ||
        names.sh_size > kMostBytes || names.sh_size == 0 || text[names.sh_size - 1] != 0) {
      return;
    }
    for (uint64_t k = 0; k < count; ++k) {
      const ElfW(Sym)& symbol = symbols[k];
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx == SHN_UNDEF ||
          symbol.st_name >= names.sh_size) {
        continue;
      }
      visit(text + symbol.st_name, symbol.st_value, symbol.st_size);
    }
    return;
  }
}

}  // namespace gpupeak::preload
