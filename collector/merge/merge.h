// Several processes of one run taken together. A set of records, each of another log, in whatever
// order and groups they come: the result depends on the set alone. `gpupeak merge` calls it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "collector/log/progress.h"
#include "collector/merge/merged.h"
#include "collector/rules/reading.h"

namespace gpupeak::collector {

class ProcessSet {
 public:
  /// Throws LogError, and UsageError if it is a log that was added as such before.
  void add_log(const std::string& path, const Reading& reading, const Progress& progress = {});
  /// Of a partial result. A log that is known already counts once: as it was read last.
  void add(ProcessRecord record);

  size_t size() const { return records_.size(); }
  /// How often a log was known already.
  size_t repeated() const { return repeated_; }
  /// In an order that the set alone determines: by rank, then by their start.
  std::vector<ProcessRecord> take();

 private:
  struct Known {
    ProcessRecord record;
    bool is_log;
  };
  void add(ProcessRecord record, bool is_log);

  std::map<uint64_t, Known> records_;
  size_t repeated_ = 0;
};

/// At least one.
Merged merge(std::vector<ProcessRecord> processes);

/// The same of logs.
Merged merge_logs(const std::vector<std::string>& paths, const Reading& reading = {},
                  const Progress& progress = {});

}  // namespace gpupeak::collector
