// Adapters look into frameworks' allocators. Each adapter is a row, which stands in the adapter's
// own file. Here are the questions that hooks ask all of them.
//
//   dlsym("GetPjrtApi")  → the adapter that wants this name says what the program gets: our entry,
//                          by which a plugin's arenas are found before it has made one
//   getenv               → the adapter that knows the variable says what its client gets
//   dlclose              → each adapter forgets the libraries that are gone
//   longjmp              → an arena's calls that the jump leaves are over
//   fork, in the child   → adapters stop what may need a lock that a thread of the parent held
//   our end, a detach    → each adapter puts back what it has replaced
//
// A new adapter is a row, and its name in the list below. A sub-allocator that a rule file
// can describe (docs/rules.md, [[pool]]) needs a rule and no code. HOOK-SAFE, outside any
// HookScope.
#pragma once

#include <cstdint>
#include <type_traits>

namespace gpupeak::preload {

using Dlsym = void* (*)(void*, const char*);

/// All but `of` may be null.
struct Adapter {
  const char* of;
  const char* entry = nullptr;                ///< a function that the adapter's library exports
  bool (*wants)(const char* name) = nullptr;  ///< a name that dlsym looks up, beside `entry`
  void* (*replace)(Dlsym real, void* handle, const char* name) = nullptr;
  const char* (*variable)(const char* name) = nullptr;  ///< a variable without a value
  void (*look)(const void* handle) = nullptr;  ///< at each dlsym; at the start with nullptr
  void (*forget_unloaded)() = nullptr;
  void (*leave_jump)(uintptr_t target) = nullptr;  ///< `target`: what becomes the stack pointer
  void (*reset_in_child)() = nullptr;
  void (*put_back)() = nullptr;
  // For an attached program.
  void (*take_over_loaded)(void* entry) = nullptr;
  bool calls_it = false;  ///< take_over_loaded calls code that needs the library's constructors
  void (*take_over_in_place)() = nullptr;  ///< for what is found without an entry
};
extern const Adapter kC10Adapter, kPjrtAdapter, kOrtWheelAdapter, kRulesAdapter, kOrtAdapter,
    kNvmlAdapter, kNvtxAdapter, kArenaTablesAdapter;
inline constexpr const Adapter* kAdapters[] = {
    &kC10Adapter, &kPjrtAdapter, &kOrtWheelAdapter, &kRulesAdapter,
    &kOrtAdapter, &kNvmlAdapter, &kNvtxAdapter,     &kArenaTablesAdapter};

/// Calls this function of each adapter that has it.
template <typename... Parameters>
void call_adapters(void (*Adapter::*function)(Parameters...),
                   std::type_identity_t<Parameters>... arguments) {
  for (const Adapter* const adapter : kAdapters) {
    if (adapter->*function != nullptr) (adapter->*function)(arguments...);
  }
}

/// What the program would find without us, so never our own export.
void* behind_us(Dlsym real, void* handle, const char* name);

// The next two are for an attached program, which has the libraries' own functions and keeps them.

/// kWhole: libraries that are loaded now have run their constructors.
enum class Loaded : uint8_t { kWhole, kPerhapsInPart };
/// Takes over arenas of the libraries that are loaded already.
void adapters_take_over_loaded(Loaded how_far);
/// Takes over arenas of the library whose function the program asks for by dlsym(handle, name).
void adapters_take_over_asked_for(Dlsym real, void* handle, const char* name);

}  // namespace gpupeak::preload
