// Typed numbers of things that lie in a table. A number of one kind, or a plain number, becomes one
// of another kind only by an explicit conversion. Any of them can be an index.
//
//   GroupId group{7};              table[group]
//   ScopeListId list = group;      does not compile
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace gpupeak::collector {

/// `Of` names what is numbered; the type is never defined.
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
