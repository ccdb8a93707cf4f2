#include "life/log_name.h"

#include <sys/utsname.h>

#include "base/environment.h"
#include "base/file_name.h"
#include "base/syscalls.h"

namespace gpupeak::preload {
namespace {

std::string_view program_name(char* buffer, size_t capacity) {
  const long bytes = sys::readlink("/proc/self/exe", buffer, capacity);
  if (bytes <= 0) return "unknown";
  return file_name(std::string_view(buffer, static_cast<size_t>(bytes)));
}

}  // namespace

std::string_view host_name() {
  static utsname names;
  sys::uname(&names);
  return names.nodename;
}

bool is_filed_as_child() {
  const Environment& e = environment();
  return !e.children_pattern.view().empty() && e.run_pid != 0 && e.run_pid != sys::getpid();
}

bool has_folder_of_children() {
  return is_filed_as_child() &&
         environment().children_pattern.view() != environment().out_pattern.view();
}

uint64_t run_id() {
  static constinit uint64_t own = 0;
  const uint64_t given = environment().run_id;
  if (given != 0) return given;
  if (own == 0 && sys::failed(sys::getrandom(&own, sizeof own))) own = 0;
  return own;
}

void expand_out_pattern(Path& path) {
  const std::string_view pattern = is_filed_as_child() ? environment().children_pattern.view()
                                                       : environment().out_pattern.view();
  if (pattern.empty() || pattern[0] != '/') {
    char folder[4096];
    const long bytes = sys::getcwd(folder, sizeof folder);
    if (bytes > 1) path.add(std::string_view(folder, static_cast<size_t>(bytes) - 1)).add("/");
  }
  char name[4096];
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%' || i + 1 == pattern.size()) {
      path.add(head(tail(pattern, i), 1));
      continue;
    }
    switch (pattern[++i]) {
      case 'n':
        path.add(program_name(name, sizeof name));
        break;
      case 'p':
        path.add(static_cast<uint64_t>(sys::getpid()));
        break;
      case 'h':
        path.add(host_name());
        break;
      case 'r':
        if (environment().rank >= 0)
          path.add(static_cast<uint64_t>(environment().rank));
        else
          path.drop_last('.');
        break;
      case '%':
        path.add("%");
        break;
      default:
        path.add(head(tail(pattern, i - 1), 2));
        break;
    }
  }
}

}  // namespace gpupeak::preload
