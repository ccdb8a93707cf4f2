// What the definition chunks of a log say: stacks as a trie, strings, modules, facts, devices.
// Filled by LogReader before any event is looked at; read by replay, the symbolizer and the
// summary.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collector/text/function_names.h"
#include "collector/text/sanitize.h"

namespace gpupeak::collector {

/// One frame of the stack trie. Index 0 of the table stands for "no stack".
struct StackNode {
  uint64_t ip = 0;      ///< return address, or a mark + number of a Python or a model frame
  uint32_t parent = 0;  ///< the caller's node; 0: it has none
  uint32_t module = 0;  ///< index into modules; 0: no module known there
};

/// The innermost frame of a block that a session of a model asked for: says what it is for
/// (onnx_runtime.h).
struct ModelFrame {
  std::string function;  ///< "initializer conv1_w of Conv"
  std::string file;      ///< the model's; may be empty
  NameSource source = NameSource::kModel;
};

/// A frame of the Python interpreter. Strings are ids.
struct PythonFrame {
  uint32_t function = 0, file = 0;
  uint64_t line = 0;  ///< 0: not known
};

struct Module {
  uint64_t bias = 0;     ///< run-time address - ELF address
  std::string path;      ///< as logged: any bytes
  std::string build_id;  ///< raw bytes; may be empty
};

struct DeviceInfo {
  uint64_t ordinal = 0;
  uint64_t total_bytes = 0;
  std::string uuid;  ///< 16 raw bytes, or empty
  std::string name;
  uint64_t memory = 0;  ///< GPUPEAK_MEMORY_*
};

class Definitions {
 public:
  /// `sanitizer`: how the log's texts are shown.
  explicit Definitions(const Sanitizer& sanitizer = {});

  /// Decodes the records of one definitions chunk; chunks come in order. Returns false at the first
  /// record that makes no sense: since ids are given by order, nothing after it can be trusted.
  bool read(const uint8_t* begin, const uint8_t* end);

  const std::vector<StackNode>& nodes() const { return nodes_; }
  /// How many of these the log itself defines. Its events refer to no others.
  size_t logged_node_count() const { return depths_.size(); }
  /// Adds a node, called by `caller`, for a frame that the log does not have, and returns its
  /// number. Call it when all definitions have been read.
  uint32_t add_model_frame(uint32_t caller, ModelFrame frame);
  /// The frame of a node that add_model_frame() made, else nullptr.
  const ModelFrame* model_frame(const StackNode& node) const;
  const std::vector<PythonFrame>& python_frames() const { return python_frames_; }
  /// The Python frame of a node, or nullptr if it is another frame.
  const PythonFrame* python_frame(const StackNode& node) const;
  const std::vector<std::string_view>& strings() const { return strings_; }
  const std::vector<Module>& modules() const { return modules_; }
  const std::vector<DeviceInfo>& devices() const { return devices_; }
  /// A bit for each device whose memory is the host's.
  uint32_t integrated_devices() const;
  const std::vector<std::pair<std::string, std::string>>& facts() const { return facts_; }
  /// The string with this id, empty for 0 and for ids that the log does not define.
  std::string_view string(uint32_t id) const;
  /// The first fact with this key, or empty.
  std::string_view fact(std::string_view key) const;
  /// The same for a fact of which there are several: that with the key "key.number".
  std::string_view fact(std::string_view key, uint64_t number) const;
  /// As fact(), as it may be shown.
  std::string shown_fact(std::string_view key) const { return shown(fact(key)); }
  uint64_t count() const { return count_; }
  /// A text of the log, as it may be shown.
  std::string shown(std::string_view text) const { return sanitizer_.text(text); }
  std::string shown_string(uint32_t id) const { return shown(string(id)); }
  const Sanitizer& sanitizer() const { return sanitizer_; }

 private:
  struct Segment {
    uint64_t end;
    uint32_t module;
  };
  bool read_record(uint8_t tag, const uint8_t* body, size_t bytes);
  bool read_node(const uint8_t* body, size_t bytes);
  bool read_module(const uint8_t* body, size_t bytes);
  void clear_segments(uint64_t begin, uint64_t end);
  void unload(uint64_t module);
  uint32_t module_at(uint64_t address);

  const Sanitizer sanitizer_;
  std::vector<StackNode> nodes_;
  std::vector<uint16_t> depths_{0};  ///< of logged nodes, in frames
  std::vector<PythonFrame> python_frames_{1};
  std::vector<ModelFrame> model_frames_;
  std::vector<std::string_view> strings_;  // into the mapped file
  std::vector<Module> modules_;
  std::vector<DeviceInfo> devices_;
  std::vector<std::pair<std::string, std::string>> facts_;
  std::vector<std::vector<uint64_t>> segments_of_module_{1};  // where the segments of each began
  // By start: what is loaded at this point of the definitions.
  std::map<uint64_t, Segment> segments_;
  struct {
    uint64_t begin = 0, end = 0;
    uint32_t module = 0;
  } last_segment_;
  uint64_t last_ip_ = 0;
  uint64_t count_ = 0;
};

/// Whether the log says when device memory was used (`run --last-use`).
inline bool has_uses(const Definitions& definitions) {
  return definitions.fact("last_use") == "on";
}

// Bounds the length of a name that a log has. Definitions and NameTable use it.

/// `name`, cut at a whole character where it is longer than any path. A damaged log could else make
/// us repeat one huge name very often.
std::string_view bounded_name(std::string_view name);

}  // namespace gpupeak::collector
