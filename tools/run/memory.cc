#include "tools/run/memory.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "tools/shared/process_stat.h"

namespace gpupeak::tools {
namespace {

namespace fs = std::filesystem;

/// The value beside a name in a file such as memory.events and /proc/vmstat; 0: there is none.
uint64_t value_of(const std::string& file, const std::string& name) {
  std::ifstream lines(file);
  std::string key;
  uint64_t value = 0;
  while (lines >> key >> value) {
    if (key == name) return value;
  }
  return 0;
}

/// The limit in a file; 0: there is none. v1 writes a very large number for that, v2 a word.
uint64_t limit_in(const std::string& file) {
  constexpr uint64_t kNone = UINT64_C(1) << 60;
  std::ifstream in(file);
  uint64_t value = 0;
  return in >> value && value < kNone ? value : 0;
}

/// Where a hierarchy is mounted, and which of its cgroups is the root there.
struct Mount {
  std::string root, place;
};

std::optional<Mount> mount_of(const std::string& table, bool v2) {
  std::ifstream mounts(table);
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream front(line.substr(0, line.find(" - ")));
    std::string id, parent, device, root, place, options;
    front >> id >> parent >> device >> root >> place >> options;
    std::istringstream back(line.substr(std::min(line.size(), line.find(" - ") + 3)));
    std::string type, source, more;
    back >> type >> source >> more;
    const bool has_memory = ("," + more + ",").find(",memory,") != std::string::npos;
    if (v2 ? type == "cgroup2" : type == "cgroup" && has_memory) return Mount{root, place};
  }
  return std::nullopt;
}

/// The process's cgroup, as /proc/PID/cgroup has it; empty: the process is in none of this version.
std::string path_of(pid_t process, bool v2) {
  std::ifstream lines(fmt::format("/proc/{}/cgroup", process));
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    if (v2 ? controllers == ",," : controllers.find(",memory,") != std::string::npos)
      return line.substr(second + 1);
  }
  return "";
}

}  // namespace

void MemoryKills::read(Group& group) {
  const std::string& folder = group.folder;
  const uint64_t kills =
      value_of(folder + (group.v2 ? "/memory.events" : "/memory.oom_control"), "oom_kill");
  if (std::exchange(group.was_read, true) && kills <= group.kills) return;
  group.kills = kills;
  group.refusals =
      group.v2 ? value_of(folder + "/memory.events", "oom") : limit_in(folder + "/memory.failcnt");
  group.limit = limit_in(folder + (group.v2 ? "/memory.max" : "/memory.limit_in_bytes"));
}

void MemoryKills::add_groups(pid_t process, bool v2) {
  const std::optional<Mount> mount = mount_of(mounts_, v2);
  std::string inside = mount ? path_of(process, v2) : "";
  if (inside.empty()) return;
  // In a container the mount may begin at the process's own cgroup or above it.
  if (mount->root != "/" && inside.starts_with(mount->root)) inside.erase(0, mount->root.size());
  const char* counters = v2 ? "/memory.events" : "/memory.oom_control";
  std::error_code error;
  if (!fs::exists(mount->place + inside + counters, error)) inside = "";
  for (bool more = true; more; inside = fs::path(inside).parent_path().string()) {
    if (inside == "/") inside = "";
    more = !inside.empty();
    Group group{.path = more ? inside : "/", .folder = mount->place + inside, .v2 = v2};
    const bool is_known = std::ranges::any_of(
        before_, [&](const Group& known) { return known.folder == group.folder; });
    if (is_known || !fs::exists(group.folder + counters, error)) continue;
    read(group);
    before_.push_back(std::move(group));
  }
}

void MemoryKills::note(pid_t process) {
  if (!noted_.insert(kernel_text(of_process(process, "cgroup")).value_or("")).second) return;
  for (const bool v2 : {true, false}) add_groups(process, v2);
}

MemoryKills::MemoryKills(std::string mounts)
    : mounts_(std::move(mounts)), node_kills_(value_of("/proc/vmstat", "oom_kill")) {
  note(getpid());
}

uint64_t MemoryKills::limit() const {
  uint64_t least = 0;
  for (const Group& group : before_) {
    if (group.limit != 0) least = least == 0 ? group.limit : std::min(least, group.limit);
  }
  return least;
}

std::optional<collector::RunRecord::MemoryKill> MemoryKills::since(bool killed) const {
  collector::RunRecord::MemoryKill kill;
  kill.started_process = killed;
  const Group* counted = nullptr;
  const Group* refused = nullptr;  // the innermost cgroup whose limit was reached
  for (const Group& before : before_) {
    Group now = before;
    read(now);
    if (now.kills <= before.kills) continue;  // no kill, or the cgroup is gone
    kill.kills = std::max(kill.kills, now.kills - before.kills);
    if (counted == nullptr) counted = &before;
    if (refused == nullptr && now.refusals > before.refusals && now.limit > 0) {
      refused = &before;
      kill.limit_bytes = now.limit;
    }
  }
  if (counted != nullptr) {
    kill.cgroup = (refused != nullptr ? *refused : *counted).path;
    return kill;
  }
  if (!killed || value_of("/proc/vmstat", "oom_kill") <= node_kills_) return std::nullopt;
  kill.likely = true;
  kill.kills = 1;
  return kill;
}

}  // namespace gpupeak::tools
