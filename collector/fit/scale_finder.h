// How many times as large a change makes a block: by the functions of its stack, its site's title,
// its tag and its phases.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "collector/analyze/profile.h"
#include "collector/summary/what_if.h"

namespace gpupeak::collector {

class ScaleFinder {
 public:
  /// Both must outlive the finder.
  ScaleFinder(Profile& profile, const std::vector<Changes::Scale>& scales)
      : profile_(profile), scales_(scales), matched_(scales.size()) {}

  /// The factor for a block of the driver or of malloc.
  double of_group(GroupId group);
  /// The factor for a block that an arena handed out.
  double of_holder(HolderId holder);
  /// A block of the group was allocated: counts what matched it.
  void note_group(GroupId group) { note(by_group_.at(group)); }
  void note_holder(HolderId holder) { note(by_holder_.at(holder)); }
  /// The number of blocks that each pattern has matched.
  const std::vector<uint64_t>& matched() const { return matched_; }

 private:
  struct Found {
    double factor = 1;
    std::vector<bool> by;  // of scales_
  };
  Found find(uint32_t stack, PhaseId phase, const std::vector<std::string>& names);
  void note(const Found& found);

  Profile& profile_;
  const std::vector<Changes::Scale>& scales_;
  std::vector<uint64_t> matched_;
  std::unordered_map<GroupId, Found> by_group_;
  std::unordered_map<HolderId, Found> by_holder_;
};

}  // namespace gpupeak::collector
