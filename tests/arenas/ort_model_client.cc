// A program that creates a session of each model from one place, then runs it, with the stand-in
// for ONNX Runtime's arenas. usage: ort_model_client LIBRARY MODEL…
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>

#include "check.h"

namespace {

struct ApiBase {
  void* const* (*get_api)(uint32_t);
  const char* (*get_version)();
};
using CreateSession = void* (*)(void* env, const char* path, void* options, void** out);
using Run = void* (*)(void* session, void* options, void* names, void* inputs, size_t count,
                      void* output_names, size_t output_count, void* outputs);

}  // namespace

int main(int argc, char** argv) {
  CHECK(argc >= 3);
  void* const library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) fprintf(stderr, "%s\n", dlerror());
  CHECK(library != nullptr);
  const auto get_base = reinterpret_cast<const ApiBase* (*)()>(dlsym(library, "OrtGetApiBase"));
  constexpr uint32_t kVersion = 15;
  constexpr size_t kCreateSession = 7, kRun = 9;
  void* const* const api = get_base()->get_api(kVersion);
  const auto create_session = reinterpret_cast<CreateSession>(api[kCreateSession]);
  const auto run = reinterpret_cast<Run>(api[kRun]);
  for (int i = 2; i < argc; ++i) {
    void* session = nullptr;
    CHECK(create_session(nullptr, argv[i], nullptr, &session) == nullptr);
    CHECK(session != nullptr);
    CHECK(run(session, nullptr, nullptr, nullptr, 0, nullptr, 0, nullptr) == nullptr);
  }
  return 0;
}
