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

/// What the user asks about: a capacity, or a card, or neither.
struct FitQuestion {
  std::optional<uint64_t> capacity;
  const Card* card = nullptr;
  std::vector<Card> cards;  ///< if nothing is asked: all cards that gpupeak knows
};

/// A part of the peak, or what a change would save.
struct FitChange {
  std::string what;
  uint64_t bytes = 0;
  bool slack = false;  ///< memory that nobody uses
  std::string advice;  ///< empty: none
};

/// One GPU of one machine, with all processes that used it.
struct FitDevice {
  std::string host;
  DeviceNeed need;           ///< what all of them need together
  std::vector<size_t> logs;  ///< indexes of the logs that used it
  std::optional<FitAnswer> answer;
  std::vector<FitAnswer> cards;    ///< one for each card of the question
  std::vector<FitChange> changes;  ///< largest first
  std::vector<TagShare> tags;      ///< of the peak of one process
};

struct FitReport {
  std::vector<std::string> logs;
  FitQuestion question;
  std::vector<FitDevice> devices;
  /// The worst answer of all devices; none: nothing was asked. kUnknown if no device was used.
  std::optional<Fit> fit;
};

/// GPUs are told apart by their UUIDs, within a machine.
FitReport answer_fit(const std::vector<LogNeeds>& logs, const FitQuestion& question);

}  // namespace gpupeak::collector
