#include "collector/log/log_reader.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <span>
#include <sstream>
#include <utility>

#include "collector/log/packed_log.h"
#include "collector/text/error.h"
#include "collector/text/sanitize.h"

namespace gpupeak::collector {
namespace {

constexpr uint64_t kReleaseStepBytes = 1 << 20;

std::string bounded_string(const char* text, size_t capacity) {
  return escape({text, strnlen(text, capacity)});
}

}  // namespace

LogReader::LogReader(const std::string& path, const Sanitizer& sanitizer)
    : path_(path), definitions_(sanitizer) {
  const std::string symbols = open(path);
  read_header(path);
  clock_ = ClockMap(header_.clock == GPUPEAK_CLOCK_MONOTONIC_NS, header_.start_ticks,
                    header_.start_monotonic_ns);
  find_chunks();
  order_slots();
  read_definitions();
  read_symbols(symbols, path);
  if (counters_.end_monotonic_ns != 0) {
    clock_.add_pair(counters_.end_ticks, counters_.end_monotonic_ns);
  }
  clock_.finish();
}

/// Returns the symbols that a bundle carries.
std::string LogReader::open(const std::string& path) {
  if (const PartName name = part_name(path); name.number != 0) {
    LogReader whole(name.log);
    if (name.number > whole.parts_.size()) {
      throw LogError(path + ": that log has " + std::to_string(whole.parts_.size()) + " parts", 0);
    }
    const LogPart& part = whole.parts_[name.number - 1];
    file_ = std::move(whole.file_);
    file_->narrow(part.begin, part.bytes);
    return "";
  }
  file_ = std::make_unique<MappedFile>(path);
  const std::span<const uint8_t> bytes(file_->data(), file_->bytes());
  if (!is_packed(bytes)) return "";
  Unpacked unpacked = unpack(bytes, path);
  file_ = std::make_unique<MappedFile>(unpacked.fd, path);
  return std::move(unpacked.symbols);
}

void LogReader::read_symbols(const std::string& bundled, const std::string& path) {
  std::string text = bundled;
  std::string name = path;
  if (text.empty()) {
    name += kSymbolsSuffix;
    std::ifstream sidecar(name, std::ios::binary);
    if (!sidecar) return;
    std::ostringstream content;
    content << sidecar.rdbuf();
    text = content.str();
  }
  try {
    symbols_ = SymbolTable(text, header_.cookie);
    const std::vector<Module>& modules = definitions_.modules();
    const bool fits = std::any_of(modules.begin(), modules.end(),
                                  [&](const Module& module) { return symbols_.knows(module); });
    if (!fits && !symbols_.empty()) throw LogError("it is of another program's log", 0);
  } catch (const LogError& error) {
    symbols_problem_ = definitions_.shown(name) + " cannot be used: " + error.what();
  }
}

std::string LogReader::tool_version() const {
  return bounded_string(header_.tool_version, sizeof header_.tool_version);
}

void LogReader::read_header(const std::string& path) {
  const uint64_t bytes = file_->bytes();
  uint64_t magic = 0;
  memcpy(&magic, file_->data(), std::min<uint64_t>(bytes, sizeof magic));
  if (magic != GPUPEAK_LOG_MAGIC) {
    const bool begins_like_one =
        bytes < sizeof magic && (GPUPEAK_LOG_MAGIC & ((UINT64_C(1) << (8 * bytes)) - 1)) == magic;
    if (!begins_like_one) throw LogError(path + " is not a gpupeak log", 0);
  }
  const std::string cut =
      path + " ends inside its header, after " + std::to_string(bytes) + " bytes";
  if (bytes < sizeof header_) throw LogError(cut, bytes);
  memcpy(&header_, file_->data(), sizeof header_);
  if (header_.version > GPUPEAK_LOG_VERSION) {
    throw LogError(path + " is a newer log: version " + std::to_string(header_.version) +
                       ", made by gpupeak " + tool_version() +
                       "; this gpupeak reads up to version " + std::to_string(GPUPEAK_LOG_VERSION),
                   offsetof(gpupeak_file_header, version));
  }
  if (header_.version == 0) {
    throw LogError(path + " is damaged: its version is 0", offsetof(gpupeak_file_header, version));
  }
  if (header_.counters_offset > bytes || bytes - header_.counters_offset < sizeof counters_) {
    if (header_.counters_offset <= GPUPEAK_LOG_PAGE) throw LogError(cut, bytes);
    throw LogError(path + " is damaged: its counters lie outside the file",
                   offsetof(gpupeak_file_header, counters_offset));
  }
  if (header_.chunks_offset % GPUPEAK_LOG_PAGE != 0) {
    throw LogError(path + " is damaged: its chunks do not begin at a page",
                   offsetof(gpupeak_file_header, chunks_offset));
  }
  memcpy(&counters_, file_->data() + header_.counters_offset, sizeof counters_);
}

bool LogReader::read_chunk_header(uint64_t offset, gpupeak_chunk_header& chunk) const {
  if (file_->bytes() - offset < sizeof chunk) return false;
  memcpy(&chunk, file_->data() + offset, sizeof chunk);
  return chunk.magic == GPUPEAK_CHUNK_MAGIC && chunk.check == (header_.cookie ^ offset) &&
         chunk.bytes >= GPUPEAK_LOG_PAGE && chunk.bytes % GPUPEAK_LOG_PAGE == 0;
}

/// Its pages are no chunks of this log: their check is that of another one.
void LogReader::add_part(uint64_t begin, uint64_t end) {
  gpupeak_log_part part;
  gpupeak_file_header header;
  gpupeak_counters_page counters;
  const uint64_t log = begin + GPUPEAK_LOG_PAGE;
  const bool has_page = log <= end;
  if (has_page) memcpy(&part, data() + begin + sizeof(gpupeak_chunk_header), sizeof part);
  if (!has_page || part.bytes > end - log || part.bytes < 2 * GPUPEAK_LOG_PAGE ||
      part.bytes % GPUPEAK_LOG_PAGE != 0) {
    ++damage_.cut_chunks;
    return;
  }
  memcpy(&header, data() + log, sizeof header);
  memcpy(&counters, data() + log + GPUPEAK_LOG_PAGE, sizeof counters);
  parts_.push_back({log,
                    part.bytes,
                    {part.program, strnlen(part.program, sizeof part.program)},
                    header.start_monotonic_ns,
                    counters.device_events});
  used_bytes_ = std::max(used_bytes_, end);
}

void LogReader::find_chunks() {
  uint64_t limit = file_->bytes();
  // The file is longer than what was written, by a hole, which the process cuts off when it ends.
  // Of one that could not, or is still alive, that is not looked at.
  const uint64_t handed_out = counters_.file_bytes;
  constexpr uint64_t kLargestChunk = 1 << 20;
  const bool has_hole = counters_.ended == 0 || limit > handed_out + kLargestChunk;
  if (has_hole && handed_out >= header_.chunks_offset) limit = std::min(limit, handed_out);
  used_bytes_ = std::min(header_.chunks_offset, limit);
  std::map<uint32_t, size_t> slot_index;
  Chunk* previous = nullptr;
  uint64_t released = header_.chunks_offset;
  // Every page is looked at: if the length of a chunk is damaged, those after it are still found.
  for (uint64_t offset = header_.chunks_offset; offset < limit; offset += GPUPEAK_LOG_PAGE) {
    if (offset - released >= kReleaseStepBytes) {
      file_->release(released, offset);
      released = offset;
    }
    gpupeak_chunk_header header;
    if (!read_chunk_header(offset, header)) continue;
    if (header.kind == GPUPEAK_CHUNK_PART) {
      add_part(offset, std::min(offset + header.bytes, limit));
      previous = nullptr;
      continue;
    }
    // A chunk that begins inside another one: the other one's length is damaged.
    if (previous != nullptr && previous->end > offset) {
      previous->end = offset;
      ++damage_.corrupt_chunks;
    }
    const uint64_t end = offset + header.bytes;
    Chunk chunk{offset + sizeof header, std::min(end, limit), header.sequence, header.start_ticks,
                header.tid};
    if (end > limit) ++damage_.cut_chunks;
    used_bytes_ = std::max(used_bytes_, chunk.end);
    clock_.add_pair(header.start_ticks, header.start_monotonic_ns);
    std::vector<Chunk>* list = nullptr;
    if (header.kind == GPUPEAK_CHUNK_DEFINITIONS) {
      list = &definition_chunks_;
    } else if (header.kind == GPUPEAK_CHUNK_EVENTS) {
      auto [entry, added] = slot_index.try_emplace(header.slot, slots_.size());
      if (added) slots_.push_back({header.slot, {}});
      list = &slots_[entry->second].chunks;
    }
    previous = nullptr;
    if (list != nullptr) previous = &list->emplace_back(chunk);
  }
  // A file cut between two chunks looks whole, but for the end that the writer noted.
  if (handed_out > file_->bytes() && damage_.cut_chunks == 0) damage_.cut_chunks = 1;
}

void LogReader::order_slots() {
  const auto by_sequence = [](const Chunk& a, const Chunk& b) { return a.sequence < b.sequence; };
  std::sort(slots_.begin(), slots_.end(),
            [](const Slot& a, const Slot& b) { return a.number < b.number; });
  for (Slot& slot : slots_) {
    std::stable_sort(slot.chunks.begin(), slot.chunks.end(), by_sequence);
    uint64_t expected = 0;
    for (const Chunk& chunk : slot.chunks) {
      if (chunk.sequence != expected) ++damage_.missing_chunks;
      expected = chunk.sequence + 1;
    }
  }
  std::stable_sort(definition_chunks_.begin(), definition_chunks_.end(), by_sequence);
}

void LogReader::read_definitions() {
  uint64_t expected = 0;
  for (const Chunk& chunk : definition_chunks_) {
    if (chunk.sequence != expected) {
      ++damage_.missing_chunks;
      damage_.definitions_lost = true;
      return;
    }
    ++expected;
    if (!definitions_.read(file_->data() + chunk.begin, file_->data() + chunk.end)) {
      ++damage_.corrupt_chunks;
      damage_.definitions_lost = true;
      return;
    }
  }
}

}  // namespace gpupeak::collector
