// Accounts that are counted behind the replay: whoever looks, whenever he does, sees what was noted
// until then. There are notes enough for a thread of its own where there are several processors.
#include <array>
#include <cstdint>
#include <random>
#include <vector>

#include "catch.h"
#include "collector/replay/peak_finder.h"

using namespace gpupeak::collector;

namespace {

constexpr size_t kGroups = 200;

/// Plain sums, and a copy of all of them at each new maximum.
struct Oracle {
  std::vector<uint64_t> live = std::vector<uint64_t>(kGroups), count = live, at_peak = live;
  uint64_t sum = 0, peak = 0;

  void add(GroupId group, uint64_t bytes) {
    live[group] += bytes;
    ++count[group];
    sum += bytes;
    if (sum <= peak) return;
    peak = sum;
    at_peak = live;
  }
};

}  // namespace

TEST_CASE("group_accounts: a look in between sees all changes until then", "[collector]") {
  std::mt19937_64 random(1);
  PeakFinder peaks;
  Oracle oracle;
  const std::array<ScopeId, 1> scope{peaks.add_scope()};
  for (size_t i = 0; i < kGroups; ++i) peaks.add_group(scope);
  std::vector<std::pair<GroupId, uint64_t>> blocks;
  constexpr uint64_t kChanges = 300'000;
  for (uint64_t i = 0; i < kChanges; ++i) {
    const auto group = static_cast<GroupId>(random() % kGroups);
    if (random() % 100 < 51 || blocks.empty()) {
      blocks.emplace_back(group, random() % 4096);
      oracle.add(group, blocks.back().second);
      peaks.add(group, blocks.back().second, i);
    } else {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      const auto [of, bytes] = blocks.back();
      blocks.pop_back();
      oracle.live[of] -= bytes;
      oracle.sum -= bytes;
      peaks.remove(of, bytes);
    }
    // Often at once, and seldom: then many batches are waiting, or none.
    if (random() % (i < kChanges / 2 ? 20'000 : 1'000) != 0) continue;
    REQUIRE(peaks.group(group).live_bytes == oracle.live[group]);
    REQUIRE(peaks.group(group).alloc_count == oracle.count[group]);
  }
  peaks.finish();
  CHECK(peaks.scope(scope[0]).peak == oracle.peak);
  for (GroupId group{0}; group < kGroups; ++group) {
    CHECK(peaks.group(group).live_bytes == oracle.live[group]);
    CHECK(peaks.at_peak(group, scope[0]).bytes == oracle.at_peak[group]);
  }
}

