#include "collector/log/packed_log.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "collector/log/log_columns.h"
#include "collector/log/parallel.h"
#include "collector/log/zstd_packer.h"
#include "collector/text/error.h"
#include "collector/text/sanitize.h"
#include "gpupeak/log_format.h"

namespace gpupeak::collector {
namespace {

constexpr std::string_view kSymbolsFollow = "gpupeak.symbols/1";
constexpr std::string_view kAnyColumnsFollow = "gpupeak.columns/";
constexpr std::string_view kColumnsFollow = "gpupeak.columns/2";  // and how many bytes they are
constexpr uint32_t kFirstSkippable = 0x184D2A50, kLastSkippable = 0x184D2A5F;
constexpr size_t kSkippableHeader = 8;
constexpr size_t kStepBytes = 4 << 20;
/// A package may claim to hold more than any disk has. Real logs shrink to a tenth. Zeros are not
/// written but count: who reads a hole of a tmpfs is given memory for it.
constexpr uint64_t kMaxRatio = 1000, kAlwaysAllowedBytes = 64 << 20;
/// A loop of the same two calls leaves next to nothing in its columns. What would be more than this
/// is not packed.
constexpr uint64_t kMaxColumnsRatio = 20'000;
constexpr uint64_t kMaxSymbolBytes = uint64_t{1} << 30;
constexpr uint64_t kMaxLogBytes = uint64_t{1} << 42;

uint32_t word_at(std::span<const uint8_t> bytes, size_t at) {
  uint32_t word = 0;
  if (bytes.size() >= at + sizeof word) memcpy(&word, bytes.data() + at, sizeof word);
  return word;
}

bool is_skippable(uint32_t magic) {
  return magic >= kFirstSkippable && magic <= kLastSkippable;
}

/// Of a skippable frame that says so, what follows being a log's columns.
std::optional<uint64_t> bytes_of_columns(std::span<const uint8_t> frame) {
  uint64_t bytes;
  const size_t size = word_at(frame, sizeof(uint32_t));
  if (size != kColumnsFollow.size() + sizeof bytes || size > frame.size() - kSkippableHeader)
    return std::nullopt;
  const uint8_t* text = frame.data() + kSkippableHeader;
  if (memcmp(text, kColumnsFollow.data(), kColumnsFollow.size()) != 0) return std::nullopt;
  memcpy(&bytes, text + kColumnsFollow.size(), sizeof bytes);
  return bytes;
}

/// Whether a skippable frame says so. Throws LogError for columns of another version.
bool columns_follow_it(std::span<const uint8_t> frame, const std::string& name) {
  if (bytes_of_columns(frame)) return true;
  const auto* text = reinterpret_cast<const char*>(frame.data()) + kSkippableHeader;
  const size_t size =
      std::min<size_t>(word_at(frame, sizeof(uint32_t)), frame.size() - kSkippableHeader);
  if (std::string_view(text, size).starts_with(kAnyColumnsFollow))
    throw LogError(
        name + " is damaged, or was packed by another version of gpupeak, which reads it", 0);
  return false;
}

/// What the frames say of columns before the first that has content, which is left in `file`.
std::optional<uint64_t> bytes_of_columns_in(std::span<const uint8_t>& file) {
  while (is_skippable(word_at(file, 0)) && file.size() >= kSkippableHeader) {
    if (const auto told = bytes_of_columns(file)) return told;
    const size_t bytes = kSkippableHeader + word_at(file, sizeof(uint32_t));
    file = file.subspan(std::min(bytes, file.size()));
  }
  return std::nullopt;
}

/// What the first frame says of itself; 0: it does not.
uint64_t told_bytes(std::span<const uint8_t> file) {
  if (const auto told = bytes_of_columns_in(file)) return *told;
  const unsigned long long bytes = ZSTD_getFrameContentSize(file.data(), file.size());
  return bytes == ZSTD_CONTENTSIZE_ERROR || bytes == ZSTD_CONTENTSIZE_UNKNOWN ? 0 : bytes;
}

bool has_room(const std::string& folder, uint64_t bytes) {
  struct statvfs disk {};
  return access(folder.c_str(), W_OK) == 0 && statvfs(folder.c_str(), &disk) == 0 &&
         disk.f_bavail >= bytes / disk.f_frsize;
}

/// TMPDIR or /tmp; the log's own folder, where it once lay unpacked, if only that has room.
std::string folder_for(uint64_t bytes, const std::string& log) {
  const char* variable = getenv("TMPDIR");
  const std::string usual = variable != nullptr && *variable != 0 ? variable : "/tmp";
  if (has_room(usual, bytes)) return usual;
  const std::string own = std::filesystem::path(log).parent_path().string();
  const std::string beside = own.empty() ? "." : own;
  return has_room(beside, bytes) ? beside : usual;
}

/// The unpacked log: a file that no one else sees and that goes away with its descriptor.
class TemporaryLog {
 public:
  TemporaryLog(const std::string& name, const std::string& folder) : name_(name), folder_(folder) {
    fd_ = open(folder_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd_ >= 0) return;
    std::string path = folder_ + "/gpupeak-XXXXXX";  // not all file systems have O_TMPFILE
    fd_ = mkostemp(path.data(), O_CLOEXEC);
    if (fd_ < 0) fail();
    unlink(path.c_str());
  }
  ~TemporaryLog() {
    if (fd_ >= 0) close(fd_);
  }
  TemporaryLog(const TemporaryLog&) = delete;
  TemporaryLog& operator=(const TemporaryLog&) = delete;

