// Every way in which code gets a name and a line: see lines.py.
#include "book.h"

void *volatile kept;
int next_size = 65536;

template <class T>
struct Box {
  T value;
};
template <class T, class U>
struct Pair {
  T first;
  U second;
};

namespace service {
namespace {

__attribute__((noinline)) void handle(Request request) {
  if (request.id == 0) LEAK();
  else LEAK();
  LEAK(); asm volatile("");
}

}  // namespace

__attribute__((always_inline)) static inline void inlined_deeper(Request request) {
  LEAK();
  in_header(request);
}

__attribute__((always_inline)) static inline void inlined(Request request) {
  inlined_deeper(request);
  LEAK();
}

struct Net {
  __attribute__((noinline)) void load(int n) { next_size += n; LEAK(); asm volatile(""); }
  __attribute__((noinline)) void load(long n) { next_size += (int)n; LEAK(); asm volatile(""); }
  __attribute__((noinline)) void load(int n) const { next_size += n; LEAK(); asm volatile(""); }
  Net &operator<<(int n) { next_size += n; LEAK(); return *this; }
};

template <class T>
__attribute__((noinline)) void instance(T) {
  LEAK();
  asm volatile("");
}

template <class T>
__attribute__((noinline)) void visit(T call) {
  call(1);
  call(2);
}

__attribute__((noinline)) void work() {
  handle({0});
  handle({1});
  inlined({2});
  Net net;
  net.load(1);
  net.load(2L);
  const_cast<const Net &>(net).load(3);
  net << 4;
  instance(Box<float>{});
  instance(Box<double>{});
  instance(Box<Pair<Box<Box<int>>, Box<long>>>{});
  instance(Box<Pair<Box<Box<int>>, Box<char>>>{});
  visit([](int n) { next_size += n; LEAK(); });
  visit([&net](int n) {
    if (n == 1) LEAK();
    else LEAK();
    kept = &net;
  });
  in_header({3});
  asm volatile("");
}

}  // namespace service

static void setup() {
  LEAK();
  asm volatile("");
}

int main() {
  setup();
  service::work();
  other_file({4});
  return 0;
}
