#include "collector/log/packed_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <future>
#include <sstream>
#include <utility>

#include "collector/files/regular_file.h"
#include "collector/log/parallel.h"
#include "collector/text/error.h"
#include "collector/text/sanitize.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {
namespace {

constexpr uint64_t kMaxLogBytes = uint64_t{1} << 42;

bool has_room(const std::string& folder, uint64_t bytes) {
  struct statvfs disk {};
  return access(folder.c_str(), W_OK) == 0 && statvfs(folder.c_str(), &disk) == 0 &&
         disk.f_bavail >= bytes / disk.f_frsize;
}

std::string folder_for(uint64_t bytes, const std::string& log) {
  const char* variable = getenv("TMPDIR");
  const std::string usual = variable != nullptr && *variable != 0 ? variable : "/tmp";
  if (has_room(usual, bytes)) return usual;
  const std::string beside = folder_of(log);
  return has_room(beside, bytes) ? beside : usual;
}

// The file into which a packed log is unpacked. Nobody else sees it, and it goes away with its
// descriptor.

/// All functions throw LogError if the file cannot be made or written.
class TemporaryLog {
 public:
  /// `bytes`: the size of the log, as far as it is known. The file is in TMPDIR or /tmp, or in the
  /// folder of `package` if only that has room: there the log once lay unpacked. `name`: the
  /// package's, escaped, for errors; it must outlive this.
  TemporaryLog(const std::string& name, uint64_t bytes, const std::string& package)
      : name_(name),
        folder_(folder_for(bytes, package)),
        file_(open(folder_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)) {
    if (file_) return;
    std::string path = folder_ + "/gpupeak-XXXXXX";  // not all file systems have O_TMPFILE
    file_ = Descriptor(mkostemp(path.data(), O_CLOEXEC));
    if (!file_) fail();
    unlink(path.c_str());
  }

  /// Several threads may write at the same time, each to its own place.
  void write_at(uint64_t place, const char* bytes, size_t size) const {
    const bool zeros = std::all_of(bytes, bytes + size, [](char byte) { return byte == 0; });
    if (!zeros && !collector::write_at(file_.get(), bytes, size, place)) fail();
  }
  /// Makes the log longer by `bytes`. Returns where the new part begins.
  uint64_t grow(uint64_t bytes) {
    if (bytes > kMaxLogBytes - bytes_)
      throw LogError(name_ + " unpacks to more than 4 TiB", bytes_);
    bytes_ += bytes;
    return bytes_ - bytes;
  }
  uint64_t bytes() const { return bytes_; }
  /// Returns the descriptor, which is then the caller's. Takes room on the disk for all of the
  /// file, holes too: without room, reading a hole would be a SIGBUS.
  int release() {
    const auto end = static_cast<off_t>(bytes_);
    if (ftruncate(file_.get(), end) != 0) fail();
    if (end > 0 && fallocate(file_.get(), 0, 0, end) != 0 && (errno == ENOSPC || errno == EDQUOT))
      fail();
    return file_.release();
  }

 private:
  [[noreturn]] void fail() const {
    throw LogError("cannot unpack " + name_ + " into " + escape(folder_) +
                       " (TMPDIR names another folder): " + strerror(errno),
                   bytes_);
  }