  /// Several threads may write, each elsewhere.
  void write_at(uint64_t place, const char* bytes, size_t size) const {
    const bool zeros = std::all_of(bytes, bytes + size, [](char byte) { return byte == 0; });
    for (size_t done = 0; !zeros && done < size;) {
      const ssize_t written =
          pwrite(fd_, bytes + done, size - done, static_cast<off_t>(place + done));
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) fail();
      done += static_cast<size_t>(written);
    }
  }
  /// Room for so much more. Returns where it begins.
  uint64_t grow(uint64_t bytes) {
    bytes_ += bytes;
    if (bytes_ > kMaxLogBytes) throw LogError(name_ + " unpacks to more than 4 TiB", bytes_);
    return bytes_ - bytes;
  }
  uint64_t bytes() const { return bytes_; }
  /// With room for all of it, holes too: where there is none, reading one would be a SIGBUS.
  int release() {
    const auto end = static_cast<off_t>(bytes_);
    if (ftruncate(fd_, end) != 0) fail();
    if (end > 0 && fallocate(fd_, 0, 0, end) != 0 && (errno == ENOSPC || errno == EDQUOT)) fail();
    return std::exchange(fd_, -1);
  }

 private:
  [[noreturn]] void fail() const {
    throw LogError("cannot unpack " + name_ + " into " + escape(folder_) +
                       " (TMPDIR names another folder): " + strerror(errno),
                   bytes_);
  }

