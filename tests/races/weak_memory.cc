#include "weak_memory.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <deque>
#include <mutex>
#include <random>
#include <set>
#include <unordered_map>

namespace weak_memory {
namespace {

constexpr size_t kThreads = 8;  // of one exploration; 0 is who began it
constexpr size_t kStores = 6;   // that are kept of an object
constexpr size_t kMostFinds = 8;

using Clock = std::array<uint32_t, kThreads>;

void join(Clock& clock, const Clock& other) {
  for (size_t i = 0; i < kThreads; ++i) clock[i] = std::max(clock[i], other[i]);
}

/// Something that a thread did at a time of its own.
struct Moment {
  size_t thread = 0;
  uint32_t time = 0;
  bool is_before(const Clock& clock) const { return clock[thread] >= time; }
};

struct Store {
  uint64_t value = 0;
  Moment by;
  Clock released{};  ///< what who acquires it has seen
};

/// An atomic object. Stores are numbered from the first one that was kept.
struct Object {
  size_t bytes = 0;
  uint64_t first = 0;  ///< the number of stores.front()
  std::deque<Store> stores;
  struct Read {
    Moment by;
    uint64_t store;
  };
  std::deque<Read> reads;
  uint64_t last() const { return first + stores.size() - 1; }
};

/// What is known of the plain accesses of eight bytes: a bit for each in `mask`.
struct Cell {
  struct Access {
    Moment by;
    uint8_t mask = 0;
    bool writes = false;
    const void* code = nullptr;
  };
  std::vector<Access> accesses;
};

struct Thread {
  Clock seen{}, relaxed{}, fence{};  // relaxed: of stores that an acquire fence would acquire
};

struct World {
  std::mutex lock;
  bool is_on = false;
  uintptr_t weakened = 0;
  std::mt19937 random;
  std::array<Thread, kThreads> threads;
  size_t thread_count = 1;
  Clock fences{};  // what sequentially consistent fences have seen
  std::unordered_map<uintptr_t, Object> objects;
  std::unordered_map<uintptr_t, Cell> cells;
  std::vector<std::string> finds;
  std::set<uintptr_t> sites;
  uint64_t stale = 0;
};
World& world() {
  static World* const it = new World;
  return *it;
}
thread_local int t_number = -1;  // -1: not a thread of an exploration
thread_local bool t_inside = false;

/// Entered: the access is the exploration's, and nobody else's goes on meanwhile.
class Access {
 public:
  Access() {
    if (t_number < 0 || t_inside) return;
    t_inside = true;
    world().lock.lock();
    entered_ = world().is_on;
    if (!entered_) leave();
  }
  Access(const Access&) = delete;
  Access& operator=(const Access&) = delete;
  ~Access() {
    if (entered_) leave();
  }
  explicit operator bool() const { return entered_; }

