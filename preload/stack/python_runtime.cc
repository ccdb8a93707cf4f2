#include "stack/python_runtime.h"

#include <cstring>

#include "base/copied_memory.h"
#include "base/elf_lookup.h"
#include "base/lock.h"
#include "base/proc_file.h"
#include "base/text.h"
#include "log/log.h"

namespace gpupeak::preload {
namespace {

constexpr uint32_t kMaxRuntimes = 8;  // loaded one after the other, or at once under other names
constexpr uint32_t kMaxFailures = 8;  // without a single success

constinit PythonRuntime g_runtimes[kMaxRuntimes];
constinit std::atomic<uint32_t> g_count{0};
constinit FutexLock g_lock;  // around checks

}  // namespace

bool python_is_met() {
  return g_count.load(std::memory_order_relaxed) > 0;
}

PythonRuntime* python_runtime_at(uintptr_t ip) {
  const uint32_t count = g_count.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < count; ++i) {
    if (g_runtimes[i].holds(ip)) return &g_runtimes[i];
  }
  return nullptr;
}

void meet_python(const dl_phdr_info& object, uintptr_t begin, uintptr_t end) {
  const auto address = [&](const char* name) {
    return reinterpret_cast<uintptr_t>(find_symbol(object, name).at);
  };
  const uintptr_t runtime = address("_PyRuntime");
  if (runtime == 0) return;
  const uint32_t index = g_count.load(std::memory_order_relaxed);
  if (index == kMaxRuntimes) return;
  PythonRuntime& python = g_runtimes[index];
  const Symbol evaluate = find_symbol(object, "_PyEval_EvalFrameDefault");
  python.begin_ = begin;
  python.end_ = end;
  python.runtime_ = runtime;
  python.evaluate_ = reinterpret_cast<uintptr_t>(evaluate.at);
  python.evaluate_bytes_ = evaluate.bytes;
  python.code_type_ = address("PyCode_Type");
  python.frame_type_ = address("PyFrame_Type");
  python.string_type_ = address("PyUnicode_Type");
  python.bytes_type_ = address("PyBytes_Type");
  python.version_number_ = address("Py_Version");
  python.get_version_ = reinterpret_cast<const char* (*)()>(address("Py_GetVersion"));
  python.this_thread_state_ =
      reinterpret_cast<void* (*)()>(address("PyGILState_GetThisThreadState"));
  python.loaded_ = true;
  g_count.store(index + 1, std::memory_order_release);
}

void forget_python(uintptr_t begin, uintptr_t end) {
  const uint32_t count = g_count.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < count; ++i) {
    if (g_runtimes[i].begin_ == begin && g_runtimes[i].end_ == end) g_runtimes[i].loaded_ = false;
  }
}

void redefine_python_runtimes(bool forked) {
  if (forked) g_lock.reset();
  for (uint32_t i = 0; i < g_count.load(); ++i) g_runtimes[i].say_state();
}

/// PY_VERSION_HEX; 0: cannot be told.
uint32_t PythonRuntime::read_version(CopiedMemory& memory) const {
  uint64_t number = 0;
  if (version_number_ != 0)
    return memory.load(version_number_, number) ? static_cast<uint32_t>(number) : 0;
  if (get_version_ == nullptr) return 0;
  // "3.9.18 (main, …": before Py_Version there was the text alone.
  struct {
    char begin[16], end;
  } text{};
  if (!memory.load(reinterpret_cast<uintptr_t>(get_version_()), text.begin)) return 0;
  const char* at = text.begin;
  uint32_t version = 0;
  for (int i = 0; i < 3; ++i) {
    if (*at < '0' || *at > '9') return 0;
    const uint64_t part = next_number(at);
    if (part > 255) return 0;
    version = version << 8 | static_cast<uint32_t>(part);
    if (*at == '.') ++at;
  }
  const bool release = *at == ' ' || *at == '+';
  return version << 8 | (release ? 0xf0u : 0);
}

