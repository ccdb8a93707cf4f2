// What an ELF file tells the loader to map. Used by `run`.
#pragma once

#include <elf.h>

#include <string>
#include <vector>

namespace gpupeak::tools {

/// The program headers of a 64-bit ELF file; empty: the file is none, or is cut off.
std::vector<Elf64_Phdr> program_headers(const std::string& path);

/// Bytes of a module's pages that follow the pages of its file: variables that begin as zeros
/// (.bss).
uint64_t static_data_bytes(const std::vector<Elf64_Phdr>& headers);

}  // namespace gpupeak::tools
