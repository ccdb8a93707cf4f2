#include "stack/python_runtime.h"

#include "base/copied_memory.h"
#include "base/elf_lookup.h"
#include "base/futex_lock.h"
#include "base/text.h"
#include "log/log.h"

namespace gpupeak::preload {
namespace {

constexpr uint32_t kMaxRuntimes = 8;  // loaded one after the other, or at once under other names
constexpr uint32_t kMaxFailures = 8;  // without a single success

constinit PythonRuntime g_runtimes[kMaxRuntimes];
constinit std::atomic<uint32_t> g_count{0};
constinit FutexLock g_lock;  // around checks

Text<32> version_text(uint32_t version) {
  Text<32> text;
  text.add(uint64_t{version >> 24}).add(".").add(uint64_t{version >> 16 & 255});
  text.add(".").add(uint64_t{version >> 8 & 255});
  return text;
}

bool is_release(uint32_t version) {
  return (version & 0xf0) >= 0xc0;  // release candidates are binary compatible already
}

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
  if (version_number_ != 0) {
    return memory.load(version_number_, number) ? static_cast<uint32_t>(number) : 0;
  }
  if (get_version_ == nullptr) return 0;
  // "3.9.18 (main, …": before Py_Version there was the text alone.
  char text[16] = {};
  if (!memory.load(reinterpret_cast<uintptr_t>(get_version_()), text)) return 0;
  uint32_t parts[3] = {};
  size_t at = 0;
  for (uint32_t& part : parts) {
    if (text[at] < '0' || text[at] > '9') return 0;
    for (; at < sizeof text && text[at] >= '0' && text[at] <= '9'; ++at) {
      part = part * 10 + static_cast<uint32_t>(text[at] - '0');
    }
    if (at + 1 >= sizeof text || part > 255) return 0;
    if (text[at] == '.') ++at;
  }
  const bool release = text[at] == ' ' || text[at] == '+';
  return parts[0] << 24 | parts[1] << 16 | parts[2] << 8 | (release ? 0xf0u : 0);
}

/// nullptr, or why the interpreter cannot be used.
const char* PythonRuntime::check(CopiedMemory& memory) {
  if (!CopiedMemory::is_allowed()) {
    return "the system call process_vm_writev, by which they are read, is not permitted here";
  }
  if (this_thread_state_ == nullptr || code_type_ == 0 || frame_type_ == 0 || string_type_ == 0 ||
      bytes_type_ == 0) {
    return "the interpreter does not export what CPython does";
  }
  version_ = read_version(memory);
  if (version_ == 0) return "the interpreter's version cannot be told";
  if (!is_release(version_)) return "the interpreter is no release";
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
  if (version_ != 0) define_fact("python", version_text(version_).view());
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

}  // namespace gpupeak::preload