/// nullptr, or why the interpreter cannot be used.
const char* PythonRuntime::check(CopiedMemory& memory) {
  if (!CopiedMemory::is_allowed())
    return "the system call process_vm_writev, by which they are read, is not permitted here";
  if (this_thread_state_ == nullptr || code_type_ == 0 || frame_type_ == 0 || string_type_ == 0 ||
      bytes_type_ == 0) {
    return "the interpreter does not export what CPython does";
  }
  version_ = read_version(memory);
  if (version_ == 0) return "the interpreter's version cannot be told";
  // Release candidates are binary compatible already.
  if ((version_ & 0xf0) < 0xc0) return "the interpreter is no release";
  if (const PythonLayout* known = known_python_layout(version_)) {
    layout_ = *known;
    return nullptr;
  }
  const uint8_t* published = memory.read(runtime_, kPythonOffsetsBytes);
  return published != nullptr ? read_python_offsets(published, version_, layout_)
                              : "the interpreter's published offsets cannot be read";
}

void PythonRuntime::say_state() const {
  const State state = state_.load();
  if (state == State::kUnchecked) return;
  if (version_ != 0)
    define_fact("python",
                Text<32>(version_ >> 24, ".", version_ >> 16 & 255, ".", version_ >> 8 & 255));
  if (state == State::kUsable) return;
  define_fact("python.off", trouble_);
  set_quality(GPUPEAK_Q_PYTHON_OFF);
}

bool PythonRuntime::is_usable(CopiedMemory& memory) {
  if (state_.load(std::memory_order_acquire) == State::kUnchecked) {
    LockGuard guard(g_lock);
    if (state_.load() == State::kUnchecked) {
      trouble_ = check(memory);
      state_ = trouble_ == nullptr ? State::kUsable : State::kOff;
      say_state();
    }
  }
  return state_.load(std::memory_order_acquire) == State::kUsable;
}

void PythonRuntime::note_stack(bool read) {
  if (read) {
    if (read_.load(std::memory_order_relaxed) == 0) read_ = 1;
    return;
  }
  count(&gpupeak_counters_page::unread_python_stacks);
  if (read_.load() != 0 || ++failed_ != kMaxFailures) return;
  LockGuard guard(g_lock);
  trouble_ = "the interpreter's structures are not those of its version";
  state_ = State::kOff;
  say_state();
}

bool PythonRuntime::stands(uintptr_t state) const {
  const auto word = [](uintptr_t at) {
    return __atomic_load_n(reinterpret_cast<const uintptr_t*>(at), __ATOMIC_RELAXED);
  };
  if (state == 0 || state_.load(std::memory_order_acquire) != State::kUsable ||
      read_.load(std::memory_order_relaxed) == 0 || layout_.runtime_finalizing == 0) {
    return false;
  }
  // New interpreters and threads come to the front of their lists.
  const uintptr_t interpreter = word(runtime_ + layout_.runtime_interpreters);
  return word(runtime_ + layout_.runtime_finalizing) == 0 && interpreter != 0 &&
         word(interpreter + layout_.interpreter.next) == 0 &&
         word(state + layout_.thread.next) == 0;
}

PythonLineTable PythonRuntime::line_table() const {
  switch (layout_.frames) {
    case PythonFrames::kObjects:
      return PythonLineTable::kLnotab;
    case PythonFrames::kObjectsByCFrame:
      return PythonLineTable::kLineTable;
    default:
      return PythonLineTable::kLocations;
  }
}

using enum PythonFrames;
/// 3.9 to 3.12. From 3.11 on, `name` is co_qualname in place of co_name. From 3.13 on, each
/// interpreter counts versions of code from the beginning: they are not used.
constexpr PythonLayout kKnown[] = {
    // clang-format off
    // frames, runtime {finalizing, interpreters}, interpreter {next, threads},
    // thread {next, id, frame, cframe}, cframe {current frame, previous},
    // frame {code, previous, instruction, owner, is entry},
    // code {filename, name, line table, first line, instructions, first traceable, version},
    // bytes of str's heads
    {kObjects, 16, 32, {0, 8}, {8, 176, 24, 0}, {}, {32, 24, 104, 0, 0},
     {104, 112, 120, 40, 48, 0, 0}, 48, 72},
    {kObjectsByCFrame, 16, 32, {0, 8}, {8, 176, 24, 48}, {0, 8}, {32, 24, 96, 0, 0},
     {104, 112, 120, 40, 48, 0, 0}, 48, 72},
    {kEntryFlag, 24, 40, {0, 16}, {8, 152, 56, 0}, {8, 16}, {32, 48, 56, 69, 68},
     {112, 128, 136, 72, 184, 168, 0}, 48, 72},
    {kEntryFrame, 24, 40, {0, 72}, {8, 136, 56, 0}, {0, 8}, {0, 8, 56, 70, 0},
     {112, 128, 136, 68, 192, 176, 92}, 40, 56},
    // clang-format on
};