 private:
  static void leave() {
    world().lock.unlock();
    t_inside = false;
  }
  bool entered_ = false;
};

Thread& self() {
  return world().threads[static_cast<size_t>(t_number)];
}
Moment now() {
  const auto number = static_cast<size_t>(t_number);
  return {number, self().seen[number]};
}
void tick() {
  ++self().seen[static_cast<size_t>(t_number)];
}

/// The order that counts at this place.
int order_of(int order, const void* code) {
  if (order == __ATOMIC_RELAXED) return order;
  const auto at = reinterpret_cast<uintptr_t>(code);
  world().sites.insert(at);
  return at == world().weakened ? __ATOMIC_RELAXED : order;
}
bool acquires(int order) {
  return order != __ATOMIC_RELAXED && order != __ATOMIC_RELEASE;
}
bool releases(int order) {
  return order == __ATOMIC_RELEASE || order == __ATOMIC_ACQ_REL || order == __ATOMIC_SEQ_CST;
}

/// The object, as it stands in memory. What was written there by plain stores happened before.
Object& object_at(uintptr_t at, size_t bytes, uint64_t in_memory) {
  Object& object = world().objects[at];
  if (object.stores.empty() || object.bytes != bytes || object.stores.back().value != in_memory) {
    object = {.bytes = bytes, .first = object.first + 8, .stores = {}, .reads = {}};
    object.stores.push_back({.value = in_memory, .by = {}, .released = {}});
  }
  return object;
}

void see(Object& object, uint64_t number, int order) {
  const Store& store = object.stores[number - object.first];
  if (acquires(order))
    join(self().seen, store.released);
  else
    join(self().relaxed, store.released);
  std::erase_if(object.reads, [&](const Object::Read& read) {
    return read.by.thread == static_cast<size_t>(t_number) && read.store == number;
  });
  object.reads.push_back({now(), number});
  if (object.reads.size() > 4 * kThreads) object.reads.pop_front();
}

/// The oldest store that a load of this thread may give.
uint64_t oldest_visible(const Object& object) {
  uint64_t oldest = object.first;
  for (size_t i = 0; i < object.stores.size(); ++i) {
    if (object.stores[i].by.is_before(self().seen)) oldest = object.first + i;
  }
  for (const Object::Read& read : object.reads) {
    if (read.by.is_before(self().seen)) oldest = std::max(oldest, read.store);
  }
  return oldest;
}

uint64_t load(uintptr_t at, size_t bytes, uint64_t in_memory, int order) {
  World& w = world();
  Object& object = object_at(at, bytes, in_memory);
  uint64_t number = object.last();
  const uint64_t oldest = oldest_visible(object);
  if (order != __ATOMIC_SEQ_CST && oldest < number && w.random() % 3 == 0) {
    number -= w.random() % (number - oldest + 1);
    w.stale += number != object.last();
  }
  see(object, number, order);
  tick();
  return object.stores[number - object.first].value;
}

void put(Object& object, uint64_t value, int order, const Clock& inherited) {
  Store store{.value = value, .by = now(), .released = self().fence};
  if (releases(order)) store.released = self().seen;
  join(store.released, inherited);
  object.stores.push_back(store);
  object.reads.push_back({now(), object.last()});
  if (object.stores.size() > kStores) {
    object.stores.pop_front();
    ++object.first;
  }
  tick();
}

void fence(int order) {
  World& w = world();
  if (acquires(order)) join(self().seen, self().relaxed);
  if (order == __ATOMIC_SEQ_CST) {
    join(self().seen, w.fences);
    join(w.fences, self().seen);
  }
  if (releases(order)) self().fence = self().seen;
  tick();
}

void find(const char* what, uintptr_t at, const void* code, const void* other) {
  if (world().finds.size() >= kMostFinds) return;
  char text[160];
  snprintf(text, sizeof text, "%s at %#zx: code %p and %p", what, static_cast<size_t>(at), code,
           other);
  world().finds.emplace_back(text);
}

void plain(uintptr_t at, size_t bytes, bool writes, const void* code) {
  for (uintptr_t end = at + bytes; at < end;) {
    const uintptr_t word = at & ~uintptr_t{7};
    const size_t here = std::min<size_t>(end - at, word + 8 - at);
    const auto mask = static_cast<uint8_t>(((1u << here) - 1) << (at - word));
    if (writes) world().objects.erase(word), world().objects.erase(word + 4);
    auto& accesses = world().cells[word].accesses;
    for (const Cell::Access& other : accesses) {
      if ((other.mask & mask) != 0 && (writes || other.writes) &&
          !other.by.is_before(self().seen)) {
        find("race", word, code, other.code);
      }
    }
    std::erase_if(accesses, [&](const Cell::Access& other) {
      return (other.mask & ~mask) == 0 && other.by.thread == now().thread && other.writes == writes;
    });
    accesses.push_back({now(), mask, writes, code});
    at += here;
  }
}

}  // namespace

void begin(unsigned seed, uintptr_t weakened) {
  World& w = world();
  const std::lock_guard guard(w.lock);
  w.random.seed(seed);
  w.weakened = weakened;
  w.threads = {};
  w.thread_count = 1;
  w.fences = {};
  w.objects.clear();
  w.cells.clear();
  w.finds.clear();
  t_number = 0;
  w.threads[0].seen[0] = 1;
  w.is_on = true;
}

void enter_thread() {
  World& w = world();
  const std::lock_guard guard(w.lock);
  t_number = static_cast<int>(w.thread_count++ % kThreads);
  join(self().seen, w.threads[0].seen);
  tick();
}

void leave_thread() {
  const std::lock_guard guard(world().lock);
  join(world().threads[0].seen, self().seen);
  t_number = -1;
}

std::vector<std::string> end() {
  World& w = world();
  const std::lock_guard guard(w.lock);
  w.is_on = false;
  t_number = -1;
  return w.finds;
}

std::vector<uintptr_t> sites() {
  return {world().sites.begin(), world().sites.end()};
}
uint64_t stale_loads() {
  return world().stale;
}

}  // namespace weak_memory

