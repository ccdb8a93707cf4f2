#include "tools/shared/program_headers.h"

#include <cstring>
#include <fstream>

#include "gpupeak/pages.h"

namespace gpupeak::tools {

std::vector<Elf64_Phdr> program_headers(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  Elf64_Ehdr header{};
  if (!file.read(reinterpret_cast<char*>(&header), sizeof header) ||
      memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_phentsize != sizeof(Elf64_Phdr))
    return {};
  std::vector<Elf64_Phdr> headers(header.e_phnum);
  file.seekg(static_cast<std::streamoff>(header.e_phoff));
  file.read(reinterpret_cast<char*>(headers.data()),
            static_cast<std::streamsize>(headers.size() * sizeof(Elf64_Phdr)));
  return file ? headers : std::vector<Elf64_Phdr>();
}

uint64_t static_data_bytes(const std::vector<Elf64_Phdr>& headers) {
  uint64_t bytes = 0;
  for (const Elf64_Phdr& segment : headers) {
    if (segment.p_type != PT_LOAD) continue;
    const uint64_t in_file = whole_pages(segment.p_vaddr + segment.p_filesz);
    const uint64_t in_memory = whole_pages(segment.p_vaddr + segment.p_memsz);
    if (in_memory > in_file) bytes += in_memory - in_file;
  }
  return bytes;
}

}  // namespace gpupeak::tools
