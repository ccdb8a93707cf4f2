#include "collector/symbols/module_symbols.h"

#include "collector/files/fresh_file.h"
#include "collector/text/lists.h"

namespace gpupeak::collector {
namespace {

constexpr std::string_view kNamesMagic = "gpupeak names 1\n";
constexpr uint64_t kMostKeptNamesBytes = 256 << 20;  // of all names that are kept
constexpr uint64_t kMostOfOneModule = kMostKeptNamesBytes / 8;

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
  Numbers<std::string> texts;  // many addresses have the same function or file
  BytePacker addresses;
  for (const auto& [address, frames] : names) {
    addresses.number(address);
    addresses.count(frames.size());
    for (const DwarfFrame& frame : frames) {
      addresses.number(texts.of(frame.function));
      addresses.number(texts.of(frame.file));
      addresses.number(static_cast<int32_t>(frame.line));
      addresses.number(static_cast<uint8_t>(frame.source));
    }
  }
  BytePacker out;
  out.count(texts.all().size());
  for (const std::string* text : texts.all()) out.text(*text);
  out.count(names.size());
  return out.bytes() + addresses.bytes();
}

}  // namespace

CachedNames read_cached_names(const std::string& key) {
  const std::string path = cache_entry(key);
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
  const std::string path = cache_entry(key);
  const bool unchanged = std::ranges::all_of(
      files, [](const FileState& state) { return state == state_of_file(state.path); });
  if (path.empty() || !unchanged) return;
  BytePacker out;
  out.text(key);
  pack(state_of_command(), out);
  out.count(files.size());
  for (const FileState& state : files) pack(state, out);
  const std::string all = out.bytes() + pack_names(names);
  if (all.size() > kMostOfOneModule) return;
  keep_in_cache(path, seal(kNamesMagic, all), kMostKeptNamesBytes);
}

}  // namespace gpupeak::collector
