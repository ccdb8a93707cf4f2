#include "collector/symbols/name_cache.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "collector/files/cache_file.h"
#include "collector/text/byte_pack.h"

namespace gpupeak::collector {
namespace {

constexpr std::string_view kNamesMagic = "gpupeak names 1\n";
constexpr std::string_view kNamesFolder = "names";
constexpr uint64_t kMostNamesBytes = 256 << 20;  // of all names that are kept
constexpr uint64_t kMostOfOneModule = kMostNamesBytes / 8;

/// Numbers texts, since many addresses have the same function or file.
class TextNumbers {
 public:
  uint32_t number_of(const std::string& text) {
    const auto [entry, added] = numbers_.try_emplace(text, static_cast<uint32_t>(texts_.size()));
    if (added) texts_.push_back(&entry->first);
    return entry->second;
  }
  const std::vector<const std::string*>& texts() const { return texts_; }

 private:
  std::map<std::string, uint32_t> numbers_;
  std::vector<const std::string*> texts_;
};

std::string path_of(const std::string& key) {
  const std::string folder = cache_folder(kNamesFolder);
  return folder.empty() ? folder : cache_entry(folder, key);
}

/// Reads one frame. False: it is damaged, and so is all behind it.
bool unpack_frame(ByteUnpacker& in, const std::vector<std::string>& texts, DwarfFrame& frame) {
  const auto function = in.number<uint32_t>(), file = in.number<uint32_t>();
  const auto line = in.number<int32_t>();
  const auto source = in.number<uint8_t>();
  if (in.failed() || function >= texts.size() || file >= texts.size() ||
      source >= kNameSources.size())
    return false;
  frame = {texts[function], texts[file], line, static_cast<NameSource>(source)};
  return true;
}

bool unpack_names(ByteUnpacker& in, CachedNames& names) {
  std::vector<std::string> texts(in.count(sizeof(uint32_t)));
  for (std::string& text : texts) text = in.text();
  const uint32_t addresses = in.count(sizeof(uint64_t) + sizeof(uint32_t));
  names.reserve(addresses);
  for (uint32_t i = 0; i < addresses; ++i) {
    std::vector<DwarfFrame>& frames = names[in.number<uint64_t>()];
    frames.resize(in.count(3 * sizeof(uint32_t) + sizeof(uint8_t)));
    for (DwarfFrame& frame : frames) {
      if (!unpack_frame(in, texts, frame)) return false;
    }
  }
  return in.at_end();
}

std::string pack_names(const CachedNames& names) {
  TextNumbers numbers;
  BytePacker addresses;
  uint32_t count = 0;
  for (const auto& [address, frames] : names) {
    if (!can_be_cached(frames)) continue;
    ++count;
    addresses.number(address);
    addresses.count(frames.size());
    for (const DwarfFrame& frame : frames) {
      addresses.number(numbers.number_of(frame.function));
      addresses.number(numbers.number_of(frame.file));
      addresses.number(static_cast<int32_t>(frame.line));
      addresses.number(static_cast<uint8_t>(frame.source));
    }
  }
  BytePacker out;
  out.count(numbers.texts().size());
  for (const std::string* text : numbers.texts()) out.text(*text);
  out.number(count);
  return out.bytes() + addresses.bytes();
}

}  // namespace

bool can_be_cached(const std::vector<DwarfFrame>& frames) {
  return !frames.empty() && std::none_of(frames.begin(), frames.end(), [](const DwarfFrame& frame) {
    return frame.source == NameSource::kRtti || frame.source == NameSource::kApiTable;
  });
}

CachedNames read_cached_names(const std::string& key) {
  const std::string path = path_of(key);
  const auto sealed = path.empty() ? std::nullopt : read_cache_file(path);
  const auto bytes = sealed ? unseal(kNamesMagic, *sealed) : std::nullopt;
  if (!bytes) return {};
  ByteUnpacker in(*bytes);
  if (in.text() != key || unpack_state(in) != state_of_command()) return {};
  for (uint32_t left = in.count(sizeof(uint32_t)); left > 0; --left) {
    const FileState then = unpack_state(in);
    if (in.failed() || then != state_of_file(then.path)) return {};
  }
  CachedNames names;
  return unpack_names(in, names) ? names : CachedNames();
}

void write_cached_names(const std::string& key, const std::vector<FileState>& files,
                        const CachedNames& names) {
  const std::string path = path_of(key);
  const bool unchanged = std::all_of(files.begin(), files.end(), [](const FileState& state) {
    return state == state_of_file(state.path);
  });
  if (path.empty() || !unchanged) return;
  BytePacker out;
  out.text(key);
  pack(state_of_command(), out);
  out.count(files.size());
  for (const FileState& state : files) pack(state, out);
  const std::string all = out.bytes() + pack_names(names);
  if (all.size() > kMostOfOneModule) return;
  keep_in_cache(path, seal(kNamesMagic, all), kMostNamesBytes);
}

}  // namespace gpupeak::collector
