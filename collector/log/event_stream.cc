#include "collector/log/event_stream.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "collector/log/event_windows.h"

namespace gpupeak::collector {

void EventStream::report_progress(uint64_t done_bytes) {
  if (done_bytes < total_bytes_ && done_bytes - reported_bytes_ < kProgressStepBytes) return;
  reported_bytes_ = done_bytes;
  if (progress_) progress_(done_bytes, total_bytes_);
}

/// How many threads merge windows. 0: there are too few processors or too few events for windows.
size_t EventStream::window_threads(uint64_t total_bytes, size_t processors) {
  // More threads gain little: the caller does not take events as fast as these make them.
  constexpr size_t kMost = 8;
  if (total_bytes < kWorthWindows || processors <= kReplayThreads) return 0;
  return std::min(kMost, processors - kReplayThreads);
}

EventStream::EventStream(const LogReader& log, Progress progress, EventPass pass, size_t processors)
    : log_(log),
      progress_(std::move(progress)),
      pass_(std::move(pass)),
      total_bytes_(total_bytes(log)) {
  if (const size_t threads = window_threads(total_bytes_, processors); threads > 0)
    windows_.emplace(log, threads);
  else
    merger_.emplace(log);
  for (Batch& batch : batches_) {  // here: malloc keeps what threads that have ended allocated
    batch.events.resize(windows_ ? EventWindows::kMostEvents : kBatchEvents);
    if (pass_) batch.notes.resize(batch.events.size());
  }
  if (total_bytes_ < kWorthThread || processors < 2) return;
  try {
    thread_ = std::jthread([this](const std::stop_token& stop) { fill_ahead(stop); });
  } catch (const std::system_error&) {
    // No thread is to be had: the caller does all the work.
  }
}

void EventStream::fill(Batch& batch) {
  if (windows_) {
    batch.count = windows_->next(batch.events);
    batch.done_bytes = windows_->done_bytes();
  } else {
    batch.count = merger_->fill(batch.events);
    batch.done_bytes = merger_->done_bytes();
  }
  if (pass_) pass_({batch.events.data(), batch.count}, batch.notes);
}

/// What the thread does: fills batches up to the end, which is an empty batch.
void EventStream::fill_ahead(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    {
      // Does not wake for each batch: waking takes as long as decoding some hundred events.
      std::unique_lock lock(mutex_);
      const auto half_empty = [this] { return filled_ - emptied_ <= kBatches / 2; };
      if (filled_ - emptied_ == kBatches && !changed_.wait(lock, stop, half_empty)) return;
    }
    Batch& batch = batches_[filled_ % kBatches];
    try {
      fill(batch);
    } catch (...) {
      batch.count = 0;
      batch.error = std::current_exception();
    }
    {
      const std::lock_guard lock(mutex_);
      ++filled_;
    }
    changed_.notify_one();
    if (batch.count == 0) return;
  }
}

/// The next batch, valid until the next call. Do not call it after the end.
const EventStream::Batch& EventStream::next() {
  if (!thread_.joinable()) {
    fill(batches_[0]);
    return batches_[0];
  }
  std::unique_lock lock(mutex_);
  emptied_ += lent_ ? 1 : 0;
  lent_ = true;
  if (filled_ - emptied_ == kBatches / 2) changed_.notify_one();
  changed_.wait(lock, [this] { return filled_ > emptied_; });
  const Batch& batch = batches_[emptied_ % kBatches];
  if (batch.error) std::rethrow_exception(batch.error);
  return batch;
}

}  // namespace gpupeak::collector
