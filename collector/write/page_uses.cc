#include "collector/write/page_uses.h"

#include <vector>

#include "collector/write/use_words.h"

namespace gpupeak::collector {
namespace {

size_t place_of(UseAtPeak use) {
  size_t place = 0;
  while (kUses[place].use != use) ++place;
  return place;
}

}  // namespace

Json page_uses(Profile& profile, const LastUses& uses, size_t top,
               const std::function<uint32_t(const std::string&)>& string) {
  Json json = {{"note", kUsedNote}, {"notes", use_notes(uses)}};
  json["names"] = Json::array();
  for (const UseName& use : kUses) json["names"].push_back({use.name, use.text, use.when});
  json["devices"] = Json::object();
  for (const LastUse& of : uses.devices) {
    Json device{{"idle_bytes", of.idle_bytes}};
    for (const UseName& use : kUses) device["bytes"].push_back(bytes_of(of, use.use));
    Json flat = Json::array();
    uint64_t other_bytes = 0, other_rows = 0, shown = 0;
    for (const UseRow& row : use_rows(profile, of)) {
      if (shown++ >= top) {
        other_bytes += row.bytes;
        ++other_rows;
        continue;
      }
      flat.push_back(place_of(row.use));
      flat.push_back(string(row.title));
      flat.push_back(string(row.kind));
      flat.push_back(row.bytes);
      flat.push_back(row.blocks);
      flat.push_back(row.shortest_ns);
      flat.push_back(row.longest_ns);
    }
    device["rows"] = std::move(flat);
    device["other_bytes"] = other_bytes;
    device["other_rows"] = other_rows;
    json["devices"][profile.scope_info(of.scope).name] = std::move(device);
  }
  return json;
}

}  // namespace gpupeak::collector
