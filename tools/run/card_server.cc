#include "tools/run/card_server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <csignal>
#include <utility>
#include <vector>

#include "collector/files/regular_file.h"
#include "tools/shared/child.h"

namespace gpupeak::tools {
namespace {

#ifdef __aarch64__
constexpr const char* kLoader = "/lib/ld-linux-aarch64.so.1";
#else
constexpr const char* kLoader = "/lib64/ld-linux-x86-64.so.2";
#endif

/// What the child reads in our memory to become the server.
struct Start {
  int socket = -1;
  std::string library;
  std::vector<const char*> variables;
};

/// Keeps no file open that somebody may wait for the end of.
int wait_for_cuda(void* start) {
  const Start& it = *static_cast<Start*>(start);
  syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);
  syscall(SYS_prctl, PR_SET_NAME, "gpupeak-cards");
  syscall(SYS_dup3, it.socket, 0, 0);
  const long nothing = syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR);
  for (const int output : {1, 2}) syscall(SYS_dup3, nothing, output, 0);
  syscall(SYS_close_range, 3, ~0u, 0);
  const char* const words[] = {kLoader, it.library.c_str(), nullptr};
  pollfd called{.fd = 0, .events = POLLIN, .revents = 0};
  if (syscall(SYS_ppoll, &called, 1, nullptr, nullptr, 0) == 1)
    syscall(SYS_execve, kLoader, words, it.variables.data());
  syscall(SYS_exit_group, 0);
  return 0;
}

/// The run's processes know its name, which is no file's: it begins with a 0.
collector::Descriptor listening_socket(uint64_t run_id) {
  constexpr int kMostWaiting = 64;
  collector::Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  const char* const end = fmt::format_to(address.sun_path + 1, "gpupeak-{:016x}", run_id);
  const auto bytes = static_cast<socklen_t>(end - reinterpret_cast<char*>(&address));
  if (bind(socket.get(), reinterpret_cast<sockaddr*>(&address), bytes) != 0 ||
      listen(socket.get(), kMostWaiting) != 0)
    return collector::Descriptor(-1);
  return socket;
}

}  // namespace

CardServer::CardServer(std::string library, uint64_t run_id)
    : library_(std::move(library)), socket_(listening_socket(run_id)) {}

void CardServer::start() {
  static Start start;
  static HelperStack stack;
  if (!socket_ || access(kLoader, X_OK) != 0) return;
  start = {socket_.get(), library_, {"GPUPEAK_CHILDREN=none", "GPUPEAK_RUN_PID=1"}};  // no log
  for (char** one = environ; *one != nullptr; ++one) {
    const std::string_view text = *one;
    if (!text.starts_with("LD_PRELOAD=") && !text.starts_with("LD_AUDIT=") &&
        !text.starts_with("GPUPEAK_"))
      start.variables.push_back(*one);
  }
  start.variables.push_back(nullptr);
  process_ = start_helper(wait_for_cuda, &start, stack);
  socket_ = collector::Descriptor(-1);
}

void CardServer::stop() const {
  if (process_ > 0) kill(process_, SIGKILL);
}

CardServer::~CardServer() {
  stop();
  if (process_ > 0) wait_for_child(process_);
}

}  // namespace gpupeak::tools
