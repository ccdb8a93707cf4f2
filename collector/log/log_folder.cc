#include "collector/log/log_folder.h"

#include <array>
#include <chrono>
#include <numeric>
#include <tuple>
#include <utility>

#include "collector/text/error.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {
namespace {

namespace fs = std::filesystem;

constexpr int kDeepest = 8;  // folders may be nested by job, host, day …

bool is_named_as_log(const fs::path& path) {
  const std::string ending = path.extension();
  return ending == ".gplog" || ending == ".gpbundle" || ending == ".gpz";
}

std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  if (fs::is_regular_file(folder, error)) return {folder};
  const auto options = fs::directory_options::skip_permission_denied;
  for (fs::recursive_directory_iterator entry(folder, options, error), end; !error && entry != end;
       entry.increment(error)) {
    const bool hidden = entry->path().filename().string().starts_with('.');
    if (hidden || entry.depth() >= kDeepest) entry.disable_recursion_pending();
    std::error_code gone;
    if (!hidden && entry->is_regular_file(gone)) files.push_back(entry->path());
  }
  return files;
}

/// Adds a point. If there are too many, every second point of the older half is removed.
void add(MemoryCurve& curve, MemoryPoint point) {
  constexpr size_t kMostPoints = 1024;
  if (!curve.empty() && point.seconds <= curve.back().seconds) return;
  curve.push_back(point);
  if (curve.size() < kMostPoints) return;
  MemoryCurve thinned;
  const size_t old = curve.size() / 2;
  for (size_t i = 0; i < old; i += 2) {
    const bool second = curve[i + 1].bytes > curve[i].bytes;  // the larger stays: no peak is lost
    thinned.push_back(curve[second ? i + 1 : i]);
  }
  thinned.insert(thinned.end(), curve.begin() + static_cast<ptrdiff_t>(old), curve.end());
  curve = std::move(thinned);
}

void note_look(FolderLog& log) {
  const auto& [header, page] = std::tie(log.head.header, log.head.counters);
  if (!log.looks || log.looks->cookie != header.cookie)
    log.looks = std::make_shared<LogLooks>(LogLooks{header.cookie, {}, {}, {}});
  if (!log.is_live()) return;
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  const double at = now.count() - static_cast<double>(header.start_realtime_ns) / kNsPerSecond;
  for (const int32_t number : counted_devices(page))
    add(log.looks->devices[number], {at, page.device[number].total.live});
  const Coverage coverage = coverage_of(header, page);
  if (coverage.heap_counters || coverage.windows) add(log.looks->heap, {at, page.heap.live});
  add(log.looks->events, {at, page.device_events + page.heap_alloc_count + page.heap_free_count});
}

}  // namespace

std::optional<double> growth_of(const MemoryCurve& curve) {
  constexpr double kSeconds = 60, kLeastSeconds = 3;
  constexpr size_t kPoints = 60;
  if (curve.size() < 3) return std::nullopt;
  const double end = curve.back().seconds;
  // Of a young program only the second half counts: memory taken at the start is no growth.
  const double begin = std::max({curve.front().seconds, end - kSeconds, end / 2});
  if (end - begin < kLeastSeconds) return std::nullopt;
  // At equal distances, since a replay gives many points where much happened, and looks may be few.
  std::array<double, kPoints> values{};
  size_t at = 0;
  for (size_t i = 0; i < kPoints; ++i) {
    const double when = begin + (end - begin) * static_cast<double>(i) / (kPoints - 1);
    while (at + 2 < curve.size() && curve[at + 1].seconds <= when) ++at;
    const MemoryPoint &from = curve[at], &to = curve[at + 1];
    const auto had = static_cast<double>(from.bytes);
    values[i] = had + (static_cast<double>(to.bytes) - had) * (when - from.seconds) /
                          (to.seconds - from.seconds);
  }
  const double middle = std::accumulate(values.begin(), values.end(), 0.0) / kPoints;
  double xx = 0, xy = 0;
  for (size_t i = 0; i < kPoints; ++i) {
    const double x = static_cast<double>(i) - (kPoints - 1) / 2.0;
    xx += x * x;
    xy += x * (values[i] - middle);
  }
  return xy / xx * (kPoints - 1) / (end - begin);
}

LogFolder::LogFolder(fs::path folder, size_t most) : folder_(std::move(folder)), most_(most) {}

void LogFolder::refresh(Known& known, FileState file) {
  // The counters of a log that is being written change, while size and time of the file may not.
  const bool may_change = known.log && known.log->is_live();
  const bool is_same = file == known.file;
  if (is_same && !may_change) return;
  known.file = std::move(file);
  const std::string& path = known.file.path;
  try {
    FolderLog log;
    if (known.log && is_same) log = *known.log;
    if (known.log) log.looks = known.log->looks;
    log.path = path;
    log.head = read_head(path);
    log.state = state_of(log.head);
    const uint32_t devices = log.head.counters.device_count;
    if (!is_same || known.devices != devices) log.facts = read_facts(path, log.head);
    known.devices = devices;
    note_look(log);
    known.log = std::move(log);
  } catch (const LogError&) {
    known.log.reset();
  }
}

FolderView LogFolder::look() {
  FolderView view;
  std::map<std::string, Known> seen;
  for (const fs::path& file : files_below(folder_)) {
    FileState state = state_of_file(file.string());
    if (state.inode == 0) continue;  // it has gone
    const std::string name = file == folder_ ? file.filename() : file.lexically_relative(folder_);
    Known& known = seen[name];
    if (auto node = known_.extract(name)) known = std::move(node.mapped());
    refresh(known, std::move(state));
    if (known.log) known.log->name = name;
    if (known.log)
      view.logs.push_back(*known.log);
    else if (is_named_as_log(file))
      ++view.unreadable;
  }
  known_ = std::move(seen);
  std::ranges::sort(view.logs, {}, [](const FolderLog& log) {
    return std::tuple(!log.is_live(), -static_cast<int64_t>(log.head.header.start_realtime_ns),
                      log.name);
  });
  if (view.logs.size() > most_) {
    view.left_out = view.logs.size() - most_;
    view.logs.resize(most_);
  }
  return view;
}

std::vector<std::string> files_named(const fs::path& folder, std::string_view ending) {
  std::vector<std::string> names;
  for (const fs::path& file : files_below(folder)) {
    if (file.filename().string().ends_with(ending)) names.push_back(file);
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace gpupeak::collector
