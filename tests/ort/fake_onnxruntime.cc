// A library with ONNX Runtime's entry point and a table of FAKE_SLOTS functions, by default one
// release newer than any that exists. Slot i returns i plus the sum of its arguments, which tells
// whether a call arrived whole; the functions that a test needs to do something do it.
#include <cerrno>
#include <csetjmp>
#include <cstdint>
#include <cstdlib>
#include <thread>
#include <utility>

#ifndef FAKE_VERSION
#define FAKE_VERSION "1.99.0"
#endif
#ifndef FAKE_SLOTS
#define FAKE_SLOTS 700
#endif

namespace {

using Word = uintptr_t;

template <size_t kSlot>
Word plain(Word a, Word b, Word c, Word d, Word e, Word f, Word g, Word h, Word i, Word j) {
  errno = static_cast<int>(kSlot);
  return kSlot + a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i + 10 * j;
}

Word create_session(Word, const char* path, Word, void** out) {
  if (path == nullptr || *path == 0) return 77;  // a status
  *out = malloc(1000);
  return 0;
}
/// Run: `options` names what happens.
Word run(Word, Word options, void (*call)(Word), Word argument, Word, Word, Word, Word) {
  void* volatile work = malloc(2'000'000);
  if (call != nullptr) call(argument);
  free(work);
  return options;
}
using Callback = void (*)(void*, void*, size_t, void*);
Word run_async(Word, Word, Word, Word, Word, Word, Word, Word outputs, Callback callback,
               void* user_data) {
  if (callback == nullptr) return 88;
  std::thread([=] {
    void* volatile work = malloc(3'000'000);
    free(work);
    callback(user_data, reinterpret_cast<void*>(outputs), 3, nullptr);
  }).detach();
  return 0;
}
void release_session(void* session) {
  free(session);
}

template <size_t... kSlot>
struct Slots {
  const void* at[sizeof...(kSlot)] = {reinterpret_cast<const void*>(&plain<kSlot>)...};
};
template <size_t... kSlot>
Slots<kSlot...> slots_of(std::index_sequence<kSlot...>);
using Table = decltype(slots_of(std::make_index_sequence<FAKE_SLOTS>()));

const Table g_table = [] {
  Table table;
  table.at[7] = reinterpret_cast<const void*>(&create_session);
  table.at[9] = reinterpret_cast<const void*>(&run);
  table.at[95] = reinterpret_cast<const void*>(&release_session);
  if constexpr (FAKE_SLOTS > 260) table.at[260] = reinterpret_cast<const void*>(&run_async);
  return table;
}();

struct ApiBase {
  const void* (*get_api)(uint32_t version);
  const char* (*get_version)();
};
const void* get_api(uint32_t version) {
  return version >= 1 && version < 100 ? g_table.at : nullptr;
}
const char* get_version() {
  return FAKE_VERSION;
}
const ApiBase g_base = {get_api, get_version};

}  // namespace

extern "C" __attribute__((visibility("default"))) const ApiBase* OrtGetApiBase() {
  return &g_base;
}