  const std::string& name_;
  const std::string folder_;
  Descriptor file_;
  uint64_t bytes_ = 0;
};

constexpr uint32_t kFirstSkippable = 0x184D2A50, kLastSkippable = 0x184D2A5F;
/// A package may claim to hold more than any disk has, so its content is bounded by its size;
/// columns shrink most. Zeros are not written to the disk but count here: a reader of a hole in a
/// tmpfs is given memory for it.
constexpr uint64_t kMaxRatio = 1000, kMaxColumnsRatio = 20'000, kAlwaysAllowedBytes = 64 << 20;
/// Symbols shrink to a tenth, too, but reading them takes twenty times their size.
constexpr uint64_t kMaxSymbolBytes = uint64_t{1} << 30;
constexpr uint64_t kMaxSymbolRatio = 16, kAlwaysAllowedSymbolBytes = 16 << 20;

uint32_t word_at(std::span<const uint8_t> bytes, size_t at) {
  uint32_t word = 0;
  if (bytes.size() >= at + sizeof word) memcpy(&word, bytes.data() + at, sizeof word);
  return word;
}

bool is_skippable(uint32_t magic) {
  return magic >= kFirstSkippable && magic <= kLastSkippable;
}

/// If this skippable frame says that a log's columns follow: how many bytes of the log they stand
/// for. Throws LogError for columns of another version.
std::optional<uint64_t> columns_told(std::span<const uint8_t> frame, const std::string& name) {
  const size_t size =
      std::min<size_t>(word_at(frame, sizeof(uint32_t)), frame.size() - kSkippableHeader);
  const std::string_view text(reinterpret_cast<const char*>(frame.data()) + kSkippableHeader, size);
  if (!text.starts_with(kAnyColumnsFollow)) return std::nullopt;
  uint64_t bytes;
  if (!text.starts_with(kColumnsFollow) || size != kColumnsFollow.size() + sizeof bytes)
    throw LogError(
        name + " is damaged, or was packed by another version of gpupeak, which reads it", 0);
  memcpy(&bytes, text.data() + kColumnsFollow.size(), sizeof bytes);
  return bytes;
}

/// A frame with content, and what the skippable ones before it say of it.
struct Section {
  enum Kind { kLog, kInColumns, kSymbols };
  Kind kind = kLog;
  std::span<const uint8_t> frame;
  uint64_t log_bytes = 0;  ///< 0: not known
};

uint64_t content_bytes(std::span<const uint8_t> frame) {
  const unsigned long long bytes = ZSTD_getFrameContentSize(frame.data(), frame.size());
  return bytes == ZSTD_CONTENTSIZE_ERROR || bytes == ZSTD_CONTENTSIZE_UNKNOWN ? 0 : bytes;
}

/// The sections of a package, at most `most`. A frame without an end is taken as the last one:
/// unpacking it says what is wrong.
std::vector<Section> sections_of(std::span<const uint8_t> file, const std::string& name,
                                 size_t most = SIZE_MAX) {
  std::vector<Section> sections;
  bool symbols_follow = false;
  bool columns_follow = false;
  uint64_t told_bytes = 0;
  while (!file.empty() && sections.size() < most) {
    size_t taken = 0;
    if (is_skippable(word_at(file, 0)) && file.size() >= kSkippableHeader) {
      const size_t bytes = word_at(file, sizeof(uint32_t));
      if (bytes > file.size() - kSkippableHeader)
        throw LogError(name + " is cut off: the end of it is missing", 0);
      const auto* text = reinterpret_cast<const char*>(file.data() + kSkippableHeader);
      symbols_follow |= std::string_view(text, bytes) == kSymbolsFollow;
      if (const auto told = columns_told(file, name)) {
        columns_follow = true;
        told_bytes = *told;
      }
      taken = kSkippableHeader + bytes;
    } else {
      const size_t bytes = ZSTD_findFrameCompressedSize(file.data(), file.size());
      taken = ZSTD_isError(bytes) != 0 ? file.size() : bytes;
      const auto frame = file.first(taken);
      if (symbols_follow)
        sections.push_back({Section::kSymbols, frame, 0});
      else if (columns_follow)
        sections.push_back({Section::kInColumns, frame, told_bytes});
      else
        sections.push_back({Section::kLog, frame, content_bytes(frame)});
      columns_follow = false;
    }
    file = file.subspan(taken);
  }
  return sections;
}

using Sink = std::function<void(const char* bytes, size_t size)>;

/// Unpacks one frame. Stops as soon as `goes_on`, if it is given, returns false.
void unpack_frame(std::span<const uint8_t> from, const std::string& name, const Sink& sink,
                  const std::function<bool()>& goes_on = {}) {
  const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context(ZSTD_createDCtx(),
                                                                     &ZSTD_freeDCtx);
  std::vector<char> buffer(ZSTD_DStreamOutSize());
  ZSTD_inBuffer in{from.data(), from.size(), 0};
  for (;;) {
    ZSTD_outBuffer out{buffer.data(), buffer.size(), 0};
    const size_t left = ZSTD_decompressStream(context.get(), &out, &in);
    if (ZSTD_isError(left) != 0)
      throw LogError(name + " is damaged: " + ZSTD_getErrorName(left), in.pos);
    sink(buffer.data(), out.pos);
    if (left == 0 || (goes_on && !goes_on())) return;
    if (in.pos == in.size && out.pos < out.size)
      throw LogError(name + " is cut off: the end of it is missing", in.pos);
  }
}

/// How many parts are unpacked at the same time. Each takes up to 60 MiB, and writing the log is
/// half of the work.
constexpr size_t kMostUnpacked = 8;

/// Takes a log out of the sections of its package.
class Unpacker {
 public:
  Unpacker(const std::string& path, size_t file_bytes, const std::vector<Section>& sections,
           Extent extent)
      : name_(escape(path)),
        sections_(sections),
        extent_(extent),
        file_bytes_(file_bytes),
        log_(name_, told_bytes(), path) {
    const bool has_columns = !sections.empty() && sections.front().kind == Section::kInColumns;
    const uint64_t ratio = has_columns ? kMaxColumnsRatio : kMaxRatio;
    allowed_bytes_ = extent == Extent::kAll ? kAlwaysAllowedBytes + file_bytes * ratio
                                            : most_read_bytes(file_bytes);
    allowed_symbol_bytes_ =
        std::min(kMaxSymbolBytes, kAlwaysAllowedSymbolBytes + file_bytes * kMaxSymbolRatio);
  }

