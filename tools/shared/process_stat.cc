#include "tools/shared/process_stat.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "collector/files/regular_file.h"
#include "gpupeak/pages.h"

namespace gpupeak::tools {

std::optional<std::string> kernel_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();  // the process may end meanwhile: then what was read
  return text.str();
}

std::string of_process(pid_t pid, const std::string& what) {
  return fmt::format("/proc/{}/{}", pid, what);
}

std::string link_of(pid_t process, const std::string& name) {
  std::error_code error;
  return std::filesystem::read_symlink(of_process(process, name), error).string();
}

std::vector<pid_t> numbers_in(const std::string& folder) {
  std::vector<pid_t> numbers;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (name.find_first_not_of("0123456789") == std::string::npos)
      numbers.push_back(static_cast<pid_t>(std::stol(name)));
  }
  return numbers;
}

bool is_in_our_namespace(pid_t process, const char* kind) {
  std::error_code error;
  return std::filesystem::equivalent(of_process(process, fmt::format("ns/{}", kind)),
                                     fmt::format("/proc/self/ns/{}", kind), error);
}

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

std::string program_file(const std::string& word) {
  if (word.find('/') != std::string::npos) return word;
  const char* path = getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "/bin:/usr/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string file = (folder.empty() ? "." : folder) + "/" + word;
    if (access(file.c_str(), X_OK) == 0 && collector::is_regular(file)) return file;
  }
  return "";
}

bool has_other_loader(const std::string& path) {
  if (!collector::is_regular(path)) return false;  // opening a pipe would wait
  std::ifstream program(path, std::ios::binary), own("/proc/self/exe", std::ios::binary);
  Elf64_Ehdr header{}, ours{};
  constexpr std::streamsize kBytes = offsetof(Elf64_Ehdr, e_version);  // alike in all classes
  return program.read(reinterpret_cast<char*>(&header), kBytes) &&
         own.read(reinterpret_cast<char*>(&ours), kBytes) &&
         memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
         (header.e_ident[EI_CLASS] != ours.e_ident[EI_CLASS] || header.e_machine != ours.e_machine);
}

std::optional<std::string> why_never_preloaded(const std::string& path) {
  if (!collector::is_regular(path)) return std::nullopt;
  struct stat status {};
  if (stat(path.c_str(), &status) == 0 && (status.st_mode & (S_ISUID | S_ISGID)) != 0)
    return "it is set-user-id or set-group-id, which loads no library for others";
  if (getxattr(path.c_str(), "security.capability", nullptr, 0) > 0)
    return "its file has capabilities (getcap), so it loads no library for others";
  if (has_other_loader(path))
    return "it is a 32-bit program, or one of another architecture than gpupeak's library";
  const auto headers = program_headers(path);
  const bool has_loader =
      std::ranges::any_of(headers, [](const auto& segment) { return segment.p_type == PT_INTERP; });
  if (!headers.empty() && !has_loader) return "it is statically linked";
  return std::nullopt;
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
