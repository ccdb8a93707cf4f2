#include "collector/symbols/debug_files.h"

#include <dlfcn.h>
#include <elf.h>
#include <elfutils/libdwelf.h>
#include <endian.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gelf.h>
#include <lzma.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "collector/text/sanitize.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {
namespace {

std::string text_of(const void* bits, ssize_t bytes) {
  return bytes > 0 ? std::string(static_cast<const char*>(bits), static_cast<size_t>(bytes)) : "";
}

/// The build-id of a file. Empty: it has none, or is no ELF file.
std::string build_id_of(int fd) {
  Elf* elf = elf_begin(fd, ELF_C_READ_MMAP_PRIVATE, nullptr);
  const void* bits = nullptr;
  const ssize_t bytes = elf != nullptr ? dwelf_elf_gnu_build_id(elf, &bits) : 0;
  const std::string id = text_of(bits, bytes);
  elf_end(elf);
  return id;
}

bool has_checksum(int fd, GElf_Word wanted) {
  std::array<unsigned char, 1 << 16> buffer;
  uLong sum = crc32(0, nullptr, 0);
  off_t at = 0;
  for (ssize_t got; (got = pread(fd, buffer.data(), buffer.size(), at)) > 0; at += got)
    sum = crc32(sum, buffer.data(), static_cast<uInt>(got));
  return sum == wanted;
}

}  // namespace

std::string debug_servers() {
  const char* urls = getenv("DEBUGINFOD_URLS");
  return urls != nullptr ? urls : "";
}

std::string debug_file_from_servers(std::string_view build_id) {
  if (debug_servers().empty() || build_id.empty()) return "";
  void* library = open_system_library("libdebuginfod.so.1");
  if (library == nullptr) return "";
  using Begin = void* (*)();
  using End = void (*)(void*);
  using Find = int (*)(void*, const unsigned char*, int, char**);
  const auto begin = reinterpret_cast<Begin>(dlsym(library, "debuginfod_begin"));
  const auto end = reinterpret_cast<End>(dlsym(library, "debuginfod_end"));
  const auto find = reinterpret_cast<Find>(dlsym(library, "debuginfod_find_debuginfo"));
  if (begin == nullptr || end == nullptr || find == nullptr) return "";
  std::string path;
  if (void* client = begin()) {
    char* found = nullptr;
    const int fd = find(client, reinterpret_cast<const unsigned char*>(build_id.data()),
                        static_cast<int>(build_id.size()), &found);
    if (fd >= 0) {
      path = found;
      ::close(fd);
    }
    free(found);
    end(client);
  }
  return path;
}

int DebugFiles::find(Dwfl_Module* module, void** user_data, const char*, Dwarf_Addr,
                     const char* file_name, const char* link, GElf_Word checksum, char** found) {
  auto* files = static_cast<DebugFiles*>(*user_data);
  if (files == nullptr || file_name == nullptr) return -1;
  std::string path;
  const int fd = files->find(module, file_name, link, checksum, path);
  if (fd >= 0) *found = strdup(path.c_str());
  return fd;
}

int DebugFiles::find(Dwfl_Module* module, const std::string& file_name, const char* link,
                     GElf_Word checksum, std::string& found) {
  const unsigned char* bits = nullptr;
  GElf_Addr where = 0;
  const int id_bytes = dwfl_module_build_id(module, &bits, &where);
  const std::string id = text_of(bits, id_bytes);
  // A link without a checksum names the common file, whose build-id is in the debug file.
  const bool is_common = link != nullptr && checksum == 0;
  const std::string folder = folder_of(file_name);
  const std::string name =
      link != nullptr ? link : std::string(collector::file_name(file_name)) + ".debug";
  std::vector<std::string> paths;
  if (!id.empty() && !is_common) {
    for (const std::string& base : folders_) paths.push_back(base + build_id_path(id));
  }
  if (name.starts_with('/')) {
    paths.push_back(name);
  } else {
    paths.push_back(folder + "/" + name);
    paths.push_back(folder + "/.debug/" + name);
    for (const std::string& base : folders_) {
      // The module may lie in another root. Which part of the path is that root is not known here,
      // so each is tried.
      for (size_t at = 0; at != std::string::npos; at = folder.find('/', at + 1))
        paths.push_back(base + "/" + folder.substr(at) + "/" + name);
      paths.push_back(base + "/" + name);
    }
  }
  // Servers are asked last, and only if no file was found.
  const auto from_servers = [&] { return is_common ? "" : debug_file_from_servers(id); };
  struct stat status {};
  for (size_t i = 0; i <= paths.size(); ++i) {
    std::string path = i < paths.size() ? std::move(paths[i]) : from_servers();
    if (path.empty() || path == file_name) continue;
    looked_for_.push_back(state_of_file(path));
    Descriptor file = open_elf(path, status);
    if (!file) continue;
    const std::string its_id = build_id_of(file.get());
    const bool is_meant = is_common     ? !its_id.empty()
                          : !id.empty() ? its_id == id
                                        : checksum != 0 && has_checksum(file.get(), checksum);
    if (!is_meant) continue;
    if (is_common) common_build_id_ = its_id;
    found = std::move(path);
    return file.release();
  }
  return -1;
}

