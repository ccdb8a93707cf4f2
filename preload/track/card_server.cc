#include "track/card_server.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "base/environment.h"
#include "base/syscalls.h"
#include "base/text.h"

namespace gpupeak::preload {
namespace {

struct Question {
  NvmlCard card{};
  int32_t device = 0;
  bool of_list = false, with_graphics = false;
  uint64_t most = 0;  ///< of a list
};
/// Behind it comes the list, if that is known and was asked for.
struct Answer {
  int32_t asker = 0;  ///< who has asked, as the server's processes are numbered
  bool has_nvml = false, is_known = false;
  NvmlMemory memory;
};

/// So many take as long as opening NVML and ending with it open.
constexpr uint32_t kMostQuestions = 256;
/// How long an answer may take: the server may still be opening NVML, on a busy machine.
constexpr timeval kPatience{.tv_sec = 1, .tv_usec = 0};

constinit std::atomic<uint32_t> g_asked{0};
constinit std::atomic<bool> g_is_left{false};

/// Sends all of a value, or gets all of it. False: the other side is gone, or slow.
template <typename Call, typename Value>
bool whole(Call call, long socket, Value& value) {
  for (size_t done = 0; done < sizeof value;) {
    const long bytes =
        call(socket, reinterpret_cast<char*>(&value) + done, sizeof value - done, MSG_NOSIGNAL);
    if (bytes == -EINTR) continue;
    if (bytes <= 0) return false;
    done += static_cast<size_t>(bytes);
  }
  return true;
}

struct Connection : sys::Descriptor {
  /// To the server, as tools/run/card_server.cc names it.
  Connection() : Descriptor(sys::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    be_patient();
    Text<32> name("gpupeak-");
    name.add_hex(environment().run_id);
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    const size_t bytes = name.view().size();
    memcpy(address.sun_path + 1, name.c_str(), bytes);
    is_made =
        is_open() && sys::connect(fd, &address, offsetof(sockaddr_un, sun_path) + 1 + bytes) == 0;
  }
  /// By whoever has connected to us.
  explicit Connection(long accepted) : Descriptor(accepted) { be_patient(); }

  void be_patient() const {
    for (const int direction : {SO_SNDTIMEO, SO_RCVTIMEO})
      sys::setsockopt(fd, SOL_SOCKET, direction, &kPatience, sizeof kPatience);
  }
  template <typename Value>
  bool send(Value& value) const {
    return whole(sys::send, fd, value);
  }
  template <typename Value>
  bool receive(Value& value) const {
    return whole(sys::receive, fd, value);
  }

  bool is_made = false;
};

bool may_ask() {
  return environment().run_id != 0 && !g_is_left.load(std::memory_order_relaxed) &&
         !nvml_was_tried();
}

/// False: there is no server, or none that can answer. `list`: nullptr if it is not asked for.
bool ask(Question& question, Answer& answer, NvmlProcesses* list) {
  const NvmlCard* const card = may_ask() ? nvml_card(question.device) : nullptr;
  if (card == nullptr || g_asked.fetch_add(1, std::memory_order_relaxed) >= kMostQuestions)
    return false;
  question.card = *card;
  const Connection server;
  const bool is_answered = server.is_made && server.send(question) && server.receive(answer) &&
                           // In another namespace the list has other numbers of processes.
                           answer.has_nvml && answer.asker == sys::getpid() &&
                           (list == nullptr || !answer.is_known || server.receive(*list));
  if (!is_answered) leave_card_server();
  return is_answered;
}

}  // namespace

void wake_card_server() {
  if (environment().ledger && may_ask() && !Connection().is_made) leave_card_server();
}

void leave_card_server() {
  g_is_left = true;
}

void* nvml_handle(int device) {
  const NvmlCard* const card = nvml_card(device);
  return card != nullptr ? nvml_device(device, *card) : nullptr;
}

bool memory_of_card(int device, NvmlMemory& memory) {
  Question question{.device = device};
  Answer answer;
  if (!ask(question, answer, nullptr)) return nvml_memory(nvml_handle(device), memory);
  memory = answer.memory;
  return answer.is_known;
}

bool processes_of_card(int device, uint64_t most, bool with_graphics, NvmlProcesses& processes) {
  Question question{
      .device = device, .of_list = true, .with_graphics = with_graphics, .most = most};
  Answer answer;
  if (!ask(question, answer, &processes))
    return nvml_processes(nvml_handle(device), most, with_graphics, processes);
  return answer.is_known;
}

}  // namespace gpupeak::preload

using namespace gpupeak::preload;

// The loader jumps here, so the stack is not as after a call.
#ifdef __x86_64__
__attribute__((force_align_arg_pointer))
#endif
void gpupeak_serve_cards() {
  static NvmlProcesses list;
  sys::prctl(PR_SET_NAME, const_cast<char*>("gpupeak-cards"));
  start_first_nvml_device();
  for (;;) {
    const Connection asking(sys::accept4(0, nullptr, nullptr, SOCK_CLOEXEC));
    if (asking.fd == -EINTR || asking.fd == -ECONNABORTED) continue;
    if (!asking.is_open()) sys::exit_group(1);  // somebody has run it by hand
    Question question;
    ucred who{};
    socklen_t bytes = sizeof who;
    if (sys::getsockopt(asking.fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes) != 0 ||
        who.uid != sys::geteuid() || !asking.receive(question) ||
        static_cast<uint32_t>(question.device) >= GPUPEAK_LOG_MAX_DEVICES)
      continue;  // who only wakes us says nothing
    Answer answer{.asker = who.pid, .has_nvml = open_nvml(), .is_known = false, .memory = {}};
    void* const device = nvml_device(question.device, question.card);
    answer.is_known = question.of_list
                          ? nvml_processes(device, question.most, question.with_graphics, list)
                          : nvml_memory(device, answer.memory);
    if (asking.send(answer) && answer.is_known && question.of_list) asking.send(list);
  }
}