  Unpacked unpack() {
    if (const uint64_t told = told_bytes(); told > allowed_bytes_) refuse(told);
    for (size_t i = 0; i < sections_.size();) {
      size_t end = i + 1;
      if (sections_[i].kind == Section::kInColumns) {
        while (end < sections_.size() && sections_[end].kind == Section::kInColumns) ++end;
        unpack_columns(std::span(sections_).subspan(i, end - i));
      } else {
        unpack_section(sections_[i]);
      }
      i = end;
    }
    result_.fd = log_.release();
    return std::move(result_);
  }

 private:
  uint64_t told_bytes() const { return sum_of(sections_, &Section::log_bytes); }
  uint64_t grow_log(uint64_t bytes) {
    const uint64_t begin = log_.grow(bytes);
    if (log_.bytes() > allowed_bytes_) refuse(log_.bytes());
    return begin;
  }
  /// Throws LogError: the log has `bytes` or more.
  [[noreturn]] void refuse(uint64_t bytes) const {
    const std::string far = fmt::format("{} unpacks to {} and more, {} times its size", name_,
                                        size_text(bytes), bytes / file_bytes_);
    if (extent_ == Extent::kAll) throw LogError(far + ": it is no log", 0);
    throw LogError(fmt::format("{}, which is not read: `gpupeak bundle --undo {}` writes the log "
                               "that is in it, which every verb reads",
                               far, name_),
                   0);
  }

  void unpack_section(const Section& section) {
    if (section.kind == Section::kLog) {
      unpack_frame(section.frame, name_, [this](const char* bytes, size_t size) {
        log_.write_at(grow_log(size), bytes, size);
      });
      return;
    }
    unpack_frame(section.frame, name_, [this](const char* bytes, size_t size) {
      result_.symbols.append(bytes, size);
      if (result_.symbols.size() > allowed_symbol_bytes_)
        throw LogError(name_ + " is no bundle: its symbols have no end", 0);
    });
  }

  void unpack_columns(std::span<const Section> parts) {
    std::vector<uint64_t> begins;
    for (const Section& part : parts) begins.push_back(grow_log(part.log_bytes));
    in_parallel(
        parts.size(), 1, [&](size_t i, size_t) { join_part(parts[i], begins[i]); }, kMostUnpacked);
  }
  /// Puts the blocks of a part into the log, from `at` on.
  void join_part(const Section& part, uint64_t at) const {
    const uint64_t end = at + part.log_bytes;
    const auto check = [&](bool is_right) {
      if (!is_right) throw LogError(name_ + " is damaged: its columns are not what it says", at);
    };
    ColumnCutter cutter(name_);
    unpack_frame(part.frame, name_, [&](const char* bytes, size_t size) {
      cutter.take(bytes, size, [&](const ColumnBlock& block) {
        check(block.stretch_bytes <= end - at);
        join_columns(block, name_, [&](const char* piece, size_t piece_bytes) {
          log_.write_at(at, piece, piece_bytes);
          at += piece_bytes;
        });
      });
    });
    cutter.finish();
    check(at == end);
  }