bool DebugFiles::has_common_file(Dwarf* dwarf) const {
  const char* name = nullptr;
  const void* id = nullptr;
  const ssize_t bytes = dwelf_dwarf_gnu_debugaltlink(dwarf, &name, &id);
  return bytes <= 0 || text_of(id, bytes) == common_build_id_;
}

std::string DebugFiles::common_file(Dwarf* dwarf) {
  const char* name = nullptr;
  const void* id = nullptr;
  return dwelf_dwarf_gnu_debugaltlink(dwarf, &name, &id) > 0 ? name : "";
}

std::string build_id_path(std::string_view build_id) {
  const std::string digits = hex_text(build_id);
  return "/.build-id/" + digits.substr(0, 2) + "/" + digits.substr(2) + ".debug";
}

std::vector<std::string> debug_folders(const SymbolSearch& search) {
  std::vector<std::string> folders = search.debug_dirs;
  folders.push_back(search.sysroot + std::string(kDefaultDebugDir));
  return folders;
}

void SymbolSearch::add_build_ids() {
  std::map<std::string, std::vector<std::string>> by_id;
  struct stat status {};
  for (const auto& [path, held] : opened) {
    for (const std::string& file : held) by_id[build_id_of(open_elf(file, status).get())] = {file};
  }
  by_id.erase("");
  opened.merge(by_id);
}

const std::vector<std::string>* SymbolSearch::opened_for(const Module& module) const {
  const auto found =
      opened.find(module.build_id.empty() ? without_deleted(module.path) : module.build_id);
  return found != opened.end() ? &found->second : nullptr;
}

std::vector<std::string> symbol_files(const Module& module, const SymbolSearch& search) {
  std::vector<std::string> paths{search.sysroot + module.path};
  if (const std::vector<std::string>* held = search.opened_for(module)) {
    if (module.build_id.empty()) return held->size() == 1 ? *held : std::vector<std::string>();
    paths.insert(paths.end(), held->begin(), held->end());
  }
  for (const std::string& folder : debug_folders(search)) {
    if (!module.build_id.empty()) paths.push_back(folder + build_id_path(module.build_id));
    paths.push_back(folder + module.path + ".debug");
  }
  for (const std::string& folder : search.debug_dirs) {  // a folder of binaries
    paths.push_back(folder + "/" + std::string(file_name(module.path)));
  }
  return paths;
}

namespace {

constexpr std::string_view kAssignment = "__version__ = ";
constexpr uint64_t kMostOfPackageFile = 4 << 20;

std::string parent_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

/// The __init__.py of the outermost package around the module's file. If the file is not there, the
/// module is in no package.
std::string package_file(const std::string& module_path) {
  std::string file = parent_of(module_path) + "/__init__.py";
  for (;;) {
    std::string outer = parent_of(parent_of(file)) + "/__init__.py";
    if (outer.size() >= file.size() || !is_regular(file) || !is_regular(outer)) return file;
    file = std::move(outer);
  }
}

}  // namespace

