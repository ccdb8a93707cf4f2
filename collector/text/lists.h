// Loops over a container that many places need, under a name.
//
//   list_of(devices, &Device::name)   sum_of(blocks, &Block::bytes)   value_in(threads, 7)
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <span>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

namespace gpupeak::collector {

/// What `of` makes of each thing, in their order; `of` may be a member.
template <typename Things, typename Of>
auto list_of(Things&& things, Of of) {
  std::vector<std::decay_t<decltype(std::invoke(of, *std::begin(things)))>> list;
  list.reserve(std::size(things));
  for (auto&& thing : things) list.push_back(std::invoke(of, thing));
  return list;
}
template <typename Map>
auto keys_of(const Map& map) {
  return list_of(map, [](const auto& entry) { return entry.first; });
}
template <typename Map>
auto values_of(Map map) {
  return list_of(map, [](auto& entry) { return std::move(entry.second); });
}

template <typename Things, typename Of>
uint64_t sum_of(const Things& things, Of of) {
  uint64_t sum = 0;
  for (const auto& thing : things) sum += std::invoke(of, thing);
  return sum;
}
/// The largest value, 0 if there is none.
template <typename Things, typename Of>
uint64_t most_of(const Things& things, Of of) {
  uint64_t most = 0;
  for (const auto& thing : things) most = std::max<uint64_t>(most, std::invoke(of, thing));
  return most;
}

/// The first things, no more than so many.
template <typename Things>
auto first_of(const Things& things, size_t most) {
  return std::span(things).first(std::min(most, std::size(things)));
}
/// Adds the bytes and the count of a part to those of a sum.
void add_part(auto& sum, const auto& part) {
  sum.bytes += part.bytes;
  sum.count += part.count;
}

/// The value of the key; nullptr: it has none.
template <typename Map>
auto* value_in(Map& map, const typename Map::key_type& key) {
  const auto entry = map.find(key);
  return entry == map.end() ? nullptr : &entry->second;
}
/// The value of the key, or what stands for none.
template <typename Map>
auto value_or(const Map& map, const typename Map::key_type& key, typename Map::mapped_type none) {
  const auto* const value = value_in(map, key);
  return value != nullptr ? *value : none;
}

// Gives things numbers in the order in which they first come, for tables in which most of them come
// many times.
//
//   of("a") 0   of("b") 1   of("a") 0   all() "a" "b"

template <typename Thing, typename Hash = std::hash<Thing>>
class Numbers {
 public:
  uint32_t of(const Thing& thing) {
    const auto [known, added] = numbers_.try_emplace(thing, static_cast<uint32_t>(all_.size()));
    if (added) all_.push_back(&known->first);
    return known->second;
  }
  const Thing& operator[](uint32_t number) const { return *all_[number]; }
  /// By their numbers.
  const std::vector<const Thing*>& all() const { return all_; }

 private:
  std::unordered_map<Thing, uint32_t, Hash> numbers_;
  std::vector<const Thing*> all_;  // its keys
};

}  // namespace gpupeak::collector
