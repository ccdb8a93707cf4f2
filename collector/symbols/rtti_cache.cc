#include "collector/symbols/rtti_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "collector/symbols/rtti_reader.h"
#include "collector/text/sanitize.h"

namespace gpupeak::collector {
namespace {

// Another number whenever the reader finds more than before.
constexpr std::string_view kMagic = "gpupeak rtti 3\n";
constexpr off_t kMaxCache = 256 << 20;  // bytes; a larger file is none of ours
constexpr mode_t kOthersMayWrite = S_IWGRP | S_IWOTH;

uint64_t checksum(std::string_view bytes) {
  uint64_t mixed = UINT64_C(0xcbf29ce484222325);
  for (size_t i = 0; i < bytes.size(); i += sizeof(uint64_t)) {
    uint64_t word = 0;
    memcpy(&word, bytes.data() + i, std::min(sizeof word, bytes.size() - i));
    mixed = (mixed ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    mixed ^= mixed >> 29;
  }
  return mixed;
}

class Packer {
 public:
  template <typename T>
  void number(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void text(std::string_view value) {
    number(static_cast<uint32_t>(value.size()));
    bytes_ += value;
  }
  std::string bytes_;
};

class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : rest_(bytes) {}
  template <typename T>
  T number() {
    T value{};
    if (rest_.size() < sizeof value) {
      failed_ = true;
      return value;
    }
    memcpy(&value, rest_.data(), sizeof value);
    rest_.remove_prefix(sizeof value);
    return value;
  }
  std::string text() {
    const auto size = number<uint32_t>();
    if (failed_ || size > rest_.size()) {
      failed_ = true;
      return "";
    }
    std::string value(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return value;
  }
  /// How many there are of something that takes at least `least` bytes each.
  uint32_t count(size_t least) {
    const auto value = number<uint32_t>();
    failed_ = failed_ || value > rest_.size() / least;
    return failed_ ? 0 : value;
  }
  bool failed() const { return failed_; }
  bool at_end() const { return !failed_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool failed_ = false;
};

class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

/// The folder, made if need be; empty if there is none to be had.
std::string cache_folder() {
  const char* base = getenv("XDG_CACHE_HOME");
  const char* home = getenv("HOME");
  std::string folder = base != nullptr && *base == '/' ? base : "";
  if (folder.empty()) {
    if (home == nullptr || *home != '/') return "";
    folder = std::string(home) + "/.cache";
  }
  for (const char* part : {"", "/gpupeak", "/rtti"}) {
    folder += part;
    mkdir(folder.c_str(), S_IRWXU);
  }
  return folder;
}

std::optional<RttiTable> load(const std::string& path, std::string_view build_id) {
  const File file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (file.fd() < 0 || fstat(file.fd(), &status) != 0 || !S_ISREG(status.st_mode) ||
      status.st_uid != geteuid() || (status.st_mode & kOthersMayWrite) != 0 ||
      status.st_size > kMaxCache) {
    return std::nullopt;
  }
  std::string bytes(static_cast<size_t>(status.st_size), '\0');
  size_t got = 0;
  while (got < bytes.size()) {
    const ssize_t more = ::read(file.fd(), bytes.data() + got, bytes.size() - got);
    if (more <= 0) return std::nullopt;
    got += static_cast<size_t>(more);
  }
  return unpack_rtti(bytes, build_id);
}

/// Under its name only once it is whole.
void keep(const std::string& path, const std::string& bytes) {
  std::string unfinished = path + ".XXXXXX";
  const File file(mkostemp(unfinished.data(), O_CLOEXEC));
  if (file.fd() < 0) return;
  size_t put = 0;
  while (put < bytes.size()) {
    const ssize_t more = ::write(file.fd(), bytes.data() + put, bytes.size() - put);
    if (more <= 0) break;
    put += static_cast<size_t>(more);
  }
  if (put != bytes.size() || rename(unfinished.c_str(), path.c_str()) != 0) {
    unlink(unfinished.c_str());
  }
}

}  // namespace

std::string pack_rtti(const RttiTable& table, std::string_view build_id) {
  Packer out;
  out.text(build_id);
  out.text(table.version);
  out.number(static_cast<uint32_t>(table.classes.size()));
  for (const RttiTable::Class& c : table.classes) {
    out.text(c.name);
    out.number(c.primary);
    out.number(static_cast<uint32_t>(c.fronts.size()));
    for (const uint32_t front : c.fronts) out.number(front);
  }
  out.number(static_cast<uint32_t>(table.functions.size()));
  for (const RttiTable::Function& f : table.functions) {
    out.number(f.begin);
    out.number(f.end);
    for (const uint32_t number : {f.owner, f.layout, f.slot, f.class_count}) out.number(number);
  }
  Packer head;
  head.bytes_ = kMagic;
  head.number(checksum(out.bytes_));
  return head.bytes_ + out.bytes_;
}

std::optional<RttiTable> unpack_rtti(std::string_view bytes, std::string_view build_id) {
  if (!bytes.starts_with(kMagic)) return std::nullopt;
  bytes.remove_prefix(kMagic.size());
  Unpacker head(bytes);
  const auto sum = head.number<uint64_t>();
  if (head.failed()) return std::nullopt;
  bytes.remove_prefix(sizeof sum);
  if (checksum(bytes) != sum) return std::nullopt;
  Unpacker in(bytes);
  RttiTable table;
  if (in.text() != build_id) return std::nullopt;
  table.version = in.text();
  table.classes.resize(in.count(3 * sizeof(uint32_t)));
  const auto count = static_cast<uint32_t>(table.classes.size());
  bool sound = true;
  const auto index = [&] {
    const auto value = in.number<uint32_t>();
    sound = sound && (value < count || value == RttiTable::kNone);
    return value;
  };
  for (RttiTable::Class& c : table.classes) {
    c.name = in.text();
    c.primary = index();
    c.fronts.resize(in.count(sizeof(uint32_t)));
    for (uint32_t& front : c.fronts) {
      front = index();
      sound = sound && front != RttiTable::kNone;
    }
  }
  table.functions.resize(in.count(2 * sizeof(uint64_t) + 4 * sizeof(uint32_t)));
  uint64_t last = 0;
  for (RttiTable::Function& f : table.functions) {
    f.begin = in.number<uint64_t>();
    f.end = in.number<uint64_t>();
    f.owner = index();
    f.layout = index();
    f.slot = in.number<uint32_t>();
    f.class_count = in.number<uint32_t>();
    sound = sound && f.begin >= last && f.end >= f.begin;
    last = f.end;
  }
  if (!sound || !in.at_end()) return std::nullopt;
  return table;
}

RttiTable cached_rtti(Elf* elf, std::string_view build_id, size_t worth_keeping) {
  size_t bytes = 0;
  if (elf_rawfile(elf, &bytes) == nullptr) return {};
  const std::string folder =
      build_id.empty() || bytes < worth_keeping ? std::string() : cache_folder();
  if (folder.empty()) return read_rtti(elf);
  const std::string path = fmt::format("{}/{}", folder, hex_text(build_id));
  if (auto known = load(path, build_id)) return std::move(*known);
  RttiTable table = read_rtti(elf);
  keep(path, pack_rtti(table, build_id));
  return table;
}

}  // namespace gpupeak::collector