std::string package_version(const std::string& module_path) {
  const std::string text = read_regular(package_file(module_path), kMostOfPackageFile).value_or("");
  const size_t at = text.starts_with(kAssignment) ? 0 : text.find(fmt::format("\n{}", kAssignment));
  if (at == std::string::npos) return "";
  const size_t quote = text.find(kAssignment, at) + kAssignment.size();
  if (quote >= text.size() || (text[quote] != '"' && text[quote] != '\'')) return "";
  const size_t end = text.find_first_of("\"'\n", quote + 1);
  if (end == std::string::npos || text[end] != text[quote]) return "";
  return text.substr(quote + 1, end - quote - 1);
}

namespace {

constexpr off_t kMostFileBytes = off_t{16} << 30;
/// The most that a file may unpack to. Real debug information shrinks to a quarter.
constexpr uint64_t kMostRatio = 32, kAlwaysAllowed = 128 << 20;

/// How many bytes an xz stream unpacks to; something more than `most` if it is more than `most`.
uint64_t unpacked_bytes(const Elf_Data& packed, uint64_t most) {
  constexpr uint64_t kMemory = 100 << 20;  // for the decoder's dictionary
  lzma_stream stream = LZMA_STREAM_INIT;
  if (lzma_stream_decoder(&stream, kMemory, 0) != LZMA_OK) return most + 1;
  std::array<uint8_t, 1 << 16> buffer;
  stream.next_in = static_cast<const uint8_t*>(packed.d_buf);
  stream.avail_in = packed.d_size;
  lzma_ret result = LZMA_OK;
  while (result == LZMA_OK && stream.total_out <= most) {
    stream.next_out = buffer.data();
    stream.avail_out = buffer.size();
    result = lzma_code(&stream, LZMA_FINISH);
  }
  const bool is_end = result == LZMA_OK || result == LZMA_STREAM_END || result == LZMA_BUF_ERROR ||
                      result == LZMA_DATA_ERROR ||
                      result == LZMA_FORMAT_ERROR;  // libdw stops there, too
  const uint64_t bytes = is_end ? stream.total_out : most + 1;
  lzma_end(&stream);
  return bytes;
}

/// How many bytes libdw unpacks one section to; 0: it is not packed.
uint64_t unpacked_bytes(Elf* elf, Elf_Scn* section, size_t names, uint64_t most) {
  GElf_Shdr header;
  if (gelf_getshdr(section, &header) == nullptr || header.sh_type == SHT_NOBITS) return 0;
  GElf_Chdr compressed;
  if ((header.sh_flags & SHF_COMPRESSED) != 0)
    return gelf_getchdr(section, &compressed) != nullptr ? compressed.ch_size : 0;
  const char* text = elf_strptr(elf, names, header.sh_name);
  const std::string_view name = text != nullptr ? text : "";
  const bool is_old_kind = name.starts_with(".zdebug");
  if (!is_old_kind && name != ".gnu_debugdata") return 0;
  const Elf_Data* data = elf_rawdata(section, nullptr);
  if (data == nullptr || data->d_buf == nullptr) return 0;
  if (!is_old_kind) return unpacked_bytes(*data, most);
  constexpr std::string_view kMark = "ZLIB";  // followed by the size, big-endian
  uint64_t bytes = 0;
  if (data->d_size < kMark.size() + sizeof bytes ||
      memcmp(data->d_buf, kMark.data(), kMark.size()) != 0)
    return 0;
  memcpy(&bytes, static_cast<const char*>(data->d_buf) + kMark.size(), sizeof bytes);
  return be64toh(bytes);
}

bool is_bounded(int fd, uint64_t file_bytes) {
  const uint64_t most = kAlwaysAllowed + kMostRatio * file_bytes;
  elf_version(EV_CURRENT);
  Elf* elf = elf_begin(fd, ELF_C_READ_MMAP_PRIVATE, nullptr);
  size_t names = 0;
  uint64_t bytes = 0;
  if (elf_getshdrstrndx(elf, &names) == 0) {
    for (Elf_Scn* section = nullptr;
         bytes <= most && (section = elf_nextscn(elf, section)) != nullptr;) {
      const uint64_t more = unpacked_bytes(elf, section, names, most);
      bytes = more > most ? more : bytes + more;
    }
  }
  elf_end(elf);
  return bytes <= most;
}

struct PackedSection {
  Elf64_Shdr header;
  uint64_t header_at;             ///< where its header is in the file
  std::vector<uint8_t> contents;  ///< unpacked
};

/// The most that a section may unpack to, since its header can say anything. Debug information
/// shrinks to a quarter.
constexpr uint64_t kMostTimes = 32, kAlwaysRead = 8 << 20;

/// Unpacks a section. False: it is not packed by zstd, is damaged, or unpacks to too much.
bool unpack(Elf_Scn* section, PackedSection& to) {
  const Elf64_Shdr* header = elf64_getshdr(section);
  const Elf_Data* data = nullptr;
  if (header == nullptr || (header->sh_flags & SHF_COMPRESSED) == 0 ||
      (data = elf_rawdata(section, nullptr)) == nullptr || data->d_size < sizeof(Elf64_Chdr))
    return false;
  Elf64_Chdr packed;
  memcpy(&packed, data->d_buf, sizeof packed);
  if (packed.ch_type != kPackedByZstd || packed.ch_size > data->d_size * kMostTimes + kAlwaysRead)
    return false;
  to.contents.resize(packed.ch_size);
  const size_t bytes = ZSTD_decompress(to.contents.data(), to.contents.size(),
                                       static_cast<const char*>(data->d_buf) + sizeof packed,
                                       data->d_size - sizeof packed);
  to.header = *header;
  to.header.sh_flags &= ~uint64_t{SHF_COMPRESSED};
  to.header.sh_size = packed.ch_size;
  to.header.sh_addralign = packed.ch_addralign;
  return bytes == packed.ch_size;
}

std::vector<PackedSection> packed_by_zstd(int fd) {
  std::vector<PackedSection> found;
  Elf* elf = elf_begin(fd, ELF_C_READ_MMAP_PRIVATE, nullptr);
  const Elf64_Ehdr* header = elf64_getehdr(elf);
  if (header != nullptr && header->e_ident[EI_DATA] == ELFDATA2LSB) {
    for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf, section)) != nullptr;) {
      PackedSection one;
      if (!unpack(section, one)) continue;
      one.header_at = header->e_shoff + elf_ndxscn(section) * header->e_shentsize;
      found.push_back(std::move(one));
    }
  }
  elf_end(elf);
  return found;
}

