#include "collector/symbols/rtti_cache.h"

#include <fmt/format.h>

#include "collector/log/cache_file.h"
#include "collector/symbols/rtti_reader.h"
#include "collector/text/byte_pack.h"
#include "collector/text/sanitize.h"

namespace gpupeak::collector {
namespace {

// Another number whenever the reader finds more than before.
constexpr std::string_view kMagic = "gpupeak rtti 3\n";

}  // namespace

std::string pack_rtti(const RttiTable& table, std::string_view build_id) {
  BytePacker out;
  out.text(build_id);
  out.text(table.version);
  out.number(static_cast<uint32_t>(table.classes.size()));
  for (const RttiTable::Class& c : table.classes) {
    out.text(c.name);
    out.number(c.primary);
    out.number(static_cast<uint32_t>(c.fronts.size()));
    for (const uint32_t front : c.fronts) out.number(front);
  }
  out.number(static_cast<uint32_t>(table.functions.size()));
  for (const RttiTable::Function& f : table.functions) {
    out.number(f.begin);
    out.number(f.end);
    for (const uint32_t number : {f.owner, f.layout, f.slot, f.class_count}) out.number(number);
  }
  return seal(kMagic, out.bytes());
}

std::optional<RttiTable> unpack_rtti(std::string_view bytes, std::string_view build_id) {
  const auto unsealed = unseal(kMagic, bytes);
  if (!unsealed) return std::nullopt;
  ByteUnpacker in(*unsealed);
  RttiTable table;
  if (in.text() != build_id) return std::nullopt;
  table.version = in.text();
  table.classes.resize(in.count(3 * sizeof(uint32_t)));
  const auto count = static_cast<uint32_t>(table.classes.size());
  bool sound = true;
  const auto index = [&] {
    const auto value = in.number<uint32_t>();
    sound = sound && (value < count || value == RttiTable::kNone);
    return value;
  };
  for (RttiTable::Class& c : table.classes) {
    c.name = in.text();
    c.primary = index();
    c.fronts.resize(in.count(sizeof(uint32_t)));
    for (uint32_t& front : c.fronts) {
      front = index();
      sound = sound && front != RttiTable::kNone;
    }
  }
  table.functions.resize(in.count(2 * sizeof(uint64_t) + 4 * sizeof(uint32_t)));
  uint64_t last = 0;
  for (RttiTable::Function& f : table.functions) {
    f.begin = in.number<uint64_t>();
    f.end = in.number<uint64_t>();
    f.owner = index();
    f.layout = index();
    f.slot = in.number<uint32_t>();
    f.class_count = in.number<uint32_t>();
    sound = sound && f.begin >= last && f.end >= f.begin;
    last = f.end;
  }
  if (!sound || !in.at_end()) return std::nullopt;
  return table;
}

RttiTable cached_rtti(Elf* elf, std::string_view build_id, size_t worth_keeping) {
  size_t bytes = 0;
  if (elf_rawfile(elf, &bytes) == nullptr) return {};
  const std::string folder =
      build_id.empty() || bytes < worth_keeping ? std::string() : cache_folder("rtti");
  if (folder.empty()) return read_rtti(elf);
  const std::string path = fmt::format("{}/{}", folder, hex_text(build_id));
  if (const auto kept = read_cache_file(path)) {
    if (auto known = unpack_rtti(*kept, build_id)) return std::move(*known);
  }
  RttiTable table = read_rtti(elf);
  write_cache_file(path, pack_rtti(table, build_id));
  return table;
}

}  // namespace gpupeak::collector
