// A library whose C API is a table of functions, as ONNX Runtime's: what a program may have behind
// it is one exported name. Beside the table lie things that must not be taken for it.
#include <cstdint>
#include <cstdio>
#include <cstring>

#define HIDDEN __attribute__((visibility("hidden"), noinline))

namespace {

volatile int g_sink;

template <int kSlot>
HIDDEN int plain(int argument) {
  g_sink = argument + kSlot;
  return g_sink * (kSlot + 3);
}
HIDDEN int twice(int argument) {
  g_sink = argument;
  return 2 * g_sink;
}

using Function = int (*)(int);
const void* const* get(uint32_t version);
const char* version_text() {
  return "1.7.2";
}

struct Base {
  const void* const* (*get)(uint32_t version);
  const char* (*version_text)();
};
constexpr Base kBase{get, version_text};
// Lies beside the base, so that the base's run of functions goes on.
const Function kOther[] = {plain<100>, plain<101>, plain<102>, plain<103>, plain<104>,
                           plain<105>, plain<106>, plain<107>, plain<108>, plain<109>};
const Function kTable[] = {plain<0>, plain<1>, twice,    plain<3>, plain<4>,
                           plain<5>, twice,    plain<7>, plain<8>, plain<9>};
const Function kShort[] = {plain<200>, plain<201>};

const void* const* get(uint32_t version) {
  if (version == 77) g_sink = kShort[version & 1](1);
  if (version >= 1 && version <= 7) return reinterpret_cast<const void* const*>(kTable);
  fprintf(stderr, "version %u is not to be had\n", version);
  return nullptr;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const Base* SampleGetApiBase() {
  return &kBase;
}
extern "C" __attribute__((visibility("default"))) int sample_other(unsigned i) {
  return kOther[i % 10](1);
}
