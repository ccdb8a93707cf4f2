// What a program's file tells of how it is loaded. Used by `run`.
#pragma once

#include <elf.h>

#include <optional>
#include <string>
#include <vector>

namespace gpupeak::tools {

/// The program headers of a 64-bit ELF file; empty: the file is none, or is cut off.
std::vector<Elf64_Phdr> program_headers(const std::string& path);

/// The file that execvp() runs for a word of a command line; empty: there is none.
std::string program_file(const std::string& word);

/// Whether it is an ELF file for a loader of another architecture, as 32-bit programs are. Such a
/// loader complains about a library of ours.
bool has_other_loader(const std::string& path);

/// Why this program loads no preloaded library; none: it may load them, or cannot be read.
std::optional<std::string> why_never_preloaded(const std::string& path);

/// Bytes of a module's pages that follow the pages of its file: variables that begin as zeros
/// (.bss).
uint64_t static_data_bytes(const std::vector<Elf64_Phdr>& headers);

}  // namespace gpupeak::tools
