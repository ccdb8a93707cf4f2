// Gives things numbers in the order in which they first come, for tables in which most of them come
// many times.
//
//   of("a") 0   of("b") 1   of("a") 0   all() "a" "b"
#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

namespace gpupeak::collector {

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
