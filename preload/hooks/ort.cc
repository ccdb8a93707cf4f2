// ONNX Runtime. Programs get a copy of its function table in which some functions are ours. The
// table's size is not known, and a program may call every slot that its library has. So everything
// behind the table's begin in the library's own read-only data is copied, which is enough for each
// version.
#include <dlfcn.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/elf_lookup.h"
#include "base/environment.h"
#include "base/imports.h"
#include "base/kept_errno.h"
#include "base/memory.h"
#include "base/proc_file.h"
#include "base/process_state.h"
#include "base/text.h"
#include "gpupeak/pages.h"
#include "hooks/adapters.h"
#include "hooks/arena_tables.h"
#include "hooks/export.h"
#include "life/process.h"
#include "stack/module_map.h"
#include "track/arena_objects.h"
#include "track/frameworks.h"
#include "track/phases.h"

namespace gpupeak::preload {
namespace {

// ONNX Runtime's arenas. All providers use one class.

constinit ArenaMaker g_maker{"ONNX Runtime", "pools.onnxruntime"};

/// The function fills in onnxruntime::AllocatorStats: allocations, reservations, extensions,
/// shrinkages and the bytes in use; since 1.28 or 1.29 also the bytes that were asked for; then the
/// bytes taken from below, and three words more. The number of words written tells the version.
ArenaTotals totals_of(uintptr_t statistics, uint64_t object) {
  constexpr size_t kRoom = 64;  // for what later releases add
  constexpr int64_t kUnwritten = 0x5bd1e995a97c2d37;
  int64_t words[kRoom];
  for (int64_t& word : words) word = kUnwritten;
  reinterpret_cast<void (*)(uint64_t, int64_t*)>(statistics)(object, words);
  size_t written = kRoom;
  while (written > 0 && words[written - 1] == kUnwritten) --written;
  if (written != 9 && written != 10) return {-1, 0, 0, 0};
  return {words[0] + words[1], words[4], words[written - 4], words[written - 1]};
}

/// The places of the functions. Sources: the classes' declarations in each release, and the
/// libraries of 1.15, 1.17, 1.20 to 1.27, 1.29 and 1.30.
struct Layout {
  int first_minor, last_minor;
  size_t least, most;  ///< number of functions in the table
  const char* base;    ///< the base class of the arena's class
  ArenaClass of;
};
constexpr ArenaClass ort_class(size_t on_stream, size_t reserve, size_t free, size_t statistics) {
  constexpr size_t kAlloc = 2, kDestroy = 0, kDelete = 1;
  return {.maker = &g_maker,
          .slot = {kAlloc, on_stream, reserve, free, kDestroy, kDelete},
          .size_at = 1,
          .statistics = statistics,
          .totals = &totals_of};
}
constexpr Layout kLayouts[] = {
    // The function that allocates on a stream is not virtual yet.
    {15, 22, 7, 7, "N11onnxruntime10IAllocatorE", ort_class(kNoSlot, 4, 3, 5)},
    {23, 23, 8, 8, "N11onnxruntime10IAllocatorE", ort_class(4, 6, 5, 7)},
    {24, 30, 10, 12, "N11onnxruntime6IArenaE", ort_class(4, 6, 5, 7)},
};
constexpr const char* kArena = "N11onnxruntime8BFCArenaE";
constexpr const char* kStreamArena = "N11onnxruntime19StreamAwareBFCArenaE";
constexpr const char* kOldStreamArena = "N11onnxruntime16StreamAwareArenaE";  // till 1.23

const ArenaClass* class_of(int minor, const VirtualTable& table) {
  for (const Layout& layout : kLayouts) {
    if (minor >= layout.first_minor && minor <= layout.last_minor && table.count >= layout.least &&
        table.count <= layout.most && strcmp(table.base, layout.base) == 0) {
      return &layout.of;
    }
  }
  return nullptr;
}

/// Whether `derived` is the arena for streams: it has these functions of `arena`, and one of its
/// own that allocates on a stream.
bool is_stream_arena(const VirtualTable& derived, const VirtualTable& arena, const ArenaClass& of) {
  if (derived.slots == nullptr || derived.count < arena.count ||
      strcmp(derived.base, kArena) != 0) {
    return false;
  }
  for (const size_t slot :
       {of.slot[kArenaAlloc], of.slot[kArenaFree], of.slot[kArenaReserve], of.statistics}) {
    if (derived.slots[slot] != arena.slots[slot]) return false;
  }
  const size_t on_stream = of.slot[kArenaAllocOther];
  return derived.slots[on_stream] != arena.slots[on_stream];
}

void off(const char* version, const char* why) {
  arenas_off(Text<256>("ONNX Runtime ", version, ": ", why));
}

/// 23 for "1.23.2"; -1 if it is not a release 1.x, since nothing is known of others.
int ort_minor_version(const char* version) {
  if (version == nullptr || version[0] != '1' || version[1] != '.') return -1;
  const char* at = version + 2;
  if (*at < '0' || *at > '9') return -1;
  const uint64_t minor = next_number(at);
  return *at != '.' || minor > INT32_MAX ? -1 : static_cast<int>(minor);
}

/// Call it before the library makes its first arena. A second call for the same library does
/// nothing. `inside`: an address in the loaded library. `version`: as the library says.
void take_over_ort_arenas(const void* inside, const char* version) {
  if (!environment().arenas || !may_record() || has_arena_tables(inside)) return;
  // No lock of ours is held while searching, since that takes the loader's lock.
  VirtualTable tables[2];
  tables[0] = find_virtual_table(inside, kArena);
  if (tables[0].slots == nullptr) return off(version, "the class of its arenas was not found");
  const ArenaClass* const of = class_of(ort_minor_version(version), tables[0]);
  if (of == nullptr) return off(version, "its arenas are not those of a release that is known");
  // Before 1.23 arenas for streams allocate by a function that is not virtual. They are left alone.
  const bool for_streams = of->slot[kArenaAllocOther] != kNoSlot;
  if (for_streams) {
    tables[1] = find_virtual_table(inside, kStreamArena);
    if (tables[1].slots == nullptr) tables[1] = find_virtual_table(inside, kOldStreamArena);
    if (!is_stream_arena(tables[1], tables[0], *of))
      return off(version, "its arenas for streams are not those that are known");
  }
  if (!take_over_arena_tables(*of, tables, for_streams ? 2 : 1))
    return off(version, "its table of functions cannot be written");
  arenas_on(g_maker, version);
}

using Version = Text<32>;

std::string_view folder_of(std::string_view path) {
  const size_t end = path.rfind('/');
  return head(path, end != std::string_view::npos ? end : 0);
}

/// The package's own version, onnxruntime.__version__: a line of the package's __init__.py, which
/// Python is executing, begins with `__version__ = "1.23.2"`. Empty: there is no such line.
Version package_version(std::string_view module) {
  const Path path(folder_of(folder_of(module)), "/__init__.py");
  char text[4096];  // the line is right below the licence
  text[read_file(path.c_str(), text, sizeof text - 1)] = 0;
  Version version;
  const char* at = strstr(text, "\n__version__ = ");
  if (at == nullptr) return version;
  at += strlen("\n__version__ = ");
  const char quote = *at++;
  if (quote != '"' && quote != '\'') return version;
  const char* const end = strchr(at, quote);
  if (end != nullptr) version.add({at, static_cast<size_t>(end - at)});
  return version;
}

/// Takes over the module's arenas. `entry`: that function, before its first call or later.
void take_over_ort_wheel(void* entry) {
  const KeptErrno program_errno;
  const Version version = package_version(module_path(entry));
  take_over_ort_arenas(entry, version.view().empty() ? "(unknown version)" : version.c_str());
}

void* look_at_wheel(Dlsym real, void* handle, const char* name) {
  void* const found = real(handle, name);
  if (found != nullptr) take_over_ort_wheel(found);
  return found;
}

/// Slots of OrtApi, which only ever grows at its end.
enum Slot : size_t {
  kCreateSessionOptions = 10,
  kCloneSessionOptions = 12,
  kEnableProfiling = 14,
  kReleaseStatus = 93,
  kReleaseSessionOptions = 100,
  kSessionGetProfilingStartTimeNs = 146,
};
/// The oldest release with which all of this was seen to work. Much older releases have shorter
/// tables.
constexpr int kOldestMinor = 15;

using Word = uintptr_t;

template <typename... Arguments>
Word call(const Word* api, Slot slot, Arguments... arguments) {
  return reinterpret_cast<Word (*)(Arguments...)>(api[slot])(arguments...);
}

bool went_well(const Word* api, Word status) {
  if (status != 0) call(api, kReleaseStatus, status);
  return status == 0;
}

// ONNX Runtime's own profile, through its C API. Finds out whether a session has one, and makes a
// copy of the program's options that asks for one (--ort-nodes).

/// Options with which session `number` writes a profile; 0: use the program's own `options`, which
/// may be 0. `minor`: the minor version of the release 1.x.
Word ort_options_with_profile(const Word* api, int minor, Word options, uint64_t number) {
  if (number == 0 || minor < kOldestMinor || !wants_ort_profile()) return 0;
  Word copy = 0;
  const Word made = options != 0 ? call(api, kCloneSessionOptions, options, &copy)
                                 : call(api, kCreateSessionOptions, &copy);
  if (!went_well(api, made) || copy == 0) return 0;
  Path prefix;
  ort_profile_prefix(number, prefix);
  if (went_well(api, call(api, kEnableProfiling, copy, prefix.c_str()))) return copy;
  call(api, kReleaseSessionOptions, copy);
  return 0;
}

/// A session was made: notes its profile, if it has one. `called_ns`: CLOCK_MONOTONIC before that.
void ort_note_profile(const Word* api, int minor, const void* session, uint64_t number,
                      uint64_t called_ns) {
  if (number == 0 || minor < kOldestMinor) return;
  uint64_t start_ns = 0;
  if (!went_well(api, call(api, kSessionGetProfilingStartTimeNs, session, &start_ns))) return;
  if (start_ns != 0) ort_session_profiled(number, start_ns, called_ns);
}

using Table = const Word*;  ///< OrtApi: pointers to functions

/// OrtApiBase. ONNX Runtime promises that it never changes.
struct ApiBase {
  Table (*get_api)(uint32_t version);
  const char* (*get_version)();
};
using GetApiBase = const ApiBase* (*)();

struct Row {
  uint32_t slot, since;
  const char* phase;
  const char* detail;
};
constexpr Row kRows[] = {
#define ROW(slot, since, arity, handler, phase, detail) {slot, since, phase, detail},
#include "hooks/ort_table.def"
#undef ROW
};
constexpr size_t kRowCount = sizeof kRows / sizeof kRows[0];

/// One loaded ONNX Runtime. No argument of its functions says which library is meant, so there is a
/// set of our functions for each library. There is no lock: threads that fill an entry at the same
/// time write the same.
struct Library {
  std::atomic<GetApiBase> get_base{nullptr};  ///< the real one; nullptr: this place is free
  std::atomic<const ApiBase*> real_base{nullptr};
  ApiBase base{};
  std::atomic<Table> real_table{nullptr};
  std::atomic<Word*> table{nullptr};
  int minor = -1;  ///< minor version of release 1.x; written before `table`
  Word real[kRowCount] = {};
};
constexpr size_t kMostLibraries = 4;
constinit Library g_libraries[kMostLibraries];

/// The real function.
template <size_t kRow, typename Function>
struct RealCall {
  const Library& library;
  Function* function;
  KeptErrno& program_errno;
  const void* frame;

