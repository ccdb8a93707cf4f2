// Another file with classes of the same names in its own unnamed namespace.
//
// And a vtable with a table of functions right behind it, which only its size tells apart: by hand,
// since where a compiler puts things is its own affair.
extern "C" int names_run(int x);

#define HIDDEN __attribute__((visibility("hidden"), used, noinline))
extern "C" {
HIDDEN int names_by_hand(int x) {
  return names_run(x) + 91;
}
HIDDEN int names_row_a(int x) {
  return names_run(x) + 92;
}
HIDDEN int names_row_b(int x) {
  return names_run(x) + 93;
}
extern __attribute__((visibility("hidden"))) int (*const names_behind[2])(int);
}
asm(R"(
  .pushsection .rodata
names_of_class: .string "6ByHand"
  .popsection
  .pushsection .data.rel.ro, "aw"
  .balign 8
_ZTI6ByHand: .quad _ZTVN10__cxxabiv117__class_type_infoE + 16, names_of_class
  .type _ZTV6ByHand, @object
  .size _ZTV6ByHand, 24
_ZTV6ByHand: .quad 0, _ZTI6ByHand, names_by_hand
  .globl names_behind
  .hidden names_behind
names_behind: .quad names_row_a, names_row_b
  .popsection
)");

namespace {
volatile int g_sink;
struct Same {
  virtual ~Same() = default;
  virtual int other() {
    g_sink = 81;
    return 81;
  }
  virtual int same() {
    g_sink = 82;
    return 82;
  }
};
struct Derived final : Same {
  int same() override {
    g_sink = 83;
    return 83;
  }
};
Same* volatile g_same;
}  // namespace

extern "C" __attribute__((visibility("default"))) int names_run_second(int x) {
  g_same = x > 0 ? new Same : new Derived;
  const int sum = g_same->same() + g_same->other() + names_behind[x & 1](x);
  delete g_same;
  return sum;
}
