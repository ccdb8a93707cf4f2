#include "collector/log/definitions.h"

#include <algorithm>

#include "collector/log/byte_reader.h"
#include "gpupeak/log_format.h"

namespace gpupeak::collector {

Definitions::Definitions(const Sanitizer& sanitizer)
    : sanitizer_(sanitizer), nodes_(1), strings_(1), modules_(1) {}

std::string_view bounded_name(std::string_view name) {
  constexpr size_t kMostBytes = 4096;
  if (name.size() <= kMostBytes) return name;
  size_t end = kMostBytes;
  while (end > kMostBytes - 4 && (static_cast<unsigned char>(name[end]) & 0xc0) == 0x80) --end;
  return name.substr(0, end);
}

std::string_view Definitions::string(uint32_t id) const {
  return id < strings_.size() ? strings_[id] : std::string_view{};
}

const PythonFrame* Definitions::python_frame(const StackNode& node) const {
  if ((node.ip & GPUPEAK_PYTHON_IP) == 0 || (node.ip >> 63) != 0) return nullptr;
  const uint64_t number = node.ip ^ GPUPEAK_PYTHON_IP;
  return &python_frames_[number < python_frames_.size() ? number : 0];
}

// No program has such addresses; those of Python frames are others.
constexpr uint64_t kModelIp = UINT64_C(1) << 61;

uint32_t Definitions::add_model_frame(uint32_t caller, ModelFrame frame) {
  nodes_.push_back({kModelIp + model_frames_.size(), caller, 0});
  model_frames_.push_back(std::move(frame));
  return static_cast<uint32_t>(nodes_.size() - 1);
}

const ModelFrame* Definitions::model_frame(const StackNode& node) const {
  const uint64_t number = node.ip - kModelIp;
  return number < model_frames_.size() ? &model_frames_[number] : nullptr;
}

std::string_view Definitions::fact(std::string_view wanted) const {
  const auto found = std::ranges::find(facts_, wanted, &decltype(facts_)::value_type::first);
  return found == facts_.end() ? std::string_view() : found->second;
}

std::string_view Definitions::fact(std::string_view key, uint64_t number) const {
  return fact(std::string(key) + '.' + std::to_string(number));
}

bool Definitions::read(const uint8_t* begin, const uint8_t* end) {
  const uint8_t* at = begin;
  while (at < end && *at != 0) {
    const uint8_t tag = *at++;
    uint64_t bytes = 0;
    at = read_varint(at, end, bytes);
    if ((tag & GPUPEAK_TAG_EXTENDED) == 0 || at == nullptr) return false;
    if (bytes > static_cast<uint64_t>(end - at)) return false;
    if (!read_record(tag, at, bytes)) return false;
    ++count_;
    at += bytes;
  }
  return true;
}

bool Definitions::read_record(uint8_t tag, const uint8_t* body, size_t bytes) {
  ByteReader fields(body, bytes);
  switch (tag) {
    case GPUPEAK_DEF_NODE:
      return read_node(body, bytes);
    case GPUPEAK_DEF_MODULE:
      return read_module(body, bytes);
    case GPUPEAK_DEF_STRING:
      strings_.push_back(bounded_name(fields.s()));
      break;
    case GPUPEAK_DEF_UNLOAD: {
      fields.u();  // ticks
      unload(fields.u());
      break;
    }
    case GPUPEAK_DEF_FACT: {
      const std::string_view key = fields.s();
      facts_.emplace_back(key, fields.s());
      break;
    }
    case GPUPEAK_DEF_DEVICE: {
      DeviceInfo device;
      device.ordinal = fields.u();
      device.total_bytes = fields.u();
      device.uuid = fields.s();
      device.name = fields.s();
      device.memory = fields.u();
      if (device.ordinal < GPUPEAK_LOG_MAX_DEVICES) devices_.push_back(std::move(device));
      break;
    }
    case GPUPEAK_DEF_PYTHON_FRAME: {
      PythonFrame frame;
      frame.function = static_cast<uint32_t>(fields.u());
      frame.file = static_cast<uint32_t>(fields.u());
      frame.line = fields.u();
      python_frames_.push_back(frame);
      break;
    }
    default:
      break;  // a newer writer's record: skipped
  }
  return !fields.malformed();
}

uint32_t Definitions::integrated_devices() const {
  uint32_t devices = 0;
  for (const DeviceInfo& device : devices_) {
    if ((device.memory & GPUPEAK_MEMORY_INTEGRATED) != 0) devices |= 1u << device.ordinal;
  }
  return devices;
}

bool Definitions::read_node(const uint8_t* body, size_t bytes) {
  ByteReader fields(body, bytes);
  const uint64_t distance = fields.u();
  last_ip_ += static_cast<uint64_t>(fields.z());
  const uint64_t id = nodes_.size();
  if (fields.malformed() || distance == 0 || distance > id || id > UINT32_MAX) return false;
  // The library writes at most GPUPEAK_MAX_FRAMES native and as many Python frames for a stack. The
  // limit bounds what each stack costs.
  constexpr uint16_t kMostFrames = 2 * GPUPEAK_MAX_FRAMES;
  const uint16_t depth = depths_[id - distance];
  if (depth == kMostFrames) return false;
  depths_.push_back(depth + 1);
  nodes_.push_back({last_ip_, static_cast<uint32_t>(id - distance), module_at(last_ip_ - 1)});
  return true;
}

bool Definitions::read_module(const uint8_t* body, size_t bytes) {
  ByteReader fields(body, bytes);
  fields.u();  // ticks
  Module module;
  module.bias = fields.u();
  module.path = bounded_name(fields.s());
  module.build_id = fields.s();
  const auto id = static_cast<uint32_t>(modules_.size());
  std::vector<uint64_t> begins;
  const uint64_t segments = fields.u();
  for (uint64_t i = 0; i < segments && !fields.at_end(); ++i) {
    const uint64_t address = fields.u();
    const uint64_t size = fields.u();
    fields.u();  // file offset
    if (size == 0 || address + size < address) continue;
    clear_segments(address, address + size);
    segments_[address] = {address + size, id};
    begins.push_back(address);
  }
  last_segment_ = {};
  modules_.push_back(std::move(module));
  segments_of_module_.push_back(std::move(begins));
  return !fields.malformed();
}

/// Empties the module's list of segments, so that a log that unloads the same module again and
/// again costs nothing.
void Definitions::unload(uint64_t module) {
  last_segment_ = {};
  if (module >= segments_of_module_.size()) return;
  for (const uint64_t begin : std::exchange(segments_of_module_[module], {})) {
    const auto segment = segments_.find(begin);
    if (segment != segments_.end() && segment->second.module == module) segments_.erase(segment);
  }
}

/// A segment that overlaps a new one was unmapped without a record of it.
void Definitions::clear_segments(uint64_t begin, uint64_t end) {
  auto it = segments_.lower_bound(begin);
  if (it != segments_.begin() && std::prev(it)->second.end > begin) --it;
  while (it != segments_.end() && it->first < end) it = segments_.erase(it);
}

uint32_t Definitions::module_at(uint64_t address) {
  if (address >= last_segment_.begin && address < last_segment_.end) return last_segment_.module;
  auto it = segments_.upper_bound(address);
  if (it == segments_.begin()) return 0;
  --it;
  if (address >= it->second.end) return 0;
  last_segment_ = {it->first, it->second.end, it->second.module};
  return it->second.module;
}

}  // namespace gpupeak::collector