  template <typename... Arguments>
  Word operator()(Arguments... arguments) const {
    return program_errno.call(function, arguments...);
  }
  Label label(uint64_t session = 0) const {
    return {GPUPEAK_PHASE_ORT, kRows[kRow].phase, session, kRows[kRow].detail};
  }
};

// Handlers: how a call becomes a phase.
namespace handlers {

template <typename Real, typename... Arguments>
Word phase(const Real& real, Arguments... arguments) {
  CallPhase phase(real.label(), real.frame);
  return real(arguments...);
}

template <typename Real>
Word enable_profiling(const Real& real, Word options, Word prefix) {
  ort_profile_is_the_programs();
  return real(options, prefix);
}

template <typename Real, size_t... kIndex>
Word make_session(const Real& real, Word env, Word model, const Word* rest,
                  std::index_sequence<kIndex...>) {
  return real(env, model, rest[kIndex]...);
}

/// Arguments: env, path (or data and its size), options, …, out. Returns a status, null on success.
template <typename Real, typename... Arguments>
Word create_session(const Real& real, Word env, Word model, Arguments... arguments) {
  constexpr auto kRest = std::make_index_sequence<sizeof...(arguments)>();
  const bool from_file = real.label().category.text == "file";
  const char* path = reinterpret_cast<const char*>(model);
  const uint64_t session = number_ort_session(!from_file        ? "(in memory)"
                                              : path != nullptr ? path
                                                                : "");
  say_arenas();
  CallPhase phase(real.label(session), real.frame);
  const Table api = real.library.real_table.load(std::memory_order_relaxed);
  const int minor = real.library.minor;
  const uint64_t called_ns = monotonic_ns();
  Word rest[] = {arguments...};
  const auto* out = reinterpret_cast<void* const*>(rest[sizeof...(arguments) - 1]);
  Word& options = rest[from_file ? 0 : 1];
  const Word programs = options;
  const Word ours = ort_options_with_profile(api, minor, programs, session);
  if (ours != 0) options = ours;
  Word status = make_session(real, env, model, rest, kRest);
  if (ours != 0) {
    const bool made = went_well(api, status);
    call(api, kReleaseSessionOptions, ours);
    options = programs;
    // A copy of the options may lack the program's own operators, so the call may fail with it.
    if (!made) status = make_session(real, env, model, rest, kRest);
  }
  if (status == 0 && out != nullptr && *out != nullptr) {
    ort_session_created(*out, session);
    ort_note_profile(api, minor, *out, session, called_ns);
  }
  return status;
}

template <typename Real, typename... Arguments>
Word run(const Real& real, Word session, Arguments... arguments) {
  CallPhase phase(real.label(ort_session_number(reinterpret_cast<void*>(session))), real.frame);
  return real(session, arguments...);
}

void finish_async_run(void* closure, void* outputs, uint64_t output_count, void* status) {
  auto* run = static_cast<OrtAsyncRun*>(closure);
  const OrtAsyncRun own = *run;
  const int program_errno = errno;
  free_ort_async_run(run);
  range_end(own.range);
  errno = program_errno;
  own.callback(own.user_data, outputs, output_count, status);
}

/// The run goes on in another thread after the call has returned. So it is a range, which our
/// callback ends.
template <typename Real>
Word run_async(const Real& real, Word session, Word options, Word input_names, Word inputs,
               Word input_count, Word output_names, Word output_count, Word outputs, Word callback,
               Word user_data) {
  OrtAsyncRun* run = callback != 0 ? new_ort_async_run() : nullptr;
  if (run == nullptr) {
    return real(session, options, input_names, inputs, input_count, output_names, output_count,
                outputs, callback, user_data);
  }
  run->callback = reinterpret_cast<decltype(run->callback)>(callback);
  run->user_data = reinterpret_cast<void*>(user_data);
  const uint64_t range =
      range_begin(real.label(ort_session_number(reinterpret_cast<void*>(session))));
  run->range = range;
  const Word status =
      real(session, options, input_names, inputs, input_count, output_names, output_count, outputs,
           reinterpret_cast<Word>(&finish_async_run), reinterpret_cast<Word>(run));
  if (status != 0) {  // refused: the callback will not be called
    range_end(range);
    free_ort_async_run(run);
  }
  return status;
}

template <typename Real>
Word release_session(const Real& real, Word session) {
  if (session == 0) return real(session);
  const void* const released = reinterpret_cast<void*>(session);
  CallPhase phase(real.label(ort_session_number(released)), real.frame);
  ort_session_released(released);  // before the call: the address may be used again at once
  return real(session);
}

}  // namespace handlers

// One wrapper for each row and library.
template <size_t>
using AWord = Word;

enum RowIndex : size_t {
#define ROW(slot, since, arity, handler, phase, detail) kRowOfSlot##slot,
#include "hooks/ort_table.def"
#undef ROW
};

template <size_t kLibrary, size_t kRow, typename Handler, typename... Arguments>
Word wrapper(Arguments... arguments) {
  KeptErrno program_errno;
  using Function = Word(Arguments...);
  const Library& library = g_libraries[kLibrary];
  const RealCall<kRow, Function> real{library, reinterpret_cast<Function*>(library.real[kRow]),
                                      program_errno, __builtin_frame_address(0)};
  return Handler()(real, arguments...);
}

template <size_t kLibrary, size_t kRow, typename Handler, size_t... kArgument>
Word wrapper_address(Handler, std::index_sequence<kArgument...>) {
  return reinterpret_cast<Word>(&wrapper<kLibrary, kRow, Handler, AWord<kArgument>...>);
}

template <size_t kLibrary>
void wrapper_addresses(Word (&addresses)[kRowCount]) {
#define ROW(slot, since, arity, handler, phase, detail)                                          \
  addresses[kRowOfSlot##slot] = wrapper_address<kLibrary, kRowOfSlot##slot>(                     \
      [](const auto& real, auto... arguments) { return handlers::handler(real, arguments...); }, \
      std::make_index_sequence<arity>());
#include "hooks/ort_table.def"
#undef ROW
}

/// The copy of the table up to `end`, with our wrappers in it; nullptr: no memory.
Word* copy_table(Table real, const void* end, int minor, const Word (&wrappers)[kRowCount],
                 Library& library) {
  const size_t bytes =
      static_cast<size_t>(static_cast<const char*>(end) - reinterpret_cast<const char*>(real)) /
      sizeof(Word) * sizeof(Word);
  auto* copy = static_cast<Word*>(map_pages(whole_pages(bytes)));
  if (copy == nullptr) return nullptr;
  memcpy(copy, real, bytes);
  for (size_t row = 0; row < kRowCount; ++row) {
    if (static_cast<int>(kRows[row].since) > minor || kRows[row].slot >= bytes / sizeof(Word))
      continue;
    Word& slot = copy[kRows[row].slot];
    if (slot == 0) continue;
    library.real[row] = slot;
    slot = wrappers[row];
  }
  return copy;
}

/// The table that the program gets in place of `real`.
template <size_t kLibrary>
Table table_for(Table real) {
  Library& library = g_libraries[kLibrary];
  if (Word* copy = library.table.load(std::memory_order_acquire)) {
    // Every release so far has one table for all versions of the API.
    return library.real_table.load(std::memory_order_relaxed) == real ? copy : real;
  }
  const int minor = ort_minor_version(library.base.get_version());
  if (minor >= 0) take_over_ort_arenas(real, library.base.get_version());
  const void* const end = minor < 0 ? nullptr : data_end(real);
  if (end == nullptr) return real;
  Word wrappers[kRowCount];
  wrapper_addresses<kLibrary>(wrappers);
  Word* const copy = copy_table(real, end, minor, wrappers, library);
  if (copy == nullptr) return real;
  library.minor = minor;
  library.real_table.store(real, std::memory_order_relaxed);
  Word* first = nullptr;  // if another thread was faster, the pages of `copy` stay unused
  return library.table.compare_exchange_strong(first, copy) ? copy : first;
}

template <size_t kLibrary>
Table get_api(uint32_t version) {
  const Table real =
      g_libraries[kLibrary].real_base.load(std::memory_order_relaxed)->get_api(version);
  if (real == nullptr) return nullptr;
  const KeptErrno program_errno;
  return table_for<kLibrary>(real);
}

template <size_t kLibrary>
const ApiBase* get_base() {
  return &g_libraries[kLibrary].base;
}

struct Entry {
  GetApiBase get_base;
  Table (*get_api)(uint32_t);
};
constexpr Entry kEntries[] = {{&get_base<0>, &get_api<0>},
                              {&get_base<1>, &get_api<1>},
                              {&get_base<2>, &get_api<2>},
                              {&get_base<3>, &get_api<3>}};
static_assert(std::size(kEntries) == kMostLibraries);

/// Our place for the library with this entry point, taken if need be; kMostLibraries: none is free.
size_t place_of(GetApiBase get_base) {
  size_t place = 0;
  for (; place < kMostLibraries; ++place) {
    GetApiBase taken = nullptr;
    auto& known = g_libraries[place].get_base;
    if (known.compare_exchange_strong(taken, get_base) || taken == get_base) break;
  }
  if (place == kMostLibraries) return place;
  Library& library = g_libraries[place];
  if (library.real_base.load(std::memory_order_acquire) == nullptr) {
    const ApiBase* const real = get_base();
    if (real == nullptr) return kMostLibraries;
    library.base = {kEntries[place].get_api, real->get_version};
    library.real_base.store(real, std::memory_order_release);
  }
  return place;
}

/// Our entry to the library of `found`. Without the real library the program must not find our
/// export in its place. Then the name is looked up again from behind us, so that dlerror() says
/// what it would say without us.
void* replace_entry(Dlsym real, void* handle, const char* name) {
  void* const found = real(handle, name);
  if (found == nullptr) return nullptr;
  if (is_own_code(reinterpret_cast<uintptr_t>(found)))
    return find_next(name) == nullptr ? real(RTLD_NEXT, name) : found;
  const size_t place = place_of(reinterpret_cast<GetApiBase>(found));
  return place < kMostLibraries ? reinterpret_cast<void*>(kEntries[place].get_base) : found;
}

/// Takes over the arenas of a library that is in use already.
void take_over_loaded(void* entry) {
  const ApiBase* const base = reinterpret_cast<GetApiBase>(entry)();
  if (base != nullptr && ort_minor_version(base->get_version()) >= 0)
    take_over_ort_arenas(entry, base->get_version());
}

void forget_unloaded() {
  for (Library& library : g_libraries) {
    const GetApiBase get_base = library.get_base.load(std::memory_order_acquire);
    if (get_base == nullptr || data_end(reinterpret_cast<const void*>(get_base)) != nullptr)
      continue;
    library.table.store(nullptr, std::memory_order_relaxed);  // the copy's pages stay mapped
    library.real_base.store(nullptr, std::memory_order_relaxed);
    library.get_base.store(nullptr, std::memory_order_release);
  }
}

}  // namespace

const Adapter kOrtAdapter{.of = "ONNX Runtime",
                          .entry = "OrtGetApiBase",
                          .replace = replace_entry,
                          .forget_unloaded = forget_unloaded,
                          .take_over_loaded = take_over_loaded};

/// Its module contains the library, and exports only the function that Python's import looks up. So
/// its arenas are found from that function.
const Adapter kOrtWheelAdapter{.of = "ONNX Runtime's Python package",
                               .entry = "PyInit_onnxruntime_pybind11_state",
                               .replace = look_at_wheel,
                               .take_over_loaded = take_over_ort_wheel};

}  // namespace gpupeak::preload

using namespace gpupeak::preload;

GPUPEAK_EXPORT const void* OrtGetApiBase() {
  KeptErrno program_errno;
  ensure_started();
  const auto real =
      reinterpret_cast<GetApiBase>(find_for(__builtin_return_address(0), "OrtGetApiBase"));
  if (real == nullptr) return nullptr;
  const size_t place = place_of(real);
  return place < kMostLibraries ? kEntries[place].get_base() : program_errno.call(real);
}