const PythonLayout* known_python_layout(uint32_t version) {
  const uint32_t since_39 = (version >> 16) - 0x309;
  return since_39 < 4 ? &kKnown[since_39] : nullptr;
}

const char* read_python_offsets(const uint8_t* published, uint32_t version, PythonLayout& layout) {
  if (version >> 16 != 0x30d && version >> 16 != 0x30e) return "its version is not known";
  const auto word = [&](size_t index) { return value_at<uint64_t>(published + 8 * index); };
  if (memcmp(published, "xdebugpy", 8) != 0 || word(1) != version)
    return "its published offsets are not where they should be";
  if (word(2) != 0) return "it is free-threaded";
  layout = {};
  layout.frames = kEntryFrameDirect;
  // Where _Py_DebugOffsets has each number, as the index of a 64-bit word: in 3.13 and in 3.14.
  using Index = uint8_t[2];
  const size_t minor = version >> 16 == 0x30e ? 1 : 0;
  // The offsets that we use, with the sizes of the structures that they lie in.
  const struct {
    uint16_t& offset;
    Index index, size;
    uint8_t bytes;
  } wanted[] = {
      {layout.runtime_finalizing, {4, 4}, {3, 3}, 8},
      {layout.runtime_interpreters, {5, 5}, {3, 3}, 8},
      {layout.interpreter.next, {8, 8}, {6, 6}, 8},
      {layout.interpreter.threads, {9, 9}, {6, 6}, 8},
      {layout.thread.next, {21, 24}, {19, 22}, 8},
      {layout.thread.thread_id, {24, 27}, {19, 22}, 8},
      {layout.thread.frame, {23, 26}, {19, 22}, 8},
      {layout.frame.code, {30, 33}, {28, 31}, 8},
      {layout.frame.previous, {29, 32}, {28, 31}, 8},
      {layout.frame.instruction, {31, 34}, {28, 31}, 8},
      {layout.frame.owner, {33, 36}, {28, 31}, 1},
      {layout.code.filename, {35, 40}, {34, 39}, 8},
      {layout.code.name, {37, 42}, {34, 39}, 8},  // the qualified one
      {layout.code.line_table, {38, 43}, {34, 39}, 8},
      {layout.code.first_line, {39, 44}, {34, 39}, 4},
      {layout.code.instructions, {43, 48}, {34, 39}, 1},
  };
  // Those that all versions share.
  constexpr struct {
    Index index;
    uint64_t value;
  } kShared[] = {{{45, 51}, kPythonObjectType},
                 {{49, 55}, kPythonTypeFlags},
                 {{65, 75}, kPythonBytesSize},
                 {{66, 76}, kPythonBytesData},
                 {{67, 77}, 64},
                 {{68, 78}, kPythonStringState},
                 {{69, 79}, kPythonStringLength},
                 {{70, 80}, 40}};
  bool sound = true;
  for (const auto& it : wanted) {
    const uint64_t offset = word(it.index[minor]), size = word(it.size[minor]);
    sound = sound && offset <= 0xffff && offset + it.bytes <= size && size >= 64;
    it.offset = static_cast<uint16_t>(offset);
  }
  for (const auto& it : kShared) sound = sound && word(it.index[minor]) == it.value;
  if (!sound || layout.code.instructions < 32) return "its published offsets make no sense";
  // Not published: an int, then a pointer, then the instructions.
  layout.code.first_traceable = static_cast<uint16_t>(layout.code.instructions - 16);
  layout.ascii_bytes = kKnown[3].ascii_bytes;
  layout.compact_bytes = kKnown[3].compact_bytes;
  return nullptr;
}

}  // namespace gpupeak::preload