  const std::string name_;
  const std::vector<Section>& sections_;
  const Extent extent_;
  const uint64_t file_bytes_;
  TemporaryLog log_;
  uint64_t allowed_bytes_ = 0, allowed_symbol_bytes_ = 0;
  Unpacked result_;
};

constexpr size_t kStepBytes = 4 << 20;

/// Returns how many bytes it has written.
uint64_t pack_frame(std::span<const uint8_t> from, std::ostream& out, const Progress& progress,
                    const Packing& packing) {
  ZstdPacker packer(out, packing.level, packing.threads);
  packer.pledge(from.size());
  for (size_t done = 0; out;) {
    const size_t step = std::min(kStepBytes, from.size() - done);
    const bool last = done + step == from.size();
    packer.add(from.subspan(done, step), last);
    done += step;
    if (progress) progress(done, from.size());
    if (last) break;
  }
  return packer.written();
}

void write_skippable(std::string_view text, std::ostream& out) {
  const uint32_t header[] = {GPUPEAK_PACKED_MAGIC, static_cast<uint32_t>(text.size())};
  static_assert(sizeof header == kSkippableHeader);
  out.write(reinterpret_cast<const char*>(header), sizeof header);
  out << text;
}

/// Joins the block again and compares: a block counts only if it gives the stretch again, since the
/// log itself will be deleted.
void check_block(const ColumnBlock& block, std::span<const uint8_t> stretch) {
  join_columns(block, "it", [&stretch](const char* bytes, size_t size) {
    if (size > stretch.size() || memcmp(bytes, stretch.data(), size) != 0)
      throw std::runtime_error("it cannot be packed without loss");
    stretch = stretch.subspan(size);
  });
}

/// How many stretches a part has. Parts are packed and unpacked at the same time, each by a thread,
/// which takes some 100 MiB to pack one. Smaller parts would keep more processors busy but leave
/// more bytes, since zstd does not look from one part into another.
constexpr size_t kPartStretches = 2;

/// A frame of columns, and before it a skippable one that says so.
struct PackedPart {
  std::string frames;
  uint64_t log_bytes = 0;
};

size_t part_bytes(std::span<const uint8_t> log, size_t begin) {
  size_t bytes = 0;
  for (size_t i = 0; i < kPartStretches; ++i) bytes += stretch_bytes(log, begin + bytes);
  return bytes;
}

PackedPart pack_part(std::span<const uint8_t> log, int level) {
  std::string told(kColumnsFollow);
  const uint64_t size = log.size();
  told.append(reinterpret_cast<const char*>(&size), sizeof size);
  std::ostringstream out;
  write_skippable(told, out);
  ZstdPacker packer(out, level, 0);
  for (size_t done = 0; done < log.size();) {
    const auto stretch = log.subspan(done, stretch_bytes(log, done));
    const ColumnBlock block{split_columns(stretch), stretch.size()};
    check_block(block, stretch);
    packer.add(block.bytes, false);
    done += stretch.size();
  }
  packer.add({}, true);
  return {std::move(out).str(), log.size()};
}

/// Returns how many bytes it has written.
uint64_t pack_columns(std::span<const uint8_t> log, std::ostream& out, const Progress& progress,
                      const Packing& packing) {
  const auto at_once = static_cast<size_t>(std::max(packing.threads, 1));
  std::deque<std::future<PackedPart>> packing_now;
  uint64_t packed = 0;
  for (size_t begun = 0, done = 0; done < log.size() && out;) {
    while (begun < log.size() && packing_now.size() < at_once) {
      const auto part = log.subspan(begun, part_bytes(log, begun));
      begun += part.size();
      packing_now.push_back(std::async(pack_part, part, packing.level));
    }
    const PackedPart part = packing_now.front().get();
    packing_now.pop_front();
    out << part.frames;
    packed += part.frames.size();
    done += part.log_bytes;
    if (progress) progress(done, log.size());
  }
  return packed;
}

uint64_t pack_bundle(std::span<const uint8_t> log, std::string_view symbols, std::ostream& out,
                     const Progress& progress, const Packing& packing) {
  const uint64_t packed = pack_frame(log, out, progress, packing);
  if (symbols.empty()) return packed;
  write_skippable(kSymbolsFollow, out);
  return packed + pack_frame({reinterpret_cast<const uint8_t*>(symbols.data()), symbols.size()},
                             out, {}, packing);
}

}  // namespace

