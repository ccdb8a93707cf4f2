#include "inline_sample.h"

namespace gpupeak::testing {
namespace {

__attribute__((noinline)) const void* caller() {
  return __builtin_return_address(0);
}

volatile int g_sink;

__attribute__((always_inline)) inline const void* sample_inner() {
  const void* address = caller();
  g_sink = 1;  // no tail call
  return address;
}

template <class T>
__attribute__((noinline)) const void* sample_outer(T value) {
  g_sink = value;
  const void* address = sample_inner();
  g_sink = 2;
  return address;
}

}  // namespace

const void* address_in_inlined_function() {
  return sample_outer<int>(3);
}

}  // namespace gpupeak::testing
