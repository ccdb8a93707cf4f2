#include "collector/merge/partial_file.h"

#include <fmt/format.h>
#include <zstd.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <stdexcept>

#include "collector/log/mapped_file.h"
#include "collector/log/zstd_packer.h"
#include "collector/merge/record_json.h"
#include "collector/text/error.h"
#include "collector/text/sanitize.h"

namespace gpupeak::collector {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kSchema = "gpupeak.partial/";
constexpr int kVersion = 1;
/// A curve's 128 KiB of steps are less than 1 MiB as text.
constexpr size_t kLongestLine = 16 << 20;
constexpr size_t kLongestFront = 4096;

/// The lines of a zstd file.
class Lines {
 public:
  Lines(const std::string& path, size_t longest)
      : name_(escape(path)), file_(path), in_{file_.data(), file_.bytes(), 0}, longest_(longest) {}

  /// The next line; none after the last one. Throws LogError.
  std::optional<std::string> next() {
    for (;;) {
      const size_t end = text_.find('\n', begin_);
      if (end != std::string::npos) {
        std::string line = text_.substr(begin_, end - begin_);
        begin_ = end + 1;
        ++number_;
        return line;
      }
      text_.erase(0, begin_);
      begin_ = 0;
      if (text_.size() > longest_) fail("has a line that is too long");
      if (!unpack()) break;
    }
    if (!text_.empty()) fail("ends within a line");
    return std::nullopt;
  }

  [[noreturn]] void fail(std::string_view what) const {
    throw LogError(fmt::format("{} {}", name_, what), in_.pos);
  }
  [[noreturn]] void fail_in_line(std::string_view what) const {
    fail(fmt::format("is damaged: line {}: {}", number_, what));
  }

 private:
  bool unpack() {
    if (is_done_) return false;
    char buffer[1 << 16];
    ZSTD_outBuffer out{buffer, sizeof buffer, 0};
    const size_t left = ZSTD_decompressStream(context_.get(), &out, &in_);
    if (ZSTD_isError(left) != 0) fail(fmt::format("is damaged: {}", ZSTD_getErrorName(left)));
    text_.append(buffer, out.pos);
    is_done_ = left == 0;
    if (is_done_ && in_.pos != in_.size) fail("goes on behind its end");
    if (!is_done_ && in_.pos == in_.size && out.pos == 0)
      fail("is cut off: the end of it is missing");
    return true;
  }

  const std::string name_;
  const MappedFile file_;
  ZSTD_inBuffer in_;
  const size_t longest_;
  const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context_{ZSTD_createDCtx(),
                                                                      &ZSTD_freeDCtx};
  std::string text_;
  size_t begin_ = 0, number_ = 0;
  bool is_done_ = false;
};

/// Reads the first line; returns how many logs the file has. Throws LogError.
uint64_t read_front(Lines& lines) {
  const std::optional<std::string> line = lines.next();
  const Json front = line ? Json::parse(*line, nullptr, false) : Json();
  const auto text = [&](const char* key) {
    return front.is_object() && front.contains(key) && front[key].is_string()
               ? front[key].get<std::string>()
               : std::string();
  };
  const std::string schema = text("schema");
  if (!schema.starts_with(kSchema)) lines.fail("is no partial result of gpupeak merge");
  if (schema != fmt::format("{}{}", kSchema, kVersion)) {
    lines.fail(
        fmt::format("is a {}, made by gpupeak {}, which this one does not know: merge it with "
                    "a gpupeak as new as that",
                    escape(schema), escape(text("version"))));
  }
  if (!front.contains("logs") || !front["logs"].is_number_unsigned())
    lines.fail_in_line("does not say how many logs there are");
  return front["logs"].get<uint64_t>();
}

std::span<const uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

}  // namespace

bool is_partial(const std::string& path) {
  try {
    const std::optional<std::string> line = Lines(path, kLongestFront).next();
    return line && line->find(kSchema) != std::string::npos;
  } catch (const LogError&) {
    return false;
  }
}

void write_partial(std::vector<ProcessRecord> records, std::string_view version,
                   std::ostream& out) {
  std::sort(records.begin(), records.end(),
            [](const ProcessRecord& a, const ProcessRecord& b) { return a.id < b.id; });
  ZstdPacker packer(out, ZSTD_CLEVEL_DEFAULT, 0);
  const Json front{{"schema", fmt::format("{}{}", kSchema, kVersion)},
                   {"version", version},
                   {"logs", records.size()}};
  packer.add(bytes_of(front.dump() + "\n"), false);
  for (const ProcessRecord& record : records)
    packer.add(bytes_of(record_text(record) + "\n"), false);
  packer.add({}, true);
}

std::vector<ProcessRecord> read_partial(const std::string& path) {
  Lines lines(path, kLongestLine);
  const uint64_t logs = read_front(lines);
  std::vector<ProcessRecord> records;
  while (const std::optional<std::string> line = lines.next()) {
    try {
      records.push_back(record_of(*line));
    } catch (const std::runtime_error& error) {
      lines.fail_in_line(error.what());
    }
  }
  if (records.size() != logs)
    lines.fail(fmt::format("is damaged: it has {} logs of {}", records.size(), logs));
  return records;
}

}  // namespace gpupeak::collector
