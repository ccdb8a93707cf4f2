#include "collector/log/log_reader.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>

#include "collector/files/regular_file.h"
#include "collector/log/log_head.h"
#include "collector/log/packed_log.h"
#include "collector/text/error.h"
#include "collector/text/function_names.h"
#include "collector/text/sanitize.h"
#include "gpupeak/memory_kinds.h"

namespace gpupeak::collector {
namespace {

constexpr uint64_t kReleaseStepBytes = 1 << 20;

std::string bounded_string(const char* text, size_t capacity) {
  return escape({text, strnlen(text, capacity)});
}

void sort_by_sequence(std::vector<Chunk>& chunks) {
  std::ranges::stable_sort(chunks, {}, &Chunk::sequence);
}

}  // namespace

LogReader::LogReader(const std::string& path, const Sanitizer& sanitizer, HeapReading heap)
    : path_(path), definitions_(sanitizer) {
  std::string symbols = open(path);
  read_header(path);
  // `run` writes names behind the log of a program that has ended. If it did so since the file was
  // mapped, the counters are newer than what is mapped: that is no log that was cut.
  if (counters_.file_bytes > file_->bytes()) {
    symbols = open(path);
    read_header(path);
  }
  clock_ = ClockMap(header_.clock == GPUPEAK_CLOCK_MONOTONIC_NS, header_.start_ticks,
                    header_.start_monotonic_ns);
  find_chunks(heap == HeapReading::kAll);
  read_definitions();
  if (!reads_heap(heap)) leave_heap_out();
  order_slots();
  read_symbols(symbols, path);
  add_exports();
  if (!symbols_.knows(definitions_.modules()[0]))
    read_code_names(path, header_, counters_, definitions_, symbols_);
  if (counters_.end_monotonic_ns != 0)
    clock_.add_pair(counters_.end_ticks, counters_.end_monotonic_ns);
  clock_.finish();
  model_tensors_ = ModelTensors(*this, definitions_);
  activation_plans_ = ActivationPlans(*this, definitions_);
  require_whole();
}

/// Opens the file, unpacked if need be. Returns the symbols of a bundle.
std::string LogReader::open(const std::string& path) {
  if (const PartName name = part_name(path); name.number != 0) {
    LogReader whole(name.log);
    if (name.number > whole.parts_.size())
      throw LogError(path + ": that log has " + std::to_string(whole.parts_.size()) + " parts", 0);
    const LogPart& part = whole.parts_[name.number - 1];
    file_ = std::move(whole.file_);
    file_->narrow(part.begin, part.bytes);
    given_bytes_ = std::min(whole.given_bytes_, part.bytes);
    return "";
  }
  file_ = std::make_unique<MappedFile>(path);
  const std::span<const uint8_t> bytes(file_->data(), file_->bytes());
  given_bytes_ = bytes.size();
  if (!is_packed(bytes)) return "";
  Unpacked unpacked = unpack(bytes, path, Extent::kToRead);
  file_ = std::make_unique<MappedFile>(unpacked.fd, path);
  return std::move(unpacked.symbols);
}

void LogReader::read_symbols(const std::string& bundled, const std::string& path) {
  std::string text = bundled;
  std::string name = path;
  std::span<const uint8_t> kept;
  if (text.empty()) {
    name += kSymbolsSuffix;
    constexpr uint64_t kMostBytes = uint64_t{1} << 30;
    auto sidecar = read_regular(name, kMostBytes);
    if (!sidecar && errno != ENOENT) {
      symbols_problem_ = definitions_.shown(name) + " cannot be read: " + strerror(errno);
      return;
    }
    if (sidecar) {
      text = *std::move(sidecar);
    } else {
      kept = names_chunk();
      if (kept.empty()) return;
      name = path + ": the names in it";
    }
  }
  try {
    if (!kept.empty()) text = unpack_kept_names(kept);
    symbols_ = SymbolTable(text, header_.cookie);
    const std::vector<Module>& modules = definitions_.modules();
    const bool fits =
        std::ranges::any_of(modules, [&](const Module& module) { return symbols_.knows(module); });
    if (!fits && !symbols_.empty()) throw LogError("it is of another program's log", 0);
  } catch (const LogError& error) {
    symbols_problem_ = definitions_.shown(name) + " cannot be used: " + error.what();
  }
}

/// Finds the names that `gpupeak run` kept in its log. Their chunk is the last one, except for the
/// run's record and marks from outside. Empty: there are none.
std::span<const uint8_t> LogReader::names_chunk() const {
  constexpr uint64_t kLogPage = GPUPEAK_LOG_PAGE;
  constexpr uint64_t kMostBytes = 8 << 20;  // how far from the end it is looked for
  const uint64_t bytes = std::min(used_bytes_, file_->bytes());
  const uint64_t end = bytes / kLogPage * kLogPage;
  for (uint64_t at = end; at >= 2 * kLogPage && end - at <= kMostBytes; at -= kLogPage) {
    gpupeak_chunk_header header;
    if (at + kLogPage > bytes || !read_chunk_header(at, header)) continue;
    if (header.kind == kNamesChunk) {
      const std::span chunk(file_->data() + at, std::min<uint64_t>(header.bytes, bytes - at));
      return chunk.subspan(sizeof header);
    }
    const bool is_of_others =
        header.kind == GPUPEAK_CHUNK_RUN || (header.slot & GPUPEAK_FOREIGN_SLOT) != 0;
    if (!is_of_others) break;
  }
  return {};
}

/// Takes in what the program has logged of libraries whose files were gone before it ended: facts
/// "symbol.MODULE" with address, size and name.
void LogReader::add_exports() {
  constexpr std::string_view kKey = "symbol.";
  struct Export {
    uint64_t bytes;
    std::string_view name;
  };
  std::map<uint32_t, std::map<uint64_t, Export>> of_module;
  for (const auto& [key, value] : definitions_.facts()) {
    if (!key.starts_with(kKey)) continue;
    char* end = nullptr;
    const unsigned long id = strtoul(key.c_str() + kKey.size(), nullptr, 10);
    const uint64_t begin = strtoul(value.c_str(), &end, 10), bytes = strtoul(end, &end, 10);
    if (id > 0 && id < definitions_.modules().size() && *end == ' ')
      of_module[static_cast<uint32_t>(id)][begin] = {bytes, end + 1};
  }
  if (of_module.empty()) return;
  std::erase_if(of_module, [this](const auto& one) {
    return has_kept(symbols_, definitions_.modules()[one.first]);
  });
  for (const StackNode& node : definitions_.nodes()) {
    const auto exports = of_module.find(node.module);
    if (exports == of_module.end()) continue;
    const Module& module = definitions_.modules()[node.module];
    const uint64_t address = node.ip - module.bias - 1;
    auto at = exports->second.upper_bound(address);
    if (at == exports->second.begin() || address - (--at)->first >= at->second.bytes) continue;
    symbols_.add(module, address, {{std::string(at->second.name), "", 0, NameSource::kDynsym}});
    symbols_.add_problem(module, kOnlyExported);
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
  if (header_.version == 0)
    throw LogError(path + " is damaged: its version is 0", offsetof(gpupeak_file_header, version));
  const size_t counters_room = counters_bytes(header_);
  if (header_.counters_offset > bytes || bytes - header_.counters_offset < counters_room) {
    if (header_.counters_offset <= GPUPEAK_LOG_PAGE) throw LogError(cut, bytes);
    throw LogError(path + " is damaged: its counters lie outside the file",
                   offsetof(gpupeak_file_header, counters_offset));
  }
  if (header_.chunks_offset % GPUPEAK_LOG_PAGE != 0)
    throw LogError(path + " is damaged: its chunks do not begin at a page",
                   offsetof(gpupeak_file_header, chunks_offset));
  memcpy(&counters_, file_->data() + header_.counters_offset, counters_room);
}

bool LogReader::read_chunk_header(uint64_t offset, gpupeak_chunk_header& chunk) const {
  if (file_->bytes() - offset < sizeof chunk) return false;
  memcpy(&chunk, file_->data() + offset, sizeof chunk);
  return is_chunk_of(header_, chunk, offset);
}

/// The pages of a part are not taken for chunks of this log: their `check` has the other log's
/// cookie.
void LogReader::add_part(uint64_t begin, uint64_t end) {
  gpupeak_log_part part;
  gpupeak_file_header header;
  uint64_t device_events;
  const uint64_t log = begin + GPUPEAK_LOG_PAGE;
  const bool has_page = log <= end;
  if (has_page) memcpy(&part, data() + begin + sizeof(gpupeak_chunk_header), sizeof part);
  if (!has_page || part.bytes > end - log || part.bytes < 2 * GPUPEAK_LOG_PAGE ||
      part.bytes % GPUPEAK_LOG_PAGE != 0) {
    ++damage_.cut_chunks;
    return;
  }
  memcpy(&header, data() + log, sizeof header);
  memcpy(&device_events,
         data() + log + GPUPEAK_LOG_PAGE + offsetof(gpupeak_counters_page, device_events),
         sizeof device_events);
  parts_.push_back({log,
                    part.bytes,
                    {part.program, strnlen(part.program, sizeof part.program)},
                    header.start_monotonic_ns,
                    device_events});
  used_bytes_ = std::max(used_bytes_, end);
}

bool LogReader::reads_heap(HeapReading heap) const {
  constexpr uint64_t kFewEvents = 10'000;  // some thousandths of a second
  if (heap != HeapReading::kIfFew) return heap == HeapReading::kAll;
  // What is said of a device that has the host's memory is said of the heap, too. A request that
  // was refused is reported with the heap's holders.
  return counters_.device_events == 0 || (counters_.quality & GPUPEAK_Q_HOST_REFUSED) != 0 ||
         definitions_.integrated_devices() != 0 ||
         counters_.heap_alloc_count + counters_.heap_free_count <= kFewEvents;
}

void LogReader::leave_heap_out() {
  left_heap_out_ |= std::erase_if(slots_, [](const Slot& slot) { return slot.is_heap; }) > 0;
  if (!left_heap_out_) return;
  for (uint32_t i = 0; i < slots_.size(); ++i) slots_[i].writer = i;  // each has one entry now
  header_.host_mode = GPUPEAK_HOST_COUNTERS;
  counters_.window_count = 0;
}

/// Whether another chunk begins at `end`, or the log ends there. If so, the length that gave `end`
/// is not damaged.
bool LogReader::is_followed(uint64_t end, uint64_t limit) const {
  gpupeak_chunk_header next;
  return end == limit || (end < limit && read_chunk_header(end, next));
}

void LogReader::find_chunks(bool every_page) {
  uint64_t limit = file_->bytes();
  // A running process keeps the file longer than what it has written, and cuts off that hole when
  // it ends. If it still runs or could not do so, the hole is not read.
  const uint64_t handed_out = counters_.file_bytes;
  constexpr uint64_t kLargestChunk = 1 << 20;
  const bool has_hole = counters_.ended == 0 || limit > handed_out + kLargestChunk;
  if (has_hole && handed_out >= header_.chunks_offset) limit = std::min(limit, handed_out);
  used_bytes_ = std::min(header_.chunks_offset, limit);
  std::map<std::pair<uint32_t, bool>, size_t> slot_index;
  Chunk* previous = nullptr;
  uint64_t released = header_.chunks_offset;
  // Every page is looked at, so that chunks behind one with a damaged length are found. Pages of
  // heap chunks are left out where the heap may not be asked for.
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
    // A chunk that begins inside another one shows that the other one's length is damaged.
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
    } else if (header.kind == GPUPEAK_CHUNK_EVENTS || header.kind == GPUPEAK_CHUNK_HEAP) {
      const bool is_heap = header.kind == GPUPEAK_CHUNK_HEAP;
      auto [entry, added] = slot_index.try_emplace({header.slot, is_heap}, slots_.size());
      if (added) slots_.push_back({header.slot, is_heap, 0, {}});
      list = &slots_[entry->second].chunks;
      if (is_heap && !every_page && is_followed(end, limit)) {
        list->push_back(chunk);
        previous = nullptr;
        offset = end - GPUPEAK_LOG_PAGE;
        continue;
      }
    }
    previous = nullptr;
    if (list != nullptr) previous = &list->emplace_back(chunk);
  }
  // A file that was cut between two chunks looks whole: only the end that the writer noted tells.
  if (handed_out > file_->bytes() && damage_.cut_chunks == 0) damage_.cut_chunks = 1;
}

void LogReader::order_slots() {
  std::ranges::sort(slots_, {}, [](const Slot& of) { return std::pair(of.number, of.is_heap); });
  for (uint32_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    const bool is_second = i > 0 && slots_[i - 1].number == slot.number;
    slot.writer = is_second ? i - 1 : i;
    sort_by_sequence(slot.chunks);
    uint64_t expected = 0;
    for (const Chunk& chunk : slot.chunks) {
      if (chunk.sequence != expected) ++damage_.missing_chunks;
      expected = chunk.sequence + 1;
    }
  }
}

void LogReader::read_definitions() {
  sort_by_sequence(definition_chunks_);
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
