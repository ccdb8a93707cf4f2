#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <regex>
#include <sstream>

#include "collector/log/log_head.h"
#include "tools/serve/serve.h"
#include "tools/shared/process_stat.h"

namespace gpupeak::tools {
namespace {

constexpr size_t kLargestFile = 4 << 20;  // an environment may be that large
constexpr size_t kLongestPath = 4096;

std::string content(int file) {
  std::string text;
  char piece[4096];
  ssize_t bytes = 0;
  while (text.size() < kLargestFile && (bytes = read(file, piece, sizeof piece)) > 0)
    text.append(piece, static_cast<size_t>(bytes));
  close(file);
  return text;
}

/// The content of a file of a process, which may try to harm us: links stay within the process's
/// root, and only a plain file is read. "" if there is none, and before Linux 5.6.
std::string content_within(const std::string& process, const std::string& path) {
  const int root = open((process + "/root").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (root < 0) return "";
  open_how how{};
  how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  const auto file = static_cast<int>(syscall(SYS_openat2, root, path.c_str(), &how, sizeof how));
  close(root);
  if (file < 0) return "";
  struct stat status {};
  if (fstat(file, &status) == 0 && S_ISREG(status.st_mode)) return content(file);
  close(file);
  return "";
}

/// Whether the text is a DNS name, as all names of Kubernetes are. Any other text came from
/// elsewhere.
bool is_name(std::string_view text) {
  constexpr size_t kLongest = 253;
  return !text.empty() && text.size() <= kLongest &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
         });
}

void add_name(PodLabels& labels, const char* label, std::string_view value) {
  while (!value.empty() && (value.back() == '\n' || value.back() == ' ')) value.remove_suffix(1);
  if (is_name(value)) labels.emplace(label, value);
}

/// The labels that the downward API gave a process, by variables or by files. Without a pod's name
/// there are none: the variables may be of anybody.
PodLabels told(const std::string& process) {
  constexpr std::pair<std::string_view, const char*> kVariables[] = {
      {"POD_NAME=", "pod"},   {"POD_NAMESPACE=", "namespace"}, {"CONTAINER_NAME=", "container"},
      {"NODE_NAME=", "node"}, {"POD_UID=", "pod_uid"},
  };
  constexpr std::pair<const char*, const char*> kFiles[] = {
      {"name", "pod"}, {"namespace", "namespace"}, {"uid", "pod_uid"}};
  PodLabels labels;
  std::istringstream variables(kernel_text(process + "/environ").value_or(""));
  for (std::string line; std::getline(variables, line, '\0');) {
    for (const auto& [name, label] : kVariables) {
      if (line.starts_with(name))
        add_name(labels, label, std::string_view(line).substr(name.size()));
    }
  }
  for (const auto& [name, label] : kFiles)
    add_name(labels, label, content_within(process, std::string("etc/podinfo/") + name));
  if (!labels.contains("pod")) labels.clear();
  return labels;
}

/// The number in "pid:[4026531836]"; 0: it cannot be read.
uint64_t pid_namespace_of(const std::string& process) {
  char text[64] = {};
  const ssize_t length = readlink((process + "/ns/pid").c_str(), text, sizeof text - 1);
  const std::string_view link(text, length > 0 ? static_cast<size_t>(length) : 0);
  const size_t begin = link.find('[');
  uint64_t number = 0;
  if (begin != std::string_view::npos)
    std::from_chars(link.data() + begin + 1, link.data() + link.size(), number);
  return number;
}

}  // namespace

PodLabels pod_of_cgroup(std::string_view cgroup) {
  // kubepods-burstable-pod1234_….slice, /kubepods/pod1234-…/; static pods have a hash.
  static const std::regex pod(
      "(?:^|[/-])pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?![0-9a-f])");
  // docker-ID.scope, cri-containerd-ID.scope, crio-ID.scope, libpod-ID.scope, …:cri-containerd:ID,
  // /docker/ID. CRI-O's and podman's monitors (crio-conmon-ID) are outside of their containers.
  static const std::regex container("(conmon)?[-/:]([0-9a-f]{64})(?![0-9a-z])");
  PodLabels labels;
  std::istringstream lines{std::string(cgroup)};
  for (std::string line; std::getline(lines, line);) {  // HIERARCHY:CONTROLLERS:PATH
    if (line.size() > kLongestPath) continue;
    PodLabels found;
    for (std::sregex_iterator match(line.begin(), line.end(), pod), end; match != end; ++match) {
      std::string uid = (*match)[1];
      std::replace(uid.begin(), uid.end(), '_', '-');
      found["pod_uid"] = uid;
    }
    for (std::sregex_iterator match(line.begin(), line.end(), container), end; match != end;
         ++match) {
      if ((*match)[1].length() == 0) found["container_id"] = (*match)[2];
    }
    if (found.size() > labels.size()) labels = std::move(found);
  }
  return labels;
}

Pods::Pods(std::string procfs)
    : procfs_(std::move(procfs)), host_([] {
        char name[256] = {};
        gethostname(name, sizeof name - 1);
        return std::string(name);
      }()) {
  own_ = told(procfs_ + "/self");
  const PodLabels cgroup = pod_of_cgroup(kernel_text(procfs_ + "/self/cgroup").value_or(""));
  if (const auto uid = cgroup.find("pod_uid"); uid != cgroup.end() && !own_.empty())
    own_.insert(*uid);
}

Pods::Processes Pods::processes() const {
  Processes found;
  for (const pid_t pid : numbers_in(procfs_)) {
    const std::string process = procfs_ + "/" + std::to_string(pid);
    const uint64_t space = pid_namespace_of(process);
    if (space != 0) found.emplace(std::pair(space, collector::pid_inside(process)), process);
  }
  return found;
}

std::string Pods::process_of(const gpupeak_file_header& header, const Processes& known) const {
  const auto process = known.find({header.pid_namespace, header.pid});
  if (process == known.end()) return "";
  return collector::process_start_time(process->second) == header.process_start_time
             ? process->second
             : "";
}

void Pods::look(const FolderView& view) {
  std::map<uint64_t, PodLabels> still;
  bool is_read = false;
  Processes known;
  for (const FolderLog& log : view.logs) {
    const gpupeak_file_header& header = log.head.header;
    if (auto node = found_.extract(header.cookie)) {
      still.insert(std::move(node));
      continue;
    }
    if (!log.is_live() || header.pid_namespace == 0) continue;
    if (!is_read) known = processes();
    is_read = true;
    const std::string process = process_of(header, known);
    if (process.empty()) continue;
    PodLabels labels = pod_of_cgroup(kernel_text(process + "/cgroup").value_or(""));
    labels.merge(told(process));
    still.emplace(header.cookie, std::move(labels));
  }
  found_ = std::move(still);
}

PodLabels Pods::labels_of(const FolderLog& log) const {
  PodLabels labels;
  if (const auto found = found_.find(log.head.header.cookie); found != found_.end())
    labels = found->second;
  if (labels.contains("pod") || own_.empty()) return labels;
  // Programs in our own pod have our labels. Containers of one pod share the host's name; a program
  // in another pod's cgroup is not in our pod.
  const bool is_other_host = !log.facts.host.empty() && log.facts.host != host_;
  const auto uid = std::as_const(labels).find("pod_uid"), own = own_.find("pod_uid");
  const bool is_other_pod =
      uid != labels.end() && (own == own_.end() || own->second != uid->second);
  if (!is_other_host && !is_other_pod) labels.insert(own_.begin(), own_.end());
  return labels;
}

}  // namespace gpupeak::tools
