// A program with sessions of ONNX Runtime, against fake_profiles.
//   profile_client MODEL [PREFIX]   three runs; with PREFIX the program turns the profile on itself
//   profile_client MODEL - kill     … and dies before it releases the session
//   profile_client MODEL - threads  ten times, sessions of four threads at once
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

namespace {

using Word = uintptr_t;
struct ApiBase {
  const Word* (*get_api)(uint32_t version);
  const char* (*get_version)();
};

template <typename... Arguments>
Word call(const Word* api, size_t slot, Arguments... arguments) {
  return reinterpret_cast<Word (*)(Arguments...)>(api[slot])(arguments...);
}

}  // namespace

extern "C" const ApiBase* OrtGetApiBase();

namespace {

void run(const Word* api, void* session) {
  call(api, 9, session, Word{0}, Word{0}, Word{0}, Word{0}, Word{0}, Word{0}, Word{0});
}

void use_sessions_at_once(const Word* api, const char* model, void* options) {
  constexpr int kThreads = 4, kTimes = 10;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([=] {
      for (int i = 0; i < kTimes; ++i) {
        void* session = nullptr;
        if (call(api, 7, Word{1}, model, options, &session) != 0) puts("no session");
        run(api, session);
        call(api, 95, session);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

int main(int argc, char** argv) {
  const Word* api = OrtGetApiBase()->get_api(22);
  void *options = nullptr, *session = nullptr;
  call(api, 10, &options);
  if (argc > 3 && strcmp(argv[3], "threads") == 0) {
    use_sessions_at_once(api, argv[1], options);
    call(api, 100, options);
    return 0;
  }
  const bool has_prefix = argc > 2 && strcmp(argv[2], "-") != 0;
  if (has_prefix) call(api, 14, options, argv[2]);
  const Word status = call(api, 7, Word{1}, argv[1], options, &session);
  printf("status %zu, a session: %d\n", static_cast<size_t>(status), session != nullptr);
  for (int i = 0; i < 3 && session != nullptr; ++i) {
    run(api, session);
  }
  fflush(stdout);
  if (argc > 3) raise(SIGKILL);
  if (session != nullptr) call(api, 95, session);
  call(api, 100, options);
  return 0;
}