using namespace weak_memory;

// The names and the types are those of the compilers' interface to the sanitizer.
#define CODE __builtin_return_address(0)

template <typename T>
static T weak_load(const volatile T* at, int order, const void* code) {
  const Access access;
  const T real = __atomic_load_n(at, __ATOMIC_SEQ_CST);
  if (!access) return real;
  return static_cast<T>(load(reinterpret_cast<uintptr_t>(at), sizeof(T),
                             static_cast<uint64_t>(real), order_of(order, code)));
}

/// Changes the object by `change(old)`. `is_store`: the old value is not read.
template <typename T, typename Change>
static T weak_change(volatile T* at, int order, const void* code, Change change,
                     bool is_store = false) {
  const Access access;
  const T old = __atomic_load_n(at, __ATOMIC_SEQ_CST);
  if (!access) {
    for (T seen = old;;) {
      if (__atomic_compare_exchange_n(at, &seen, change(seen), false, __ATOMIC_SEQ_CST,
                                      __ATOMIC_SEQ_CST))
        return seen;
    }
  }
  order = order_of(order, code);
  Object& object =
      object_at(reinterpret_cast<uintptr_t>(at), sizeof(T), static_cast<uint64_t>(old));
  Clock inherited{};
  if (!is_store) {
    see(object, object.last(), order);
    inherited = object.stores.back().released;  // a release sequence goes on
  }
  const T value = change(old);
  put(object, static_cast<uint64_t>(value), order, inherited);
  __atomic_store_n(at, value, __ATOMIC_SEQ_CST);
  return old;
}

template <typename T>
static bool weak_exchange_if(volatile T* at, T* expected, T value, int order, int otherwise,
                             const void* code) {
  const Access access;
  if (!access)
    return __atomic_compare_exchange_n(at, expected, value, false, __ATOMIC_SEQ_CST,
                                       __ATOMIC_SEQ_CST);
  const T old = __atomic_load_n(at, __ATOMIC_SEQ_CST);
  Object& object =
      object_at(reinterpret_cast<uintptr_t>(at), sizeof(T), static_cast<uint64_t>(old));
  const bool is_same = old == *expected;
  order = order_of(is_same ? order : otherwise, code);
  see(object, object.last(), order);
  if (!is_same) {
    *expected = old;
    tick();
    return false;
  }
  put(object, static_cast<uint64_t>(value), order, object.stores.back().released);
  __atomic_store_n(at, value, __ATOMIC_SEQ_CST);
  return true;
}

