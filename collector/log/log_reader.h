// Opens a log: checks its header, finds its chunks, and reads its definitions. analyze() and the
// dump call it. event_stream.h then decodes the events of the chunks that it found.
//
// in    a file (packed or not), perhaps cut off or damaged
// out   definitions: strings, modules, stacks, facts, devices
//       slots: for each thread's stream its chunks, in order
//       damage: how many chunks are corrupt, cut off or missing
//
//   | header | counters | definitions | chunk of slot 0 | chunk of slot 1 | chunk of slot 0 | …
//     slot 0   two chunks
//     slot 1   one chunk
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collector/log/clock_map.h"
#include "collector/log/definitions.h"
#include "collector/log/log_parts.h"
#include "collector/log/mapped_file.h"
#include "collector/log/onnx_runtime.h"
#include "collector/log/symbol_table.h"
#include "gpupeak/log_format.h"

namespace gpupeak::collector {

// Whether the heap's events of a log are read. They are most of a log, and what is said of devices,
// pools, failures and phases does not need them.

enum class HeapReading {
  kAll,
  kIfFew,  ///< in a log with device events: only if reading takes no noticeable time
  kNone,   ///< no; but older logs have them among the other events, and there they are read
};

// How functions that read a whole log tell how far they have come.

/// Called now and then with bytes done and bytes in all. May be empty.
using Progress = std::function<void(uint64_t done, uint64_t total)>;

/// One chunk's records, its header left out.
struct Chunk {
  uint64_t begin = 0, end = 0;  ///< offsets in the file
  uint64_t sequence = 0;
  uint64_t start_ticks = 0;
  uint32_t tid = 0;
};

/// The event chunks of one writer, in program order. Its heap's chunks are in a second entry behind
/// this one: times say in which order events of the two happened.
struct Slot {
  uint32_t number = 0;
  bool is_heap = false;
  uint32_t writer = 0;  ///< the index of the writer's first entry, in both entries
  std::vector<Chunk> chunks;
};

/// What was found damaged while the log was read.
struct LogDamage {
  uint64_t corrupt_chunks = 0;    ///< decoding stopped inside, the rest of the chunk is lost
  uint64_t cut_chunks = 0;        ///< the file ends before the chunk does
  uint64_t missing_chunks = 0;    ///< holes in the sequence of a slot or of the definitions
  bool definitions_lost = false;  ///< stacks and strings from some point on are unknown
};

class LogReader {
 public:
  /// `path` names a log, or a part of one (log_parts.h). If the heap is left out, its figures are
  /// those that the library counted, as with GPUPEAK_HOST=counters. Throws LogError if the file
  /// cannot be read, is no log, is cut inside its header or was made by a newer version.
  explicit LogReader(const std::string& path, const Sanitizer& sanitizer = {},
                     HeapReading heap = HeapReading::kAll);

  const gpupeak_file_header& header() const { return header_; }
  const gpupeak_counters_page& counters() const { return counters_; }
  const Definitions& definitions() const { return definitions_; }
  /// Which blocks of arenas are which tensors of a model.
  const ModelTensors& model_tensors() const { return model_tensors_; }
  const ActivationPlans& activation_plans() const { return activation_plans_; }
  const ClockMap& clock() const { return clock_; }
  const std::vector<Slot>& slots() const { return slots_; }
  /// Whether the log has heap events that were left out.
  bool left_heap_out() const { return left_heap_out_; }
  /// As if the log had been opened with HeapReading::kNone.
  void leave_heap_out();
  const LogDamage& damage() const { return damage_; }
  /// Other programs that the process ran, in the order of the file: LOG#1 is the first.
  const std::vector<LogPart>& parts() const { return parts_; }
  /// Symbols that came with the log: in a bundle, in the file LOG.symbols beside it, or in the log
  /// itself (kNamesChunk).
  const SymbolTable& symbols() const { return symbols_; }
  /// Why these symbols cannot be used; empty: they can, or there are none.
  const std::string& symbols_problem() const { return symbols_problem_; }
  const uint8_t* data() const { return file_->data(); }
  /// The bytes of the whole log, unpacked.
  uint64_t file_bytes() const { return file_->bytes(); }
  /// The bytes of the file as it was given. Limits on what is made of a packed log depend on this,
  /// since a few bytes of a package can stand for thousands.
  uint64_t given_bytes() const { return given_bytes_; }
  /// Call when a chunk has been decoded. Gives its memory back, so that the log does not count as
  /// the collector's memory.
  void release(const Chunk& chunk) const { file_->release(chunk.begin, chunk.end); }
  /// Throws LogError if somebody has cut the file meanwhile: what was read is then not its content.
  void require_whole() const { file_->require_whole(); }
  /// How much of the file is in use: a preallocated tail is not counted.
  uint64_t used_bytes() const { return used_bytes_; }
  std::string tool_version() const;
  /// The path as it was given: other files of the log may lie beside it.
  const std::string& path() const { return path_; }

 private:
  std::string open(const std::string& path);
  void read_symbols(const std::string& text, const std::string& path);
  std::span<const uint8_t> names_chunk() const;
  void add_exports();
  void read_header(const std::string& path);
  bool reads_heap(HeapReading heap) const;
  void find_chunks(bool every_page);
  bool read_chunk_header(uint64_t offset, gpupeak_chunk_header& chunk) const;
  bool is_followed(uint64_t end, uint64_t limit) const;
  void add_part(uint64_t begin, uint64_t end);
  void order_slots();
  void read_definitions();

  std::string path_;
  std::unique_ptr<MappedFile> file_;
  uint64_t given_bytes_ = 0;
  SymbolTable symbols_;
  std::string symbols_problem_;
  gpupeak_file_header header_{};
  gpupeak_counters_page counters_{};
  uint64_t used_bytes_ = 0;
  std::vector<Chunk> definition_chunks_;
  std::vector<Slot> slots_;
  bool left_heap_out_ = false;
  LogDamage damage_;
  std::vector<LogPart> parts_;
  Definitions definitions_;
  ModelTensors model_tensors_;
  ActivationPlans activation_plans_;
  ClockMap clock_{true, 0, 0};
};

}  // namespace gpupeak::collector
