#include "tools/top/programs.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace gpupeak::tools {
namespace {

constexpr size_t kMostLogs = 500;

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

TopPrograms::TopPrograms(const std::string& place, const collector::Sanitizer& sanitizer)
    : folder_(place, kMostLogs), sanitizer_(sanitizer) {}

void TopPrograms::look() {
  const FolderView view = folder_.look();
  in_all_ = view.logs.size() + view.left_out;
  const double now = seconds_since_1970();
  std::vector<TopProgram> next;
  for (FolderLog log : view.logs) {
    log.name = sanitizer_.text(log.name);
    log.facts.program = sanitizer_.text(log.facts.program);
    TopProgram* known = find(log.path);
    next.push_back(known != nullptr ? std::move(*known) : TopProgram());
    next.back().look(log, now);
  }
  all_ = std::move(next);
}

TopProgram* TopPrograms::find(const std::string& path) {
  const auto found = std::find_if(all_.begin(), all_.end(), [&](const TopProgram& program) {
    return program.log().path == path;
  });
  return found == all_.end() ? nullptr : &*found;
}

bool TopPrograms::any_is_live() const {
  return std::any_of(all_.begin(), all_.end(),
                     [](const TopProgram& program) { return program.log().is_live(); });
}

}  // namespace gpupeak::tools
