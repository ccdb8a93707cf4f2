// A library with pools that rules tell gpupeak of: a class whose functions are virtual, and a pair
// of exported functions. Each keeps a ledger.
#pragma once

#include <cstddef>
#include <cstdint>

namespace demo {

/// What a ledger says; bytes as the rule says that they are counted.
struct Ledger {
  uint64_t in_use, peak, requests;
};
using OnBlock = void (*)(uint64_t address, uint64_t bytes);

/// Blocks are rounded, which alloc tells through `given`.
class Pool {
 public:
  virtual ~Pool() = default;
  virtual void* alloc(size_t bytes, size_t* given) = 0;
  virtual void free(void* at, size_t bytes) = 0;
  virtual Ledger ledger() = 0;
  virtual void for_each(OnBlock on_block) = 0;
};

}  // namespace demo

extern "C" {
demo::Pool* demo_make_pool();
void* demo_alloc(size_t bytes);
void demo_free(void* at);
/// Calls demo_alloc, as any other program would.
void* demo_alloc_twice_as_much(size_t bytes);
demo::Ledger demo_ledger();
void demo_for_each(demo::OnBlock on_block);
/// The same two functions in another place: in a library that needs this one.
void* plugin_alloc(size_t bytes);
void plugin_free(void* at);
}
