#include "collector/symbols/elf_file.h"

#include <elf.h>
#include <endian.h>
#include <fcntl.h>
#include <gelf.h>
#include <lzma.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>
#include <zstd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "collector/files/regular_file.h"

namespace gpupeak::collector {
namespace {

constexpr off_t kMostBytes = off_t{16} << 30;
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
  if (status.st_size > kMostBytes || !is_bounded(file.get(), static_cast<uint64_t>(status.st_size)))
    return Descriptor();
  return without_zstd(std::move(file), static_cast<uint64_t>(status.st_size));
}

}  // namespace gpupeak::collector