TEST_CASE("group_accounts: groups and scopes may come while changes are being counted",
          "[collector]") {
  PeakFinder peaks;
  uint64_t sum = 0;
  std::vector<ScopeId> scopes{peaks.add_scope()};
  constexpr uint64_t kSteps = 40'000;
  for (uint64_t i = 0; i < kSteps; ++i) {
    if (i % 4'000 == 0) scopes.push_back(peaks.add_scope());
    const GroupId group = peaks.add_group(std::array{scopes.front(), scopes.back()});
    peaks.add(group, i + 1, i);
    peaks.remove(group, i + 1);
    if (i % 2 == 0) peaks.note_temporary(group);
    peaks.add(group, 8, i);
    sum += 8;
  }
  peaks.finish();
  CHECK(peaks.group_count() == kSteps);
  CHECK(peaks.scope(scopes.front()).current == sum);
  uint64_t live = 0, temporary = 0;
  for (GroupId group{0}; group < peaks.group_count(); ++group) {
    live += peaks.group(group).live_bytes;
    temporary += peaks.group(group).temporary_count;
  }
  CHECK(live == sum);
  CHECK(temporary == kSteps / 2);
  // Who asks for a scope's holders is given those that have something there, and no others.
  for (const ScopeId scope : scopes) {
    std::vector<std::pair<GroupId, uint64_t>> expected, visited;
    for (GroupId group{0}; group < peaks.group_count(); ++group) {
      const uint64_t bytes = peaks.at_peak(group, scope).bytes;
      if (bytes > 0) expected.emplace_back(group, bytes);
    }
    peaks.visit_at_peak(scope, [&](GroupId group, const PeakFinder::AtPeak& at) {
      visited.emplace_back(group, at.bytes);
    });
    CHECK(visited.size() > 1000);
    CHECK((visited == expected));
  }
}

namespace {

/// What became of a heap, of whose blocks only sites and numbers were told.
struct Told {
  std::vector<std::array<uint64_t, 6>> groups;  // site, and what it held
  std::vector<GroupId> looked_up;
  GroupId peak_group = kNoGroup;
  uint64_t peak = 0, wrong = 0;

  bool operator==(const Told&) const = default;
};

/// Contexts and groups that are no blocks' come in between, and so does who looks.
Told told(bool at_once) {
  constexpr uint32_t kStacks = 50;
  std::mt19937_64 random(3);
  PeakFinder peaks;
  if (at_once) peaks.find_groups_at_once();
  const std::array<ScopeId, 2> scopes{peaks.add_scope(), peaks.add_scope()};
  const std::array<ScopeListId, 2> lists{peaks.scope_list(scopes),
                                         peaks.scope_list(std::array{scopes[1]})};
  std::vector<PeakFinder::Counting> contexts;
  std::vector<uint64_t> live;  // by context and stack
  struct Block {
    Site site;
    uint64_t bytes;
  };
  std::vector<Block> blocks;
  Told told;
  const auto at = [](const Site& site) { return size_t{site.context} * kStacks + site.stack; };
  const auto check = [&](const Site& site) {
    const GroupId group = peaks.group_of(site, contexts[site.context]);
    told.wrong += peaks.group(group).live_bytes != live[at(site)];
    told.wrong += peaks.sites().site(group).stack != site.stack;
    told.looked_up.push_back(group);
  };
  for (uint64_t i = 0; i < 200'000; ++i) {
    if (i % 5'000 == 0) {
      contexts.push_back({lists[contexts.size() % 4 == 3], static_cast<OwnerId>(i % 3)});
      peaks.add_context(contexts.back());
      live.resize(contexts.size() * kStacks);
    }
    const Site site{static_cast<uint32_t>(random() % kStacks),
                    static_cast<ContextId>(random() % contexts.size())};
    const PeakFinder::Counting counting = contexts[site.context];
    const auto number = static_cast<BlockNumber>(random() % (blocks.size() + 1));
    const PeakFinder::NewBlock fresh{number, 1 + random() % 4096, site, counting};
    if (number == blocks.size() && number < 500) {
      blocks.push_back({site, fresh.bytes});
      peaks.add(fresh, i);
    } else if (number == blocks.size()) {
      check(site);
      continue;
    } else {
      Block& old = blocks[number];
      const PeakFinder::OldBlock was{number, old.bytes, contexts[old.site.context]};
      live[at(old.site)] -= old.bytes;
      if (was.counting.scopes == counting.scopes) {
        peaks.replace(was, fresh, i);
      } else {
        peaks.remove(was, i % 2 == 0);
        peaks.add(fresh, i);
      }
      old = {site, fresh.bytes};
    }
    live[at(site)] += fresh.bytes;
    // Often at once, and seldom: then many batches are waiting, or none.
    if (random() % (i < 100'000 ? 20'000 : 200) == 0) check(site);
  }
  peaks.finish();
  for (GroupId group{0}; group < peaks.group_count(); ++group) {
    const PeakFinder::Group& held = peaks.group(group);
    const Site& site = peaks.sites().site(group);
    told.wrong += held.live_bytes != live[at(site)];
    told.groups.push_back({at(site), held.live_bytes, held.max_live_bytes, held.alloc_count,
                           held.temporary_count, peaks.at_peak(group, scopes[0]).bytes});
  }
  told.peak_group = peaks.scope(scopes[0]).peak_group;
  told.peak = peaks.scope(scopes[0]).peak;
  return told;
}

}  // namespace

TEST_CASE("group_accounts: groups of blocks are the same whether they are found at once or behind",
          "[collector]") {
  const Told at_once = told(true), behind = told(false);
  CHECK(at_once.wrong == 0);
  CHECK(behind.wrong == 0);
  CHECK(at_once.groups.size() > 1900);
  CHECK((at_once == behind));
}
