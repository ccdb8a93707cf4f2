#include "hooks/nvtx_clients.h"

#include <link.h>

#include <cstddef>
#include <cstdint>

#include "base/loader.h"
#include "hooks/nvtx.h"
#include "hooks/nvtx_types.h"
#include "stack/module_map.h"

namespace gpupeak::preload {
namespace {

using nvtx::Function;
using nvtx::FunctionTable;

/// The begin of a client's data (nvtxGlobals_t of nvtxImpl.h, since NVTX 3.0). Behind it are the
/// places of the client's callbacks, then tables of pointers to these places.
struct Client {
  uint32_t state, padding;
  nvtx::Callbacks callbacks;
  size_t version_bytes;
  uint32_t version, reserved;
  uintptr_t set_version;
};
constexpr uint32_t kHasAsked = 2, kVersion = 3;
constexpr size_t kVersionBytes = 24, kMostBytes = 4096;
constexpr unsigned kMostCallbacks = 64;

bool is_client(const dl_phdr_info& object, const Client& at) {
  return at.state == kHasAsked && at.padding == 0 && at.version == kVersion &&
         at.callbacks.struct_bytes == sizeof at.callbacks && at.version_bytes == kVersionBytes &&
         is_code_of(object, reinterpret_cast<uintptr_t>(at.callbacks.get_module_table)) &&
         is_code_of(object, at.set_version);
}

/// Calls `visit(place)` for the place of each callback of a module. False: it is no client after
/// all.
template <typename Visit>
bool for_each_callback(const Client& client, nvtx::Module module, Visit visit) {
  FunctionTable table = nullptr;
  unsigned count = 0;
  if (client.callbacks.get_module_table(module, &table, &count) == 0 || count > kMostCallbacks)
    return false;
  const auto lies_in_it = [&client](const void* at) {
    return reinterpret_cast<uintptr_t>(at) - reinterpret_cast<uintptr_t>(&client) < kMostBytes;
  };
  if (!lies_in_it(table)) return false;
  for (unsigned i = 1; i < count; ++i) {
    if (table[i] == nullptr) continue;
    if (!lies_in_it(table[i])) return false;
    visit(table[i]);
  }
  return true;
}

/// Calls `visit(client)` for each client that has asked.
template <typename Visit>
void for_each_client(Visit visit) {
  for_each_object([&](const dl_phdr_info& object) {
    return for_each_part(object, PT_LOAD, [&](const ElfW(Phdr) & part, AddressRange memory) {
      if ((part.p_flags & PF_W) == 0) return false;
      uintptr_t at = (memory.begin + 7) & ~uintptr_t{7};
      for (; at + sizeof(Client) <= memory.begin + part.p_filesz; at += 8) {
        auto& client = *reinterpret_cast<Client*>(at);
        if (is_client(object, client)) visit(client);
      }
      return false;
    });
  });
}

bool has_tool(const Client& client) {
  bool has = false;
  const auto look = [&has](Function* place) { has |= *place != nullptr; };
  return !for_each_callback(client, nvtx::kCore, look) ||
         !for_each_callback(client, nvtx::kCore2, look) || has;
}

}  // namespace

void take_over_nvtx_clients() {
  for_each_client([](const Client& client) {
    if (!has_tool(client)) attach_to_nvtx(client.callbacks);
  });
}

void leave_nvtx_clients() {
  const auto leave = [](Function* place) {
    Function ours = *place;
    if (is_own_code(reinterpret_cast<uintptr_t>(ours)))
      __atomic_compare_exchange_n(place, &ours, nullptr, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
  };
  for_each_client([&leave](const Client& client) {
    for_each_callback(client, nvtx::kCore, leave);
    for_each_callback(client, nvtx::kCore2, leave);
  });
}

}  // namespace gpupeak::preload
