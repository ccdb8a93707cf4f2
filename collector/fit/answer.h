// What a run needs of each GPU, against a capacity or a card, and what would make it less.
//
// in    what each log's process needs of each device (need.h); "24 GiB", or a card, or all cards
// out   for each GPU of each machine: fits, may fit, does not fit; by how much; what holds the peak
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "collector/fit/need.h"
#include "collector/summary/fit.h"

namespace gpupeak::collector {

/// What is asked: a capacity, or a card, or neither.
struct FitQuestion {
  std::optional<uint64_t> capacity;
  const Card* card = nullptr;
  std::vector<Card> cards;  ///< the table's, where nothing is asked
};

/// What the peak would be less by, or is made of.
struct FitChange {
  std::string what;
  uint64_t bytes = 0;
  bool slack = false;  ///< nobody uses it
  std::string advice;  ///< empty: none
};

/// One GPU of one machine, with all processes that used it.
struct FitDevice {
  std::string host;
  DeviceNeed need;           ///< of all of them together
  std::vector<size_t> logs;  ///< of the logs given
  std::optional<FitAnswer> answer;
  std::vector<FitAnswer> cards;    ///< for each of the question's
  std::vector<FitChange> changes;  ///< largest first
  std::vector<TagShare> tags;      ///< of the peak, of one process
};

struct FitReport {
  std::vector<std::string> logs;
  FitQuestion question;
  std::vector<FitDevice> devices;
  /// The worst of all devices; none: nothing was asked. Unknown if no device was used.
  std::optional<Fit> fit;
};

/// GPUs are told apart by their UUIDs, within a machine.
FitReport answer_fit(const std::vector<LogNeeds>& logs, const FitQuestion& question);

}  // namespace gpupeak::collector
