// What programs do with ONNX Runtime's C API, against the fake libraries.
//   client slots | jump | throw | async | nested | threads | dlopen LIBRARY… | refused
#include <dlfcn.h>

#include <atomic>
#include <cerrno>
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>

namespace {

using Word = uintptr_t;
struct ApiBase {
  const Word* (*get_api)(uint32_t version);
  const char* (*get_version)();
};
using Plain = Word (*)(Word, Word, Word, Word, Word, Word, Word, Word, Word, Word);
using CreateSession = Word (*)(Word, const char*, Word, void**);
using Run = Word (*)(void*, Word, void (*)(Word), Word, Word, Word, Word, Word);
using RunAsync = Word (*)(void*, Word, Word, Word, Word, Word, Word, Word,
                          void (*)(void*, void*, size_t, void*), void*);
using Release = void (*)(void*);

}  // namespace

extern "C" const ApiBase* OrtGetApiBase();

namespace {

const Word* api_of(const ApiBase* base) {
  return base->get_api(22);
}
/// Real programs fetch their table in a static initialiser, and again later.
const Word* const g_early_api = api_of(OrtGetApiBase());

void* create(const Word* api, const char* path) {
  void* session = nullptr;
  const Word status = reinterpret_cast<CreateSession>(api[7])(1, path, 2, &session);
  if (status != 0) printf("create_session: status %zu\n", static_cast<size_t>(status));
  return session;
}
Word run(const Word* api, void* session, void (*call)(Word) = nullptr, Word argument = 0) {
  return reinterpret_cast<Run>(api[9])(session, 5, call, argument, 0, 0, 0, 0);
}
void release(const Word* api, void* session) {
  reinterpret_cast<Release>(api[95])(session);
}

/// Each slot, those that are wrapped with the arguments that they have.
void slots(const Word* api, size_t count) {
  Word sum = 0;
  for (size_t slot = 0; slot < count; ++slot) {
    if (slot == 7 || slot == 9 || slot == 95 || slot == 260) continue;
    errno = 0;
    const Word result = reinterpret_cast<Plain>(api[slot])(1, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    if (result < slot + 1 || errno != static_cast<int>(slot)) {
      printf("slot %zu gave %zu, errno %d\n", slot, static_cast<size_t>(result), errno);
    }
    sum += errno;
  }
  printf("%zu slots, sum %zu\n", count, static_cast<size_t>(sum));
}

jmp_buf g_back;
const Word* g_api = nullptr;
void* g_session = nullptr;

void jump(Word) {
  longjmp(g_back, 1);
}
void throw_it(Word) {
  throw std::runtime_error("from inside run");
}
void run_inside(Word depth) {
  if (depth > 0) run(g_api, g_session, run_inside, depth - 1);
}

std::atomic<int> g_called{0};
void done(void* user_data, void* outputs, size_t count, void* status) {
  printf("done: user_data %d outputs %zu count %zu status %s\n", *static_cast<int*>(user_data),
         reinterpret_cast<size_t>(outputs), count, status == nullptr ? "ok" : "error");
  ++g_called;
}

}  // namespace

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  const Word* api = g_api = api_of(OrtGetApiBase());
  printf("version %s, the same table twice: %d, none for 1000: %d\n",
         OrtGetApiBase()->get_version(), api == g_early_api,
         OrtGetApiBase()->get_api(1000) == nullptr);
  if (strcmp(what, "slots") == 0) {
    slots(api, strtoul(argv[2], nullptr, 10));
    return 0;
  }
  void* session = g_session = create(api, "/models/first.onnx");
  if (strcmp(what, "jump") == 0) {
    static int i = 0;  // not in a register that longjmp restores
    for (; i < 3; ++i) {
      if (setjmp(g_back) == 0) run(api, session, jump);
    }
    printf("run %zu\n", static_cast<size_t>(run(api, session)));
  } else if (strcmp(what, "throw") == 0) {
    for (int i = 0; i < 3; ++i) {
      try {
        run(api, session, throw_it);
      } catch (const std::exception& error) {
        puts(error.what());
      }
    }
    printf("run %zu\n", static_cast<size_t>(run(api, session)));
  } else if (strcmp(what, "nested") == 0) {
    run(api, session, run_inside, 40);  // more than are kept open
    puts("nested");
  } else if (strcmp(what, "async") == 0) {
    int value = 42;
    const auto run_async = reinterpret_cast<RunAsync>(api[260]);
    for (int i = 0; i < 200; ++i) {
      const Word status = run_async(session, 0, 0, 0, 0, 0, 0, 7, done, &value);
      if (status != 0) puts("refused");
      while (g_called <= i) std::this_thread::yield();
    }
    printf("without a callback: %zu\n",
           static_cast<size_t>(run_async(session, 0, 0, 0, 0, 0, 0, 7, nullptr, &value)));
  } else if (strcmp(what, "refused") == 0) {
    create(api, "");
    create(api, nullptr);
    release(api, nullptr);
  } else if (strcmp(what, "threads") == 0) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([api] {
        void* own = create(api, "/models/own.onnx");
        for (int i = 0; i < 500; ++i) run(api, own);
        release(api, own);
      });
    }
    for (std::thread& thread : threads) thread.join();
    puts("threads");
  } else if (strcmp(what, "dlopen") == 0) {
    for (int round = 0; round < 3; ++round) {
      for (int i = 2; i < argc; ++i) {
        void* library = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
        const auto get_base =
            reinterpret_cast<const ApiBase* (*)()>(dlsym(library, "OrtGetApiBase"));
        const Word* other = api_of(get_base());
        printf("loaded %s\n", get_base()->get_version());
        void* own = create(other, "/models/other.onnx");
        run(other, own);
        release(other, own);
        dlclose(library);
      }
    }
  }
  release(api, session);
  return 0;
}