bool is_packed(std::span<const uint8_t> file) {
  const uint32_t magic = word_at(file, 0);
  return magic == ZSTD_MAGICNUMBER || is_skippable(magic);
}

Unpacked unpack(std::span<const uint8_t> file, const std::string& path, Extent extent) {
  const std::vector<Section> sections = sections_of(file, escape(path));
  return Unpacker(path, file.size(), sections, extent).unpack();
}

std::vector<uint8_t> unpack_front(std::span<const uint8_t> file, const std::string& path,
                                  size_t bytes) {
  const std::string name = escape(path);
  std::vector<uint8_t> front;
  const Sink keep = [&](const char* piece, size_t size) {
    front.insert(front.end(), piece, piece + std::min(size, bytes - front.size()));
  };
  const auto goes_on = [&] { return front.size() < bytes; };
  const std::vector<Section> sections = sections_of(file, name, 1);
  const Section first = sections.empty() ? Section() : sections.front();
  ColumnCutter cutter(name);
  const Sink join = [&](const char* piece, size_t size) {
    cutter.take(piece, size, [&](const ColumnBlock& block) { join_columns(block, name, keep); });
  };
  unpack_frame(first.frame, name, first.kind == Section::kInColumns ? join : keep, goes_on);
  return front;
}

ZstdPacker::ZstdPacker(std::ostream& out, int level, int threads)
    : out_(out), context_(ZSTD_createCCtx(), &ZSTD_freeCCtx), buffer_(ZSTD_CStreamOutSize()) {
  ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_compressionLevel, level);
  ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_nbWorkers, threads);
  ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_checksumFlag, 1);
  // Programs repeat themselves at longer distances than a level looks back. A larger window would
  // find more, but whoever unpacks needs memory for all of it.
  constexpr int kWindowBits = 25;
  constexpr int kJobBytes = 8 << 20;  // by default a thread takes four windows at a time
  ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_enableLongDistanceMatching, 1);
  ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_windowLog, kWindowBits);
  if (threads > 0) ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_jobSize, kJobBytes);
}

void ZstdPacker::add(std::span<const uint8_t> piece, bool last) {
  ZSTD_inBuffer in{piece.data(), piece.size(), 0};
  for (bool more = true; more && out_;) {
    ZSTD_outBuffer to{buffer_.data(), buffer_.size(), 0};
    const size_t left =
        ZSTD_compressStream2(context_.get(), &to, &in, last ? ZSTD_e_end : ZSTD_e_continue);
    if (ZSTD_isError(left) != 0) throw std::runtime_error(ZSTD_getErrorName(left));
    out_.write(buffer_.data(), static_cast<std::streamsize>(to.pos));
    written_ += to.pos;
    more = last ? left != 0 : in.pos != in.size;
  }
}

void write_packed(std::span<const uint8_t> log, std::string_view symbols, std::ostream& out,
                  const Progress& progress, const Packing& packing) {
  if (packing.in_place)
    write_skippable({GPUPEAK_PACKED_TEXT, sizeof gpupeak_packed_mark::text}, out);
  const uint64_t packed = packing.in_place ? pack_columns(log, out, progress, packing)
                                           : pack_bundle(log, symbols, out, progress, packing);
  if (out && log.size() > most_read_bytes(packed))
    throw TooUniform(fmt::format("it is too uniform: {} would be {}, and no verb would read it",
                                 size_text(log.size()), size_text(packed)));
}

}  // namespace gpupeak::collector
