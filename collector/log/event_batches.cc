#include "collector/log/event_batches.h"

#include <algorithm>
#include <system_error>

#include "collector/log/parallel.h"
#include "collector/log/window_bounds.h"

namespace gpupeak::collector {

/// 0: there are too few processors for it, or too few events.
size_t EventBatches::window_threads(uint64_t total_bytes) {
  // More gain little: the caller is not as fast as these.
  constexpr size_t kMost = 8;
  const size_t processors = usable_processors();
  if (total_bytes < kWorthWindows || processors <= kReplayThreads) return 0;
  return std::min(kMost, processors - kReplayThreads + 1);  // in place of the one that goes ahead
}

EventBatches::EventBatches(const LogReader& log)
    : total_bytes_(gpupeak::collector::total_bytes(log)) {
  if (const size_t threads = window_threads(total_bytes_); threads > 0) {
    windows_.emplace(log, threads);
    return;
  }
  merger_.emplace(log);
  if (total_bytes_ < kWorthThread || usable_processors() < 2) return;
  try {
    thread_ = std::jthread([this](const std::stop_token& stop) { fill_ahead(stop); });
  } catch (const std::system_error&) {
    // No more threads are to be had: the caller's does it all.
  }
}

void EventBatches::fill(Batch& batch) {
  batch.events.resize(kBatchEvents);
  batch.count = merger_->fill(batch.events);
  batch.done_bytes = merger_->done_bytes();
}

/// The thread's: until the end, which is an empty batch.
void EventBatches::fill_ahead(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    {
      // Not for each batch: to wake takes as long as to decode some hundred events.
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

std::span<const Event> EventBatches::take(const Batch& batch) {
  if (batch.error) std::rethrow_exception(batch.error);
  done_bytes_ = batch.done_bytes;
  return {batch.events.data(), batch.count};
}

std::span<const Event> EventBatches::next() {
  if (windows_) {
    const std::span<const Event> events = windows_->next();
    done_bytes_ = windows_->done_bytes();
    return events;
  }
  if (!thread_.joinable()) {
    fill(batches_[0]);
    return take(batches_[0]);
  }
  std::unique_lock lock(mutex_);
  emptied_ += lent_ ? 1 : 0;
  lent_ = true;
  if (filled_ - emptied_ == kBatches / 2) changed_.notify_one();
  changed_.wait(lock, [this] { return filled_ > emptied_; });
  lock.unlock();
  return take(batches_[emptied_ % kBatches]);
}

}  // namespace gpupeak::collector
