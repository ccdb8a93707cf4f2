// An ONNX Runtime whose sessions write a profile as the real one does: a file opened when the
// session is made, filled when it is released, with times in whole microseconds since the session's
// begin by the real time's clock. Each run has three nodes: "conv 1" keeps 1 MB, "relu" needs 3 MB
// for a while, and "flat" is too short to be told from its neighbours.
//   FAKE_CLOCK=shifted   the clock is set back by an hour after the first run
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

using Word = uintptr_t;
using Clock = std::chrono::high_resolution_clock;

struct Options {
  bool profile = false, has_operators = true;
  std::string prefix;
};
struct Session {
  FILE* file = nullptr;
  std::string lines;
  Clock::time_point start;
  std::vector<void*> kept;
};

int64_t microseconds(Clock::duration time) {
  return std::chrono::duration_cast<std::chrono::microseconds>(time).count();
}
void wait(int64_t time) {
  const auto begin = Clock::now();
  while (microseconds(Clock::now() - begin) < time) {
  }
}

Word create_options(Options** out) {
  *out = new Options;
  return 0;
}
/// As the real one does, which leaves out the program's own operators.
Word clone_options(const Options* from, Options** out) {
  *out = new Options{from->profile, false, from->prefix};
  return 0;
}
Word enable_profiling(Options* options, const char* prefix) {
  options->profile = true;
  options->prefix = prefix;
  return 0;
}
void release_options(Options* options) {
  delete options;
}
void release_status(Word) {}

Word create_session(Word, const char* path, const Options* options, Session** out) {
  if (strstr(path, "own_operators") != nullptr && !options->has_operators) return 77;
  auto* session = new Session;
  session->start = Clock::now();
  if (options->profile) {
    static std::atomic<int> number{0};
    const std::string name = options->prefix + "_" + std::to_string(++number) + ".json";
    session->file = fopen(name.c_str(), "w");
    session->start = Clock::now();
  }
  *out = session;
  return 0;
}
Word profiling_start(const Session* session, uint64_t* out) {
  const auto since_epoch = session->start.time_since_epoch();
  *out = session->file == nullptr
             ? 0
             : static_cast<uint64_t>(std::chrono::nanoseconds(since_epoch).count());
  return 0;
}

void record(Session* session, const char* kind, const char* name, const char* args,
            Clock::time_point begin, Clock::time_point end) {
  if (session->file == nullptr) return;
  const char* clock = getenv("FAKE_CLOCK");
  const bool is_shifted = clock != nullptr && strcmp(clock, "shifted") == 0;
  const int64_t shift = is_shifted && !session->lines.empty() ? 3'600'000'000 : 0;
  char line[400];
  snprintf(line, sizeof line,
           "{\"cat\" : \"%s\",\"pid\" :%d,\"tid\" :%d,\"dur\" :%ld,\"ts\" :%ld,\"ph\" : \"X\","
           "\"name\" :\"%s\",\"args\" : {%s}},\n",
           kind, getpid(), gettid(), static_cast<long>(microseconds(end - begin)),
           static_cast<long>(microseconds(begin - session->start) + shift), name, args);
  session->lines += line;
}

Word run(Session* session, Word, Word, Word, Word, Word, Word, Word) {
  session->lines.reserve(1 << 20);  // so that it allocates nothing within the nodes
  const auto whole = Clock::now();
  {
    wait(50);
    const auto begin = Clock::now();
    session->kept.push_back(malloc(1'000'000));
    wait(200);
    record(session, "Node", "conv 1_kernel_time", "\"op_name\" : \"Conv\",\"provider\" : \"x\"",
           begin, Clock::now());
  }
  {
    const auto begin = Clock::now();
    void* volatile work = malloc(3'000'000);
    wait(200);
    free(work);
    wait(20);  // the node's end is cut to a microsecond
    record(session, "Node", "relu_kernel_time", "\"provider\" : \"x\",\"op_name\" : \"Relu\"",
           begin, Clock::now());
  }
  const auto now = Clock::now();  // no time between: an emulator takes some to translate new code
  record(session, "Node", "flat_kernel_time", "\"op_name\" : \"Flatten\"", now, now);
  record(session, "Node", "relu_fence_after", "\"op_name\" : \"Relu\"", now, now);
  record(session, "Session", "model_run", "", whole, Clock::now());
  return 0;
}

void release_session(Session* session) {
  if (session->file != nullptr) {
    const std::string& lines = session->lines;
    fprintf(session->file, "[\n%.*s\n]\n", static_cast<int>(lines.size() - 2), lines.c_str());
    fclose(session->file);
  }
  for (void* kept : session->kept) free(kept);
  delete session;
}

/// Only what the client calls is there.
const void* const* table() {
  static const void* slots[300] = {};
  slots[7] = reinterpret_cast<const void*>(&create_session);
  slots[9] = reinterpret_cast<const void*>(&run);
  slots[10] = reinterpret_cast<const void*>(&create_options);
  slots[12] = reinterpret_cast<const void*>(&clone_options);
  slots[14] = reinterpret_cast<const void*>(&enable_profiling);
  slots[93] = reinterpret_cast<const void*>(&release_status);
  slots[95] = reinterpret_cast<const void*>(&release_session);
  slots[100] = reinterpret_cast<const void*>(&release_options);
  slots[146] = reinterpret_cast<const void*>(&profiling_start);
  return slots;
}

struct ApiBase {
  const void* const* (*get_api)(uint32_t version);
  const char* (*get_version)();
};
const ApiBase g_base = {[](uint32_t) { return table(); }, [] { return "1.30.0"; }};

}  // namespace

extern "C" __attribute__((visibility("default"))) const ApiBase* OrtGetApiBase() {
  return &g_base;
}
