// getenv. For a variable without a value, an adapter may have an answer.
#include "base/elf_lookup.h"
#include "hooks/adapters.h"
#include "hooks/export.h"

using namespace gpupeak::preload;

GPUPEAK_EXPORT char* getenv(const char* name) {
  static char* (*next)(const char*) = nullptr;
  auto real = __atomic_load_n(&next, __ATOMIC_RELAXED);
  if (real == nullptr) {
    real = reinterpret_cast<char* (*)(const char*)>(find_next("getenv"));
    __atomic_store_n(&next, real, __ATOMIC_RELAXED);
  }
  char* const value = real != nullptr ? real(name) : nullptr;
  return value != nullptr ? value : const_cast<char*>(adapters_variable(name));
}