#define ATOMICS(bits, T)                                                                           \
  T __tsan_atomic##bits##_load(const volatile T* at, int order) {                                  \
    return weak_load(at, order, CODE);                                                             \
  }                                                                                                \
  void __tsan_atomic##bits##_store(volatile T* at, T value, int order) {                           \
    weak_change(                                                                                   \
        at, order, CODE, [&](T) { return value; }, true);                                          \
  }                                                                                                \
  T __tsan_atomic##bits##_exchange(volatile T* at, T value, int order) {                           \
    return weak_change(at, order, CODE, [&](T) { return value; });                                 \
  }                                                                                                \
  T __tsan_atomic##bits##_fetch_add(volatile T* at, T value, int order) {                          \
    return weak_change(at, order, CODE, [&](T old) { return static_cast<T>(old + value); });       \
  }                                                                                                \
  T __tsan_atomic##bits##_fetch_sub(volatile T* at, T value, int order) {                          \
    return weak_change(at, order, CODE, [&](T old) { return static_cast<T>(old - value); });       \
  }                                                                                                \
  T __tsan_atomic##bits##_fetch_and(volatile T* at, T value, int order) {                          \
    return weak_change(at, order, CODE, [&](T old) { return static_cast<T>(old & value); });       \
  }                                                                                                \
  T __tsan_atomic##bits##_fetch_or(volatile T* at, T value, int order) {                           \
    return weak_change(at, order, CODE, [&](T old) { return static_cast<T>(old | value); });       \
  }                                                                                                \
  T __tsan_atomic##bits##_fetch_xor(volatile T* at, T value, int order) {                          \
    return weak_change(at, order, CODE, [&](T old) { return static_cast<T>(old ^ value); });       \
  }                                                                                                \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile T* at, T* expected, T value,          \
                                                    int order, int otherwise) {                    \
    return weak_exchange_if(at, expected, value, order, otherwise, CODE) ? 1 : 0;                  \
  }                                                                                                \
  int __tsan_atomic##bits##_compare_exchange_weak(volatile T* at, T* expected, T value, int order, \
                                                  int otherwise) {                                 \
    return weak_exchange_if(at, expected, value, order, otherwise, CODE) ? 1 : 0;                  \
  }                                                                                                \
  T __tsan_atomic##bits##_compare_exchange_val(volatile T* at, T expected, T value, int order,     \
                                               int otherwise) {                                    \
    weak_exchange_if(at, &expected, value, order, otherwise, CODE);                                \
    return expected;                                                                               \
  }

#define PLAIN(bytes)                                   \
  void __tsan_read##bytes(const void* at) {            \
    weak_plain(at, bytes, false, CODE);                \
  }                                                    \
  void __tsan_write##bytes(const void* at) {           \
    weak_plain(at, bytes, true, CODE);                 \
  }                                                    \
  void __tsan_unaligned_read##bytes(const void* at) {  \
    weak_plain(at, bytes, false, CODE);                \
  }                                                    \
  void __tsan_unaligned_write##bytes(const void* at) { \
    weak_plain(at, bytes, true, CODE);                 \
  }

static void weak_plain(const void* at, size_t bytes, bool writes, const void* code) {
  const Access access;
  if (access) plain(reinterpret_cast<uintptr_t>(at), bytes, writes, code);
}

extern "C" {
ATOMICS(8, uint8_t)
ATOMICS(16, uint16_t)
ATOMICS(32, uint32_t)
ATOMICS(64, uint64_t)
PLAIN(1)
PLAIN(2)
PLAIN(4)
PLAIN(8)
PLAIN(16)
void __tsan_atomic_thread_fence(int order) {
  const Access access;
  if (access) fence(order_of(order, CODE));
}
void __tsan_atomic_signal_fence(int) {}
void __tsan_init() {}
void __tsan_func_entry(const void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(const void*, const void*) {}
void __tsan_vptr_read(const void*) {}
void __tsan_read_range(const void* at, size_t bytes) {
  weak_plain(at, bytes, false, CODE);
}
void __tsan_write_range(const void* at, size_t bytes) {
  weak_plain(at, bytes, true, CODE);
}
}