/// A copy of the file, without a name, with its zstd sections unpacked behind its end: libelf
/// before 0.190 does not know zstd. The file itself if it has no such sections, or if that fails.
Descriptor without_zstd(Descriptor file, uint64_t bytes) {
  std::vector<PackedSection> sections = packed_by_zstd(file.get());
  if (sections.empty()) return file;
  Descriptor copy(memfd_create("gpupeak-elf", MFD_CLOEXEC));
  if (!copy) return file;
  off_t from = 0;
  while (static_cast<uint64_t>(from) < bytes) {
    if (sendfile(copy.get(), file.get(), &from, bytes - static_cast<uint64_t>(from)) <= 0)
      return file;
  }
  constexpr uint64_t kAlignment = 16;
  uint64_t end = bytes;
  for (PackedSection& section : sections) {
    end = (end + kAlignment - 1) / kAlignment * kAlignment;
    section.header.sh_offset = end;
    if (!write_at(copy.get(), section.contents.data(), section.contents.size(), end) ||
        !write_at(copy.get(), &section.header, sizeof section.header, section.header_at))
      return file;
    end += section.contents.size();
  }
  return copy;
}

}  // namespace

Descriptor open_elf(const std::string& path, struct stat& status) {
  Descriptor file = open_regular(path, O_RDONLY, status);
  if (!file) return file;
  char magic[SELFMAG] = {};
  errno = ENXIO;
  if (pread(file.get(), magic, sizeof magic, 0) != sizeof magic ||
      memcmp(magic, ELFMAG, SELFMAG) != 0)
    return Descriptor();
  errno = EFBIG;
  if (status.st_size > kMostFileBytes ||
      !is_bounded(file.get(), static_cast<uint64_t>(status.st_size)))
    return Descriptor();
  return without_zstd(std::move(file), static_cast<uint64_t>(status.st_size));
}

}  // namespace gpupeak::collector
