#include "collector/symbols/debug_trouble.h"

#include <elf.h>
#include <gelf.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "collector/symbols/elf_file.h"

namespace gpupeak::collector {
namespace {

/// The sections from which functions and lines are read. libdw does not unpack some of the others.
constexpr std::array<std::string_view, 9> kNeeded{
    "debug_info", "debug_abbrev",      "debug_line",   "debug_str",     "debug_line_str",
    "debug_addr", "debug_str_offsets", "debug_ranges", "debug_rnglists"};

bool is_needed(std::string_view name) {
  if (!name.starts_with(".debug_") && !name.starts_with(".zdebug_")) return false;
  return std::find(kNeeded.begin(), kNeeded.end(), name.substr(name.find('d'))) != kNeeded.end();
}

}  // namespace

DebugTrouble section_trouble(Elf* elf, const std::string& file, bool all) {
  using What = DebugTrouble::Kind;
  size_t names = 0;
  if (elf_getshdrstrndx(elf, &names) != 0) return {};
  DebugTrouble trouble;
  for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf, section)) != nullptr;) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr || header.sh_type == SHT_NOBITS) continue;
    const char* name = elf_strptr(elf, names, header.sh_name);
    if (name == nullptr || !is_needed(name) || header.sh_size == 0) continue;
    // Still set: libdw could not unpack it.
    const bool is_packed = (header.sh_flags & SHF_COMPRESSED) != 0;
    GElf_Chdr packed{};
    if (is_packed && gelf_getchdr(section, &packed) != nullptr && packed.ch_type != kPackedByZlib &&
        packed.ch_type != kPackedByZstd) {
      return {What::kUnknownPacking, file, 0, packed.ch_type};
    }
    if (all ? std::string_view(name).ends_with("debug_info") : is_packed)
      trouble = {What::kDamaged, file, 0, 0};
  }
  return trouble;
}

DebugTrouble section_trouble(const std::string& file) {
  struct stat status {};
  const Descriptor descriptor = open_elf(file, status);
  if (!descriptor) return {};
  Elf* elf = elf_begin(descriptor.get(), ELF_C_READ_MMAP_PRIVATE, nullptr);
  const DebugTrouble trouble = section_trouble(elf, file, true);
  elf_end(elf);
  return trouble;
}

}  // namespace gpupeak::collector
