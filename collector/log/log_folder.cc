#include "collector/log/log_folder.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "collector/text/error.h"

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

}  // namespace

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
    if (known.log && is_same) log = *std::move(known.log);
    log.path = path;
    log.head = read_head(path);
    log.state = state_of(log.head);
    const uint32_t devices = log.head.counters.device_count;
    if (!is_same || known.devices != devices) log.facts = read_facts(path, log.head);
    known.devices = devices;
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
  std::ranges::sort(view.logs, [](const FolderLog& a, const FolderLog& b) {
    const auto key = [](const FolderLog& log) {
      return std::tuple(!log.is_live(), -static_cast<int64_t>(log.head.header.start_realtime_ns));
    };
    return std::tuple(key(a), a.name) < std::tuple(key(b), b.name);
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
