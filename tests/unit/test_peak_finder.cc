#include <algorithm>
#include <array>
#include <map>
#include <random>

#include "catch.h"
#include "collector/replay/peak_finder.h"

using namespace gpupeak::collector;

namespace {

using PeakChanges = std::vector<PeakFinder::Change>;

/// Remembers what every group held whenever a sum reached a new maximum: slow and obviously right.
class BruteForce {
 public:
  BruteForce(std::vector<std::vector<ScopeId>> scopes_of_group, size_t scope_count)
      : scopes_of_group_(std::move(scopes_of_group)),
        live_(scopes_of_group_.size()),
        counts_(scopes_of_group_.size()),
        scopes_(scope_count) {}

  void apply(const PeakChanges& changes, uint64_t ticks) {
    for (const auto& change : changes) {
      live_[change.group] += static_cast<uint64_t>(change.bytes);
      counts_[change.group] += static_cast<uint32_t>(change.count);
    }
    for (ScopeId id{}; id < scopes_.size(); ++id) {
      uint64_t sum = 0;
      for (GroupId group{0}; group < live_.size(); ++group) {
        if (counts_into(group, id)) sum += live_[group];
      }
      if (sum > scopes_[id].peak) scopes_[id] = {sum, ticks, live_, counts_};
    }
  }
  bool counts_into(GroupId group, ScopeId scope) const {
    const auto& scopes = scopes_of_group_[group];
    return std::find(scopes.begin(), scopes.end(), scope) != scopes.end();
  }

  struct Scope {
    uint64_t peak = 0, ticks = 0;
    std::vector<uint64_t> live;
    std::vector<uint32_t> counts;
  };
  const Scope& scope(ScopeId id) const { return scopes_[id]; }

 private:
  std::vector<std::vector<ScopeId>> scopes_of_group_;
  std::vector<uint64_t> live_;
  std::vector<uint32_t> counts_;
  std::vector<Scope> scopes_;
};

uint64_t sum_of_holders(const PeakFinder& peaks, ScopeId scope) {
  uint64_t sum = 0;
  for (GroupId group{0}; group < peaks.group_count(); ++group) {
    sum += peaks.at_peak(group, scope).bytes;
  }
  return sum;
}

}  // namespace

TEST_CASE("peak_finder: holders sum to the peak", "[collector]") {
  PeakFinder peaks;
  const std::array<ScopeId, 1> scope{peaks.add_scope()};
  const GroupId a = peaks.add_group(scope);
  const GroupId b = peaks.add_group(scope);
  peaks.add(a, 100, 1);
  peaks.add(b, 50, 2);
  peaks.remove(a, 100);
  peaks.add(b, 60, 4);
  peaks.finish();
  CHECK(peaks.scope(scope[0]).peak == 150);
  CHECK(peaks.scope(scope[0]).peak_ticks == 2);
  CHECK(peaks.scope(scope[0]).peak_group == b);
  CHECK(peaks.scope(scope[0]).peak_step_bytes == 50);
  CHECK(peaks.at_peak(a, scope[0]).bytes == 100);
  CHECK(peaks.at_peak(b, scope[0]).bytes == 50);
  CHECK(peaks.at_peak(b, scope[0]).count == 1);
}

TEST_CASE("peak_finder: of equal maxima the first one wins", "[collector]") {
  PeakFinder peaks;
  const std::array<ScopeId, 1> scope{peaks.add_scope()};
  const GroupId first = peaks.add_group(scope);
  const GroupId second = peaks.add_group(scope);
  peaks.add(first, 10, 1);
  peaks.remove(first, 10);
  peaks.add(second, 10, 3);
  peaks.finish();
  CHECK(peaks.scope(scope[0]).peak_ticks == 1);
  CHECK(peaks.at_peak(first, scope[0]).bytes == 10);
  CHECK(peaks.at_peak(second, scope[0]).bytes == 0);
}

TEST_CASE("peak_finder: a peak at the very end has its holders", "[collector]") {
  PeakFinder peaks;
  const std::array<ScopeId, 1> scope{peaks.add_scope()};
  const GroupId group = peaks.add_group(scope);
  peaks.add(group, 10, 1);
  peaks.add(group, 20, 2);
  peaks.finish();
  CHECK(peaks.at_peak(group, scope[0]).bytes == 30);
  CHECK(peaks.at_peak(group, scope[0]).count == 2);
}

TEST_CASE("peak_finder: a step that moves bytes is neither dip nor double counting",
          "[collector]") {
  PeakFinder peaks;
  const std::array<ScopeId, 1> scope{peaks.add_scope()};
  const GroupId old_group = peaks.add_group(scope);
  const GroupId new_group = peaks.add_group(scope);
  peaks.add(old_group, 100, 1);
  peaks.apply(PeakChanges{{old_group, -100, -1, false}, {new_group, 130, 1, true}}, 2);
  peaks.apply(PeakChanges{{new_group, -130, -1, false}, {old_group, 130, 1, true}}, 3);
  peaks.finish();
  CHECK(peaks.scope(scope[0]).peak == 130);
  CHECK(peaks.scope(scope[0]).peak_ticks == 2);
  CHECK(peaks.scope(scope[0]).peak_group == new_group);
  CHECK(peaks.at_peak(old_group, scope[0]).bytes == 0);
  CHECK(peaks.at_peak(new_group, scope[0]).bytes == 130);
}

