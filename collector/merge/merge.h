// Merges several processes of one run: what they needed at the same time. `gpupeak merge` calls it.
//
// in    a record of each process (process_record.h), each from a log of its own
// out   for each machine, the peak of the sum over its processes, for each GPU and for the host;
//       which ranks differ from the others; who ran out of memory, and when
//
//   rank 0 on GPU 0   6 GiB at 10 s, 2 GiB at 20 s
//   rank 1 on GPU 0   1 GiB at 10 s, 5 GiB at 20 s
//   merged            GPU 0 needs 7 GiB, not 11
//
// The result depends only on the set of records, not on their order.
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
  /// Reads a log and adds its record. Throws LogError, and UsageError if add_log() has added this
  /// log before.
  void add_log(const std::string& path, const Reading& reading, const Progress& progress = {});
  /// Adds a record of a partial result. If its log was added before, it counts once: the record
  /// that was read last counts.
  void add(ProcessRecord record);

  size_t size() const { return records_.size(); }
  /// How many times a log was added again.
  size_t repeated() const { return repeated_; }
  /// The records by rank, then by start, in whatever order they were added.
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

/// Merges at least one process.
Merged merge(std::vector<ProcessRecord> processes);

/// Reads logs and merges them.
Merged merge_logs(const std::vector<std::string>& paths, const Reading& reading = {},
                  const Progress& progress = {});

}  // namespace gpupeak::collector
