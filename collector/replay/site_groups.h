// Which group a site has, and to which group a live block belongs. Each question takes a cache line
// that the processor cannot guess. GroupAccounts asks, on whichever thread counts.
//
//   site                       group     block   belongs to
//   stack 7 in context 0         0         0       0
//   stack 9 in context 0         1         1       2
//   stack 7 in context 1         2         2       0
#pragma once

#include <cstdint>

#include "collector/replay/big_arrays.h"
#include "collector/replay/block_matcher.h"
#include "collector/replay/index.h"
#include "collector/replay/key_table.h"

namespace gpupeak::collector {

using GroupId = Index<struct OfGroups>;
inline constexpr GroupId kNoGroup{UINT32_MAX};
using ContextId = Index<struct OfContexts>;

/// Where a block was allocated, and in which context. Holders are told apart by this.
struct Site {
  uint32_t stack = 0;
  ContextId context{};
};

class SiteGroups {
 public:
  void prefetch(const Site& site) const { index_.prefetch(key_of(site)); }
  /// `block` may be out of range.
  void prefetch(BlockNumber block) const { of_blocks_.prefetch(block); }

  /// The site's group. `added`: the site is new and got the next number.
  GroupId group(const Site& site, bool& added) {
    const uint32_t* const known = index_.find(key_of(site));
    added = known == nullptr;
    return added ? add(site) : GroupId(*known);
  }
  GroupId of(BlockNumber block) const { return of_blocks_[block]; }
  /// `block` is one that there is, or the next one.
  void set(BlockNumber block, GroupId group) {
    (block == of_blocks_.size() ? of_blocks_.append() : of_blocks_[block]) = group;
  }

  const Site& site(GroupId group) const { return sites_[group]; }
  size_t size() const { return sites_.size(); }

 private:
  static uint64_t key_of(const Site& site) {
    return (static_cast<uint64_t>(site.context) << 32 | site.stack) + 1;
  }
  [[gnu::noinline]] GroupId add(const Site& site) {
    const auto group = static_cast<GroupId>(sites_.size());
    bool added;
    index_.claim(key_of(site), added) = group;
    sites_.append() = site;
    return group;
  }

  KeyTable index_;
  ChunkedArray<Site> sites_;
  ChunkedArray<GroupId> of_blocks_;
};

}  // namespace gpupeak::collector