TEST_CASE("peak_finder: a block in another's place is neither dip nor double counting",
          "[collector]") {
  PeakFinder peaks;
  const std::array<ScopeId, 1> scope{peaks.add_scope()};
  const PeakFinder::Counting counting{peaks.scope_list(scope), OwnerId{}};
  peaks.add_context(counting);
  const Site site{7, ContextId{}}, other{8, ContextId{}};
  constexpr BlockNumber kBlock{0}, kInItsPlace{1};
  peaks.add({kBlock, 100, site, counting}, 1);
  peaks.replace({kBlock, 100, counting}, {kBlock, 130, site, counting}, 2);
  peaks.replace({kBlock, 130, counting}, {kInItsPlace, 130, other, counting}, 3);
  peaks.replace({kInItsPlace, 130, counting}, {kBlock, 20, site, counting}, 4);
  CHECK(peaks.take_recent_max(scope[0]) == 130);
  peaks.finish();
  CHECK(peaks.scope(scope[0]).current == 20);
  CHECK(peaks.scope(scope[0]).peak == 130);
  CHECK(peaks.scope(scope[0]).peak_ticks == 2);
  CHECK(peaks.scope(scope[0]).peak_step_bytes == 130);
  CHECK(peaks.scope(scope[0]).peak_group == 0);
  CHECK(peaks.group(GroupId(0)).max_live_bytes == 130);
  CHECK(peaks.group(GroupId(0)).alloc_count == 3);
  CHECK(peaks.at_peak(GroupId(0), scope[0]).bytes == 130);
  CHECK(peaks.at_peak(GroupId(1), scope[0]).bytes == 0);
}

TEST_CASE("peak_finder: an allocation of 0 bytes after the peak is not counted at it",
          "[collector]") {
  PeakFinder peaks;
  const std::array<ScopeId, 1> scope{peaks.add_scope()};
  const GroupId group = peaks.add_group(scope);
  peaks.add(group, 8, 1);
  peaks.add(group, 0, 2);
  peaks.finish();
  CHECK(peaks.at_peak(group, scope[0]).count == 1);
  CHECK(peaks.group(group).live_count == 2);
}

TEST_CASE("peak_finder: agrees with brute force on random sequences", "[collector]") {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    PeakFinder peaks;
    std::vector<ScopeId> all;
    for (int i = 0; i < 4; ++i) all.push_back(peaks.add_scope());
    std::vector<std::vector<ScopeId>> scopes_of_group;
    const size_t groups = 1 + random() % 8;
    for (size_t i = 0; i < groups; ++i) {
      std::vector<ScopeId> scopes;
      for (const ScopeId id : all) {
        if (random() % 2 == 0) scopes.push_back(id);
      }
      peaks.add_group(scopes);
      scopes_of_group.push_back(scopes);
    }
    BruteForce oracle(scopes_of_group, all.size());
    std::vector<std::pair<GroupId, uint64_t>> blocks;
    const uint64_t largest = seed % 3 == 0 ? 3 : 1000;  // small ones make many ties
    for (uint64_t ticks = 1; ticks <= 400; ++ticks) {
      const auto group = static_cast<GroupId>(random() % groups);
      const uint64_t bytes = random() % largest;
      const size_t victim = blocks.empty() ? 0 : random() % blocks.size();
      PeakChanges changes;
      switch (blocks.empty() ? 0 : random() % 3) {
        case 0:
          changes = {{group, static_cast<int64_t>(bytes), 1, true}};
          peaks.add(group, bytes, ticks);
          blocks.emplace_back(group, bytes);
          break;
        case 1:
          changes = {
              {blocks[victim].first, -static_cast<int64_t>(blocks[victim].second), -1, false}};
          peaks.remove(blocks[victim].first, blocks[victim].second);
          blocks.erase(blocks.begin() + static_cast<ptrdiff_t>(victim));
          break;
        default:
          changes = {
              {blocks[victim].first, -static_cast<int64_t>(blocks[victim].second), -1, false},
              {group, static_cast<int64_t>(bytes), 1, true}};
          peaks.apply(changes, ticks);
          blocks[victim] = {group, bytes};
          break;
      }
      oracle.apply(changes, ticks);
    }
    peaks.finish();
    for (const ScopeId id : all) {
      INFO("seed " << seed << " scope " << id);
      REQUIRE(peaks.scope(id).peak == oracle.scope(id).peak);
      REQUIRE(sum_of_holders(peaks, id) == peaks.scope(id).peak);
      if (oracle.scope(id).peak == 0) continue;
      REQUIRE(peaks.scope(id).peak_ticks == oracle.scope(id).ticks);
      for (GroupId group{0}; group < groups; ++group) {
        if (!oracle.counts_into(group, id)) continue;
        REQUIRE(peaks.at_peak(group, id).bytes == oracle.scope(id).live[group]);
        REQUIRE(peaks.at_peak(group, id).count == oracle.scope(id).counts[group]);
      }
    }
  }
}
