#include "tools/top/replay.h"

#include <time.h>

#include <algorithm>

#include "collector/analyze/analyze.h"
#include "collector/log/log_reader.h"
#include "collector/text/error.h"
#include "collector/text/scope_key.h"
#include "collector/timeline/time_series.h"

namespace gpupeak::tools {
namespace {

/// The part of a processor that replays may take, and the seconds that they may take at the start.
constexpr double kShare = 0.006, kAtFirst = 0.25;
constexpr double kBytesPerSecond = 50e6;
constexpr size_t kRows = 100;

struct GivenUp {};

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / kNsPerSecond;
}

TopCurve curve_of(const collector::TimeSeries& times, const std::string& name,
                  const collector::ClockMap& clock) {
  TopCurve curve;
  const collector::Series* series = times.find(name);
  if (series == nullptr) return curve;
  for (size_t i = 0; i < series->buckets.size(); ++i) {
    const auto ns = static_cast<double>(times.begin_ns(series->first_bucket + i, clock));
    curve.push_back({ns / kNsPerSecond, series->buckets[i].max});
  }
  return curve;
}

}  // namespace

std::shared_ptr<const TopFindings> replay_for_top(const std::string& path,
                                                  const collector::Reading& reading,
                                                  const collector::Progress& progress) {
  auto findings = std::make_shared<TopFindings>();
  const double before = cpu_seconds();
  try {
    const collector::LogReader log(path, reading.sanitizer, collector::HeapReading::kIfFew);
    collector::Options options;
    options.reading = reading;
    options.top = kRows;
    collector::TimeSeries times;
    findings->log_bytes = log.used_bytes();
    findings->summary = collector::analyze(log, path, options, progress, &times);
    for (const collector::DeviceSummary& device : findings->summary.devices) {
      const std::string scope = collector::ScopeKey::device(device.ordinal).text();
      findings->devices[device.ordinal] = curve_of(times, scope, log.clock());
    }
    findings->heap = curve_of(times, "host/heap", log.clock());
    findings->at_seconds = static_cast<double>(findings->summary.run.duration_ns) / kNsPerSecond;
  } catch (const collector::LogError& error) {
    findings->problem = error.what();
  } catch (const collector::UsageError& error) {
    findings->problem = error.what();
  }
  findings->cpu_seconds = cpu_seconds() - before;
  return findings;
}

TopReplay::~TopReplay() {
  is_given_up_ = true;
  if (job_.valid()) job_.wait();
}

double TopReplay::estimate(uint64_t log_bytes, const TopFindings* before) {
  const uint64_t known = before != nullptr ? before->log_bytes : 0;
  const uint64_t added = log_bytes - std::min(log_bytes, known);
  // Finding the names takes as long as last time.
  return (before != nullptr ? before->cpu_seconds : 0) +
         static_cast<double>(added) / kBytesPerSecond;
}

void TopReplay::want(const std::string& path, uint64_t log_bytes, const TopFindings* before,
                     bool asked) {
  if (is_busy()) return;
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - began_;
  const double allowed = kAtFirst + kShare * passed.count();
  if (!asked && spent_ + estimate(log_bytes, before) > allowed) return;
  path_ = path;
  job_ = std::async(std::launch::async, [this] {
    return replay_for_top(path_, reading_, [this](uint64_t, uint64_t) {
      if (is_given_up_) throw GivenUp{};
    });
  });
}

std::shared_ptr<const TopFindings> TopReplay::done() {
  if (!is_busy() || job_.wait_for(std::chrono::seconds(0)) != std::future_status::ready)
    return nullptr;
  auto findings = job_.get();
  spent_ += findings->cpu_seconds;
  return findings;
}

}  // namespace gpupeak::tools
