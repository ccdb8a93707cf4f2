// Numbers of things that lie in a table. One kind is not taken for another, nor any number for one:
// that must be said. What indexes a table is its number.
//
//   GroupId group{7};              table[group]
//   ScopeListId list = group;      does not compile
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace gpupeak::collector {

/// `Of`: what it is a number of; a name alone.
template <class Of>
class Index {
 public:
  constexpr Index() = default;
  explicit constexpr Index(size_t number) : number_(static_cast<uint32_t>(number)) {}

  constexpr operator uint32_t() const { return number_; }
  constexpr Index& operator++() {
    ++number_;
    return *this;
  }
  auto operator<=>(const Index&) const = default;

 private:
  uint32_t number_ = 0;
};

}  // namespace gpupeak::collector

template <class Of>
struct std::hash<gpupeak::collector::Index<Of>> {
  size_t operator()(gpupeak::collector::Index<Of> index) const {
    return std::hash<uint32_t>()(index);
  }
};