  const std::string& name_;
  const std::string folder_;
  int fd_ = -1;
  uint64_t bytes_ = 0;
};

using Sink = std::function<void(const char* bytes, size_t size)>;

/// Unpacks one frame, as long as `goes_on`, if there is one, says so. Returns how many bytes of
/// `from` it takes.
size_t unpack_frame(ZSTD_DCtx* context, std::span<const uint8_t> from, const std::string& name,
                    const Sink& sink, const std::function<bool()>& goes_on = {}) {
  std::vector<char> buffer(ZSTD_DStreamOutSize());
  ZSTD_inBuffer in{from.data(), from.size(), 0};
  ZSTD_DCtx_reset(context, ZSTD_reset_session_only);
  for (;;) {
    ZSTD_outBuffer out{buffer.data(), buffer.size(), 0};
    const size_t left = ZSTD_decompressStream(context, &out, &in);
    if (ZSTD_isError(left) != 0) {
      throw LogError(name + " is damaged: " + ZSTD_getErrorName(left), in.pos);
    }
    sink(buffer.data(), out.pos);
    if (left == 0 || (goes_on && !goes_on())) return in.pos;
    if (in.pos == in.size && out.pos < out.size) {
      throw LogError(name + " is cut off: the end of it is missing", in.pos);
    }
  }
}

void pack_frame(std::span<const uint8_t> from, std::ostream& out, const Progress& progress,
                const Packing& packing) {
  ZstdPacker packer(out, packing.level, packing.threads);
  packer.pledge(from.size());
  for (size_t done = 0; out;) {
    const size_t step = std::min(kStepBytes, from.size() - done);
    const bool last = done + step == from.size();
    packer.add(from.subspan(done, step), last);
    done += step;
    if (progress) progress(done, from.size());
    if (last) return;
  }
}

void write_skippable(std::string_view text, std::ostream& out) {
  const uint32_t header[] = {GPUPEAK_PACKED_MAGIC, static_cast<uint32_t>(text.size())};
  static_assert(sizeof header == kSkippableHeader);
  out.write(reinterpret_cast<const char*>(header), sizeof header);
  out << text;
}

/// That what was split is joined again to what it was: asked of each block before it counts, since
/// the log itself will go.
void check_block(const ColumnBlock& block, std::span<const uint8_t> stretch) {
  join_columns(block, "it", [&stretch](const char* bytes, size_t size) {
    if (size > stretch.size() || memcmp(bytes, stretch.data(), size) != 0)
      throw std::runtime_error("it cannot be packed without loss");
    stretch = stretch.subspan(size);
  });
}

ColumnBlock checked_block(std::span<const uint8_t> stretch) {
  ColumnBlock block;
  block.stretch_bytes = stretch.size();
  ColumnSplitter().split(stretch, block.bytes);
  check_block(block, stretch);
  return block;
}

/// Blocks that are made or joined at the same time, each by a thread. To make one takes twice a
/// stretch of memory, 32 MiB; to join one takes the block alone, some 10 MiB.
constexpr size_t kMostMade = 4, kMostJoined = 8;

void pack_columns(std::span<const uint8_t> log, std::ostream& out, const Progress& progress,
                  const Packing& packing) {
  std::string told(kColumnsFollow);
  const uint64_t size = log.size();
  told.append(reinterpret_cast<const char*>(&size), sizeof size);
  write_skippable(told, out);
  ZstdPacker packer(out, packing.level, packing.threads);
  std::deque<std::future<ColumnBlock>> making;
  const size_t at_once = std::min(kMostMade, usable_processors());
  for (size_t begun = 0, done = 0; done < log.size() && out;) {
    while (begun < log.size() && making.size() < at_once) {
      const auto stretch = log.subspan(begun, ColumnSplitter::stretch(log, begun));
      begun += stretch.size();
      making.push_back(std::async(checked_block, stretch));
    }
    const ColumnBlock block = making.front().get();
    making.pop_front();
    packer.add(block.bytes, false);
    done += block.stretch_bytes;
    if (progress) progress(done, log.size());
  }
  packer.add({}, true);
  if (out && log.size() / kMaxColumnsRatio > packer.written())
    throw std::runtime_error("it is too uniform");
}

/// Puts the blocks of columns into the log, several at once.
class LogJoiner {
 public:
  LogJoiner(const std::string& name, TemporaryLog& log) : name_(name), log_(log), cutter_(name) {}

  /// `check` is called when the log has become longer.
  void take(const char* bytes, size_t size, const std::function<void()>& check) {
    cutter_.take(bytes, size, [&](ColumnBlock block) {
      const uint64_t place = log_.grow(block.stretch_bytes);
      check();
      if (joining_.size() == at_once_) finish_first();
      joining_.push_back(std::async([this, place, block = std::move(block)] {
        uint64_t at = place;
        join_columns(block, name_, [&](const char* piece, size_t piece_bytes) {
          log_.write_at(at, piece, piece_bytes);
          at += piece_bytes;
        });
      }));
    });
  }
  void finish() {
    join_rest();
    cutter_.finish();
  }
  /// What a block is found to be is said before what is found behind it, however many are joined at
  /// once.
  void join_rest() {
    while (!joining_.empty()) finish_first();
  }

 private:
  void finish_first() {
    std::future<void> first = std::move(joining_.front());
    joining_.pop_front();
    first.get();
  }

  const std::string& name_;
  TemporaryLog& log_;
  ColumnCutter cutter_;
  const size_t at_once_ = std::min(kMostJoined, usable_processors());
  std::deque<std::future<void>> joining_;
};

}  // namespace

bool is_packed(std::span<const uint8_t> file) {
  const uint32_t magic = word_at(file, 0);
  return magic == ZSTD_MAGICNUMBER || is_skippable(magic);
}

