// How much memory of each device a run needs, and whether its log is good enough to say so.
// `gpupeak fit` and `gpupeak sweep` call it.
//
// in    a log; or the logs of all programs that one process ran, one after the other
// out   for each device:   least    with less than this the run fails
//                          most     with this the run succeeds: what it took when it was recorded
//                          enough   with this a simulation of the arena succeeds; between the two
//       and for each bound that does not hold, the reason
//
//   least 5.1 GiB   PyTorch had 4.6 GiB in use, and 0.5 GiB were outside of it
//   most  7.9 GiB   PyTorch kept 2.8 GiB idle beside that
//   enough 5.4 GiB  with that much PyTorch gives idle segments back in time
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "collector/analyze/analyze.h"
#include "collector/summary/fit.h"

namespace gpupeak::collector {

struct LogNeeds {
  Summary summary;
  std::vector<DeviceNeed> devices;  ///< those that the process used
};
/// Of one log, with the other programs that its process ran. Throws LogError.
LogNeeds needs_of(const std::string& path, const Options& options, const Progress& progress = {});

// What a run needs of each GPU, against a capacity or a card, and what would make it less.
//
// in    what each log's process needs of each device (need.h); "24 GiB", or a card, or all cards
// out   for each GPU of each machine: fits, may fit, does not fit; by how much; what holds the peak

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
