#include "collector/log/event_stream.h"

#include <utility>

namespace gpupeak::collector {

EventStream::EventStream(const LogReader& log, Progress progress)
    : log_(log), progress_(std::move(progress)) {}

void EventStream::report_progress(uint64_t done_bytes, uint64_t total_bytes) {
  if (done_bytes < total_bytes && done_bytes - reported_bytes_ < kProgressStepBytes) return;
  reported_bytes_ = done_bytes;
  if (progress_) progress_(done_bytes, total_bytes);
}

}  // namespace gpupeak::collector