Unpacked unpack(std::span<const uint8_t> file, const std::string& path) {
  const std::string name = escape(path);
  const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context(ZSTD_createDCtx(),
                                                                     &ZSTD_freeDCtx);
  TemporaryLog log(name, folder_for(told_bytes(file), path));
  Unpacked result;
  auto front = file;
  const uint64_t ratio = bytes_of_columns_in(front) ? kMaxColumnsRatio : kMaxRatio;
  const uint64_t allowed_bytes = kAlwaysAllowedBytes + file.size() * ratio;
  const auto check_ratio = [&] {
    if (log.bytes() <= allowed_bytes) return;
    throw LogError(
        name + " is no log: it unpacks to more than " + std::to_string(ratio) + " times its size",
        0);
  };
  const Sink to_log = [&](const char* bytes, size_t size) {
    log.write_at(log.grow(size), bytes, size);
    check_ratio();
  };
  const Sink to_symbols = [&](const char* bytes, size_t size) {
    result.symbols.append(bytes, size);
    if (result.symbols.size() > std::min(kMaxSymbolBytes, allowed_bytes)) {
      throw LogError(name + " is no bundle: its symbols have no end", 0);
    }
  };
  bool symbols_follow = false, columns_follow = false;
  while (!file.empty()) {
    size_t taken = 0;
    if (is_skippable(word_at(file, 0)) && file.size() >= kSkippableHeader) {
      const size_t bytes = word_at(file, sizeof(uint32_t));
      if (bytes > file.size() - kSkippableHeader) {
        throw LogError(name + " is cut off: the end of it is missing", 0);
      }
      const auto* text = reinterpret_cast<const char*>(file.data() + kSkippableHeader);
      symbols_follow |= std::string_view(text, bytes) == kSymbolsFollow;
      columns_follow |= columns_follow_it(file, name);
      taken = kSkippableHeader + bytes;
    } else if (columns_follow && !symbols_follow) {
      LogJoiner joiner(name, log);
      try {
        taken = unpack_frame(context.get(), file, name, [&](const char* bytes, size_t size) {
          joiner.take(bytes, size, check_ratio);
        });
      } catch (const LogError&) {
        joiner.join_rest();
        throw;
      }
      joiner.finish();
      columns_follow = false;
    } else {
      taken = unpack_frame(context.get(), file, name, symbols_follow ? to_symbols : to_log);
    }
    file = file.subspan(taken);
  }
  result.fd = log.release();
  return result;
}

std::vector<uint8_t> unpack_front(std::span<const uint8_t> file, const std::string& path,
                                  size_t bytes) {
  const std::string name = escape(path);
  const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context(ZSTD_createDCtx(),
                                                                     &ZSTD_freeDCtx);
  std::vector<uint8_t> front;
  const Sink keep = [&](const char* piece, size_t size) {
    front.insert(front.end(), piece, piece + std::min(size, bytes - front.size()));
  };
  const auto goes_on = [&] { return front.size() < bytes; };
  bool has_columns = false;
  while (is_skippable(word_at(file, 0)) && file.size() >= kSkippableHeader) {
    has_columns |= columns_follow_it(file, name);
    const size_t frame = kSkippableHeader + word_at(file, sizeof(uint32_t));
    file = file.subspan(std::min(frame, file.size()));
  }
  ColumnCutter cutter(name);
  const Sink join = [&](const char* piece, size_t size) {
    cutter.take(piece, size, [&](const ColumnBlock& block) { join_columns(block, name, keep); });
  };
  unpack_frame(context.get(), file, name, has_columns ? join : keep, goes_on);
  return front;
}

void write_packed(std::span<const uint8_t> log, std::string_view symbols, std::ostream& out,
                  const Progress& progress, const Packing& packing) {
  if (packing.in_place) {
    write_skippable({GPUPEAK_PACKED_TEXT, sizeof gpupeak_packed_mark::text}, out);
    return pack_columns(log, out, progress, packing);
  }
  pack_frame(log, out, progress, packing);
  if (symbols.empty()) return;
  write_skippable(kSymbolsFollow, out);
  pack_frame({reinterpret_cast<const uint8_t*>(symbols.data()), symbols.size()}, out, {}, packing);
}

}  // namespace gpupeak::collector
