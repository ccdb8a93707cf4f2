#include "explorer.h"

#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <unordered_map>

extern "C" const char __executable_start;

namespace weak {
namespace {

constexpr int kMostThreads = 4;
constexpr uint64_t kMostSteps = 20000;
constexpr size_t kStackBytes = 256 << 10;
using Clocks = std::array<uint32_t, kMostThreads + 1>;

bool acquires(int order) {
  return order == __ATOMIC_ACQUIRE || order == __ATOMIC_CONSUME || order >= __ATOMIC_ACQ_REL;
}
bool releases(int order) {
  return order >= __ATOMIC_RELEASE;
}

/// What a thread knows: of each location the latest store, and how far each thread had come.
struct View {
  std::vector<uint32_t> latest;
  Clocks clocks{};

  uint32_t of(uint32_t place) const { return place < latest.size() ? latest[place] : 0; }
  void raise(uint32_t place, uint32_t to) {
    if (latest.size() <= place) latest.resize(place + 1);
    latest[place] = std::max(latest[place], to);
  }
  void join(const View& other) {
    for (uint32_t i = 0; i < other.latest.size(); ++i) raise(i, other.latest[i]);
    for (size_t i = 0; i < clocks.size(); ++i) clocks[i] = std::max(clocks[i], other.clocks[i]);
  }
};

struct Store {
  uint64_t value;
  View view;                 ///< what whoever acquires it gets to know
  bool is_promised = false;  ///< its thread has not come to it yet
};

/// The stores of one location, in the order of their changes.
struct Location {
  uint32_t place;
  size_t bytes;
  std::vector<Store> stores;
};

/// When each thread last read and wrote a byte's word, by its own clock.
struct Accesses {
  Clocks read{}, written{}, atomic_read{}, atomic_written{};
};

struct Pending {  // a relaxed store that others do not see yet
  uintptr_t at;
  size_t bytes;
  Store store;
};

struct Fiber {
  ucontext_t context{};
  std::unique_ptr<char[]> stack{new char[kStackBytes]};
  std::function<void()> run;
  bool ended = true;
  const void* waits_for = nullptr;
  View view, acquired, released;
  std::vector<Pending> pending;
  int sees = 0;  ///< which stores its loads see for now: 0 the latest, 1 the oldest, 2 any

  bool has(uintptr_t at) const {
    return at - reinterpret_cast<uintptr_t>(stack.get()) < kStackBytes;
  }
};

/// A relaxed store that others see before its thread comes to it, past loads that it does not
/// depend on. An execution probes: one thread goes on alone for a while. What it stores then
/// depends on no store that others make later. The next execution is the same up to there; one of
/// these stores is seen from there on, and the execution counts only if the thread comes to that
/// very store. Values that may be addresses are left alone: what is there is made by the thread
/// itself.
struct Promise {
  static constexpr uint64_t kMostSteps = 300, kMostValue = UINT32_MAX;
  enum State { kNone, kProbing, kOpen, kKept, kBroken } state = kNone;
  struct Made {
    uintptr_t at;
    size_t bytes;
    uint64_t value;
  };
  std::mt19937_64 random;
  uint64_t at_step = 0;  ///< 0: none in this execution
  bool probes = false;
  int by = 0;
  std::vector<Made> could;         ///< what the probe has found
  std::vector<uintptr_t> touched;  ///< by the probe: a store there would come before these
  Made store{};
  uint32_t number = 0;  ///< of the store in its location
  std::string late;     ///< a failure that counts if the promise is kept
  int alone = 0;        ///< who goes on alone, for so many steps
  uint64_t steps = 0;

  bool is_of(int thread) const { return thread == by && (state == kProbing || state == kOpen); }
};

struct Range {
  uintptr_t begin, end;
  int thread;
  uint32_t clock;
};

struct Execution {
  std::mt19937_64 random;
  Fiber fibers[kMostThreads + 1];
  ucontext_t main{};
  int now = 0;  ///< 0: no thread of a scenario runs
  std::unordered_map<uintptr_t, Location> locations;
  std::unordered_map<uintptr_t, Accesses> accesses;
  View serial;  ///< what sequentially consistent operations know
  std::vector<Range> mapped, ignored;
  struct Own {
    char* at;
    std::vector<char> of[kMostThreads + 1];
  };
  std::vector<Own> own;  ///< of each thread, while it does not run
  uint64_t clock = 0;
  std::string failure;
  uintptr_t site = 0;  ///< of the access that is under way
  uint64_t steps = 0;
  bool delays = false, each_access = false;
  uint64_t turn = 3;  ///< another thread may go on at one of so many steps
  Promise promise;
  std::vector<uintptr_t> weakened;
  int weakened_order = 0;
  std::vector<Site> sites;

  uint64_t draw(uint64_t below) { return below < 2 ? 0 : random() % below; }
  Fiber& fiber() { return fibers[now]; }
};
Execution g;

void stop() {
  setcontext(&g.main);
}

void break_promise() {
  g.promise.state = Promise::kBroken;
  stop();
}

void switch_to(int next);
bool can_run(const Fiber& fiber);

/// `goes_on`: the thread may, if it has a promise to keep first.
void fail(const std::string& what, bool goes_on = false) {
  Promise& promise = g.promise;
  if (promise.state == Promise::kOpen) {
    if (promise.late.empty()) promise.late = what;
    if (g.now == promise.by && goes_on) return;
    if (g.now == promise.by || !can_run(g.fibers[promise.by])) break_promise();
    g.fiber().ended = true;
    promise.alone = promise.by;
    promise.steps = Promise::kMostSteps;
    switch_to(promise.by);
  }
  g.failure = what;
  stop();
}

void write_word(uintptr_t at, size_t bytes, uint64_t value) {
  memcpy(reinterpret_cast<void*>(at), &value, bytes);
}
uint64_t read_word(uintptr_t at, size_t bytes) {
  uint64_t value = 0;
  memcpy(&value, reinterpret_cast<const void*>(at), bytes);
  return value;
}

Location& location(uintptr_t at, size_t bytes) {
  const auto [entry, is_new] = g.locations.try_emplace(at);
  Location& it = entry->second;
  if (is_new) it = {static_cast<uint32_t>(g.locations.size() - 1), bytes, {}};
  if (it.stores.empty()) {
    it.stores.push_back({read_word(at, bytes), {}});
  }
  return it;
}

void append(uintptr_t at, size_t bytes, Store store, bool is_serial) {
  Location& it = location(at, bytes);
  const auto number = static_cast<uint32_t>(it.stores.size());
  store.view.raise(it.place, number);
  g.fiber().view.raise(it.place, number);
  if (is_serial) g.serial.raise(it.place, number);
  it.stores.push_back(std::move(store));
  write_word(at, bytes, it.stores.back().value);
}

/// Shows the pending stores to others: all of them, or those to one location.
void show(uintptr_t at = 0) {
  std::vector<Pending>& pending = g.fiber().pending;
  for (size_t i = 0; i < pending.size();) {
    if (at != 0 && pending[i].at != at) {
      ++i;
      continue;
    }
    Pending next = std::move(pending[i]);
    pending.erase(pending.begin() + static_cast<ptrdiff_t>(i));
    append(next.at, next.bytes, std::move(next.store), false);
  }
}

void show_some() {
  std::vector<Pending>& pending = g.fiber().pending;
  if (!pending.empty() && g.draw(4) == 0) show(pending[g.draw(pending.size())].at);
}

/// From here on `next` runs.
void become(int next) {
  for (Execution::Own& own : g.own) {
    std::vector<char>& here = own.of[g.now];
    memcpy(here.data(), own.at, here.size());
    memcpy(own.at, own.of[next].data(), here.size());
  }
  g.now = next;
}

void switch_to(int next) {
  if (next == g.now) return;
  ucontext_t& from = g.fiber().context;
  become(next);
  swapcontext(&from, &g.fiber().context);
}

bool can_run(const Fiber& fiber) {
  return !fiber.ended && fiber.waits_for == nullptr;
}

/// Here a thread begins to go on alone, or what it stored then is seen.
void probe_or_promise() {
  Promise& promise = g.promise;
  std::vector<int> able;
  for (int i = 1; i <= kMostThreads; ++i) {
    if (can_run(g.fibers[i])) able.push_back(i);
  }
  promise.by = able[promise.random() % able.size()];
  if (promise.probes) {
    promise.state = Promise::kProbing;
    for (const Pending& store : g.fibers[promise.by].pending) promise.touched.push_back(store.at);
    promise.alone = promise.by;
    promise.steps = Promise::kMostSteps;
    return switch_to(promise.by);
  }
  promise.state = Promise::kOpen;
  promise.store = promise.could[promise.random() % promise.could.size()];
  const auto [at, bytes, value] = promise.store;
  Location& it = location(at, bytes);
  promise.number = static_cast<uint32_t>(it.stores.size());
  it.stores.push_back({value, g.fibers[promise.by].released, true});
  it.stores.back().view.raise(it.place, promise.number);
  write_word(at, bytes, value);
}

/// Another thread may go on here.
void step() {
  if (++g.steps > kMostSteps) fail("it never ends");
  Promise& promise = g.promise;
  if (g.steps == promise.at_step) probe_or_promise();
  if (promise.alone == g.now && promise.steps > 0) {
    --promise.steps;
    return;
  }
  promise.alone = 0;
  if (!promise.late.empty()) break_promise();
  show_some();
  if (g.draw(g.turn) != 0) return;
  int able[kMostThreads], count = 0;
  for (int i = 1; i <= kMostThreads; ++i) {
    if (can_run(g.fibers[i])) able[count++] = i;
  }
  if (count > 0) switch_to(able[g.draw(static_cast<uint64_t>(count))]);
}

void run_fiber() {
  g.fiber().run();
  if (g.promise.is_of(g.now) && g.promise.state == Promise::kOpen) break_promise();
  show();
  g.fiber().ended = true;
  for (;;) {
    int able[kMostThreads], count = 0;
    bool waiting = false;
    for (int i = 1; i <= kMostThreads; ++i) {
      if (can_run(g.fibers[i])) able[count++] = i;
      if (!g.fibers[i].ended && g.fibers[i].waits_for != nullptr) waiting = true;
    }
    if (count == 0 && waiting) fail("nobody wakes a sleeper");
    if (count == 0) setcontext(&g.main);
    switch_to(able[g.draw(static_cast<uint64_t>(count))]);
  }
}

bool is_in(const std::vector<Range>& ranges, uintptr_t at) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [at](const Range& range) { return at >= range.begin && at < range.end; });
}

/// Whether this thread knows what all others did there.
void require_known(const Clocks& others, const char* what) {
  const Clocks& known = g.fiber().view.clocks;
  for (int i = 1; i <= kMostThreads; ++i) {
    if (i != g.now && others[i] > known[i]) fail(what);
  }
}

void touch(uintptr_t at, bool writes, bool atomic) {
  if (at < 65536) fail("a null pointer is followed");
  for (const Range& range : g.mapped) {
    if (at >= range.begin && at < range.end && range.thread != g.now &&
        g.fiber().view.clocks[range.thread] < range.clock)
      fail("memory is used that this thread does not know to be mapped");
  }
  Accesses& it = g.accesses[at];
  const uint32_t clock = ++g.fiber().view.clocks[g.now];
  require_known(it.written, "a race with a write");
  if (!atomic) require_known(it.atomic_written, "a race with an atomic store");
  if (writes) {
    require_known(it.read, "a write races with a read");
    if (!atomic) require_known(it.atomic_read, "a write races with an atomic load");
  }
  (atomic   ? writes ? it.atomic_written : it.atomic_read
   : writes ? it.written
            : it.read)[g.now] = clock;
}

/// The thread does something there, or something that orders what it stores later behind itself.
void hold_back(uintptr_t at, int order, Kind kind) {
  Promise& promise = g.promise;
  if (!promise.is_of(g.now)) return;
  const bool orders = kind == Kind::kFence   ? order != __ATOMIC_RELAXED
                      : kind == Kind::kStore ? order == __ATOMIC_SEQ_CST
                                             : acquires(order);
  if (promise.state == Promise::kOpen) {
    if (orders || at == promise.store.at) break_promise();
  } else if (orders) {
    promise.state = Promise::kNone;
  } else {
    promise.touched.push_back(at);
  }
}

/// A relaxed store: true if it is the one that was promised.
bool keeps_promise(uintptr_t at, size_t bytes, uint64_t value) {
  Promise& promise = g.promise;
  if (!promise.is_of(g.now)) return false;
  if (promise.state == Promise::kProbing) {
    const auto& touched = promise.touched;
    if (value <= Promise::kMostValue &&
        std::find(touched.begin(), touched.end(), at) == touched.end())
      promise.could.push_back({at, bytes, value});
    return false;
  }
  if (at != promise.store.at) return false;
  Location& it = location(at, bytes);
  if (value != promise.store.value || promise.number >= it.stores.size() ||
      !it.stores[promise.number].is_promised || g.fiber().view.of(it.place) >= promise.number)
    break_promise();
  it.stores[promise.number].is_promised = false;
  g.fiber().view.raise(it.place, promise.number);
  promise.state = Promise::kKept;
  if (!promise.late.empty()) {
    g.failure = promise.late;
    stop();
  }
  return true;
}

bool is_own(const void* at) {
  return g.now == 0 || is_in(g.ignored, reinterpret_cast<uintptr_t>(at)) ||
         g.fiber().has(reinterpret_cast<uintptr_t>(at));
}

void access(const void* at, size_t bytes, bool writes, uintptr_t site) {
  if (is_own(at)) return;
  g.site = site;
  if (g.each_access) step();
  const auto begin = reinterpret_cast<uintptr_t>(at);
  hold_back(begin, __ATOMIC_RELAXED, Kind::kLoad);
  const std::vector<Pending>& pending = g.fiber().pending;
  for (size_t i = pending.size(); i > 0; --i) {  // a thread sees its own stores
    if (i <= pending.size() && pending[i - 1].at - begin < bytes) show(pending[i - 1].at);
  }
  for (uintptr_t word = begin; word < begin + bytes; ++word) {
    touch(word, writes, false);
    if (!writes) continue;
    if (const auto known = g.locations.find(word); known != g.locations.end())
      known->second.stores.clear();  // what is there now begins it anew
  }
}

bool is_weakened(uintptr_t site) {
  return std::find(g.weakened.begin(), g.weakened.end(), site) != g.weakened.end();
}

int order_at(uintptr_t site, int order, Kind kind) {
  g.site = site;
  if (order != __ATOMIC_RELAXED) {
    const Site it{site, order, kind};
    if (std::find(g.sites.begin(), g.sites.end(), it) == g.sites.end()) g.sites.push_back(it);
  }
  return is_weakened(site) ? g.weakened_order : order;
}

void acquire(const View& view, int order) {
  Fiber& fiber = g.fiber();
  if (acquires(order))
    fiber.view.join(view);
  else
    fiber.acquired.join(view);
}

View released_view(int order) {
  Fiber& fiber = g.fiber();
  return releases(order) ? fiber.view : fiber.released;
}

/// The number of the store that a load sees: `oldest` or a later one.
uint32_t pick(uint32_t oldest, uint32_t latest) {
  Fiber& fiber = g.fiber();
  if (g.draw(6) == 0) fiber.sees = static_cast<int>(g.draw(3));
  if (fiber.sees == 0) return latest;
  return fiber.sees == 1 ? oldest : oldest + static_cast<uint32_t>(g.draw(latest - oldest + 1));
}

void see(Location& it, uint32_t number, int order) {
  g.fiber().view.raise(it.place, number);
  if (order == __ATOMIC_SEQ_CST) g.serial.raise(it.place, number);
  acquire(it.stores[number].view, order);
}

uint32_t oldest_for(const Location& it, int order) {
  const uint32_t known = g.fiber().view.of(it.place);
  return order == __ATOMIC_SEQ_CST ? std::max(known, g.serial.of(it.place)) : known;
}

uint64_t load(uintptr_t at, size_t bytes, int order, uintptr_t site) {
  if (is_own(reinterpret_cast<void*>(at))) return read_word(at, bytes);
  order = order_at(site, order, Kind::kLoad);
  step();
  hold_back(at, order, Kind::kLoad);
  show(at);
  touch(at, false, true);
  Location& it = location(at, bytes);
  const auto latest = static_cast<uint32_t>(it.stores.size() - 1);
  const uint32_t number = pick(std::min(latest, oldest_for(it, order)), latest);
  see(it, number, order);
  return it.stores[number].value;
}

void store(uintptr_t at, size_t bytes, uint64_t value, int order, uintptr_t site) {
  if (is_own(reinterpret_cast<void*>(at))) return write_word(at, bytes, value);
  order = order_at(site, order, Kind::kStore);
  step();
  if (releases(order)) show();
  touch(at, true, true);
  if (order == __ATOMIC_RELAXED && keeps_promise(at, bytes, value)) return;
  hold_back(at, order, Kind::kStore);
  Store made{value, released_view(order)};
  if (g.delays && order == __ATOMIC_RELAXED) {
    g.fiber().pending.push_back({at, bytes, std::move(made)});
  } else {
    show(at);
    append(at, bytes, std::move(made), order == __ATOMIC_SEQ_CST);
  }
}

/// A read-modify-write sees the latest store, and goes on with its release sequence.
template <typename Change>
uint64_t change(uintptr_t at, size_t bytes, int order, uintptr_t site, Change to) {
  if (is_own(reinterpret_cast<void*>(at))) {
    const uint64_t before = read_word(at, bytes);
    write_word(at, bytes, to(before));
    return before;
  }
  order = order_at(site, order, Kind::kChange);
  step();
  hold_back(at, order, Kind::kChange);
  releases(order) ? show() : show(at);
  touch(at, true, true);
  Location& it = location(at, bytes);
  const auto latest = static_cast<uint32_t>(it.stores.size() - 1);
  const Store before = it.stores[latest];
  see(it, latest, order);
  Store made{to(before.value), released_view(order)};
  made.view.join(before.view);
  append(at, bytes, std::move(made), order == __ATOMIC_SEQ_CST);
  return before.value;
}

bool compare_exchange(uintptr_t at, size_t bytes, void* expected, uint64_t to, int order,
                      int failure_order, uintptr_t site) {
  const uint64_t wanted = read_word(reinterpret_cast<uintptr_t>(expected), bytes);
  if (!is_own(reinterpret_cast<void*>(at))) {
    step();
    show(at);
    touch(at, false, true);
    Location& it = location(at, bytes);
    const auto latest = static_cast<uint32_t>(it.stores.size() - 1);
    const int failing =
        is_weakened(site) ? std::min(failure_order, g.weakened_order) : failure_order;
    hold_back(at, failing, Kind::kLoad);
    const uint32_t number = pick(std::min(latest, oldest_for(it, failing)), latest);
    const bool fails = it.stores[number].value != wanted;
    if (fails || it.stores[latest].value != wanted) {
      const uint32_t seen = fails ? number : latest;
      see(it, seen, failing);
      write_word(reinterpret_cast<uintptr_t>(expected), bytes, it.stores[seen].value);
      order_at(site, order, Kind::kChange);
      return false;
    }
    g.steps -= 1;
  } else if (read_word(at, bytes) != wanted) {
    write_word(reinterpret_cast<uintptr_t>(expected), bytes, read_word(at, bytes));
    return false;
  }
  bool same = false;  // another thread may come between in change()
  const uint64_t before = change(at, bytes, order, site, [&](uint64_t value) {
    same = value == wanted;
    return same ? to : value;
  });
  if (!same) write_word(reinterpret_cast<uintptr_t>(expected), bytes, before);
  return same;
}

void fence(Fiber& fiber, int order) {
  if (acquires(order)) fiber.view.join(fiber.acquired);
  if (order == __ATOMIC_SEQ_CST) {
    fiber.view.join(g.serial);
    g.serial.join(fiber.view);
  }
  if (releases(order)) fiber.released = fiber.view;
}

void begin(Fiber& fiber, const std::function<void()>& run) {
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack.get();
  fiber.context.uc_stack.ss_size = kStackBytes;
  fiber.context.uc_link = nullptr;
  makecontext(&fiber.context, run_fiber, 0);
  fiber.run = run;
  fiber.ended = false;
  fiber.waits_for = nullptr;
  fiber.view = fiber.acquired = fiber.released = {};
  fiber.pending.clear();
  fiber.sees = static_cast<int>(g.draw(3));
}

/// The orders one step weaker. A change without a word on its order has the strongest: on x86 it
/// costs the same, and on aarch64 nearly so. Such a change must need an order, not each half of it.
std::vector<int> weaker(const Site& site) {
  if (site.order == __ATOMIC_SEQ_CST && site.kind != Kind::kChange)
    return {site.kind == Kind::kLoad    ? __ATOMIC_ACQUIRE
            : site.kind == Kind::kStore ? __ATOMIC_RELEASE
                                        : __ATOMIC_ACQ_REL};
  if (site.order == __ATOMIC_ACQ_REL) return {__ATOMIC_ACQUIRE, __ATOMIC_RELEASE};
  return {__ATOMIC_RELAXED};
}

/// The line that asks for the order: the innermost that is not the C++ library's.
std::string source_of(uintptr_t site) {
  static std::unordered_map<uintptr_t, std::string> known;
  if (const auto it = known.find(site); it != known.end()) return it->second;
  char command[128], line[1024];
  snprintf(command, sizeof command, "addr2line -i -e /proc/%d/exe %#lx", getpid(),
           static_cast<unsigned long>(site - 1 - reinterpret_cast<uintptr_t>(&__executable_start)));
  std::string source = "?";
  FILE* const lines = popen(command, "r");
  while (lines != nullptr && fgets(line, sizeof line, lines) != nullptr) {
    if (source != "?" || strstr(line, "/c++/") != nullptr) continue;
    source = strrchr(line, '/') != nullptr ? strrchr(line, '/') + 1 : line;
    source = source.substr(0, source.find_first_of(" \n"));
  }
  if (lines != nullptr) pclose(lines);
  return known[site] = source;
}

const char* name_of(int order) {
  constexpr const char* kNames[] = {"relaxed", "consume", "acquire",
                                    "release", "acq_rel", "seq_cst"};
  return kNames[order];
}

}  // namespace

Found explore(const Scenario& scenario, uint64_t executions, const std::vector<uintptr_t>& weakened,
              int order) {
  Found found;
  g.sites.clear();
  g.failure.clear();
  g.weakened = weakened;
  g.weakened_order = order;
  g.each_access = scenario.each_access;
  g.promise = {};
  for (; found.executions < executions && g.failure.empty(); ++found.executions) {
    // The third of four probes, and the fourth is the same with a promise, if there is one to make.
    Promise& promise = g.promise;
    promise.probes = found.executions % 4 == 2;
    const bool promises = found.executions % 4 == 3 && !promise.could.empty();
    if (promise.probes) {
      promise.at_step = 1 + found.executions / 4 % std::max<uint64_t>(g.steps, 1);
      promise.could.clear();
      promise.touched.clear();
    } else if (!promises) {
      promise.at_step = 0;
    }
    promise.state = Promise::kNone;
    promise.late.clear();
    promise.by = promise.alone = 0;
    promise.random.seed(found.executions / 4);
    g.random.seed(found.executions - promises);
    g.locations.clear();
    g.accesses.clear();
    g.mapped.clear();
    g.ignored.clear();
    g.own.clear();
    g.clock = 0;
    g.serial = {};
    g.steps = 0;
    g.site = 0;
    g.delays = g.draw(2) != 0;
    constexpr uint64_t kTurns[] = {2, 3, 12, 400};
    g.turn = kTurns[g.draw(4)];
    g.now = 0;
    scenario.setup();
    for (size_t i = 0; i < scenario.threads.size(); ++i)
      begin(g.fibers[i + 1], scenario.threads[i]);
    volatile bool ran = false;
    getcontext(&g.main);
    if (!ran) {
      ran = true;
      become(static_cast<int>(1 + g.draw(scenario.threads.size())));
      setcontext(&g.fiber().context);
    }
    become(0);
    for (Fiber& fiber : g.fibers) fiber.ended = true;
    const bool counts = promise.state != Promise::kOpen && promise.state != Promise::kBroken;
    if (g.failure.empty() && counts) scenario.check();
    found.promises += promise.state == Promise::kKept;
  }
  found.failure = g.failure;
  if (!g.failure.empty() && weakened.empty() && g.site != 0)
    found.failure += " near " + source_of(g.site);
  found.sites = g.sites;
  return found;
}

std::string needs_each_order(const std::vector<Scenario>& scenarios, uint64_t executions,
                             const std::vector<std::string>& files) {
  std::map<std::string, std::vector<Site>> lines;
  for (const Scenario& scenario : scenarios) {
    const Found whole = explore(scenario, executions);
    if (!whole.failure.empty()) return "as it is: " + whole.failure;
    for (const Site& site : whole.sites) {
      std::vector<Site>& of_line = lines[source_of(site.at)];
      if (std::find(of_line.begin(), of_line.end(), site) == of_line.end()) of_line.push_back(site);
    }
  }
  std::string unneeded;
  for (const auto& [line, sites] : lines) {
    const auto begins = [&where = line](const std::string& file) {
      return where.starts_with(file);
    };
    if (!files.empty() && std::none_of(files.begin(), files.end(), begins)) continue;
    for (const int order : weaker(sites[0])) {
      std::vector<uintptr_t> places;
      for (const Site& site : sites) places.push_back(site.at);
      const bool is_needed =
          std::any_of(scenarios.begin(), scenarios.end(), [&](const Scenario& scenario) {
            return !explore(scenario, executions, places, order).failure.empty();
          });
      if (!is_needed)
        unneeded += line + " " + name_of(sites[0].order) + ", not " + name_of(order) + "\n";
    }
  }
  return unneeded;
}

void require(bool holds, const char* what) {
  if (holds) return;
  if (g.now != 0) return fail(what, true);
  g.failure = what;
}

void ignore(const void* at, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(at);
  g.ignored.push_back({begin, begin + bytes, 0, 0});
}

void per_thread(void* at, size_t bytes) {
  ignore(at, bytes);
  auto* const begin = static_cast<char*>(at);
  g.own.push_back({begin, {}});
  for (std::vector<char>& of : g.own.back().of) of.assign(begin, begin + bytes);
}

void mapped(const void* at, size_t bytes) {
  if (g.now == 0) return;
  const auto begin = reinterpret_cast<uintptr_t>(at);
  g.mapped.push_back({begin, begin + bytes, g.now, ++g.fiber().view.clocks[g.now]});
}

long futex_wait(const void* word, uint32_t value) {
  step();
  if (read_word(reinterpret_cast<uintptr_t>(word), sizeof value) != value) return -EAGAIN;
  show();
  Fiber& fiber = g.fiber();
  fiber.waits_for = word;
  for (;;) {
    int able[kMostThreads], count = 0;
    for (int i = 1; i <= kMostThreads; ++i) {
      if (can_run(g.fibers[i])) able[count++] = i;
    }
    if (count == 0) fail("nobody wakes a sleeper");
    if (fiber.waits_for == nullptr) break;
    switch_to(able[g.draw(static_cast<uint64_t>(count))]);
  }
  return 0;
}

void futex_wake(const void* word, uint32_t most) {
  show();
  for (Fiber& fiber : g.fibers) {
    if (most == 0 || fiber.ended || fiber.waits_for != word) continue;
    fiber.waits_for = nullptr;
    --most;
  }
  step();
}

void fence_all_threads() {
  if (g.promise.state == Promise::kOpen) break_promise();
  const int caller = g.now;
  for (int i = 1; i <= kMostThreads; ++i) {
    if (g.fibers[i].ended) continue;
    g.now = i;
    show();
    fence(g.fibers[i], __ATOMIC_SEQ_CST);
  }
  g.now = caller;
  show();
  fence(g.fiber(), __ATOMIC_SEQ_CST);
}

int thread() {
  return g.now;
}

bool has_ended(int thread) {
  step();
  if (thread < 1 || thread > kMostThreads || !g.fibers[thread].ended) return false;
  g.fiber().view.join(g.fibers[thread].view);
  return true;
}

uint64_t clock() {
  if (g.now != 0) step();
  hold_back(0, __ATOMIC_SEQ_CST, Kind::kFence);
  return ++g.clock;
}

void fork() {
  step();
  if (g.promise.state == Promise::kOpen && g.promise.by != g.now) break_promise();
  for (Fiber& fiber : g.fibers) {
    if (&fiber == &g.fiber()) continue;
    fiber.ended = true;
    g.fiber().view.join(fiber.view);
  }
  for (const auto& [at, it] : g.locations) {
    if (!it.stores.empty())
      g.fiber().view.raise(it.place, static_cast<uint32_t>(it.stores.size() - 1));
  }
}

}  // namespace weak

// What the compiler calls.

using namespace weak;

#define CALLER (reinterpret_cast<uintptr_t>(__builtin_return_address(0)))
#define AT (reinterpret_cast<uintptr_t>(at))

#define EACH_SIZE(X) X(8, uint8_t) X(16, uint16_t) X(32, uint32_t) X(64, uint64_t)

#define CHANGE(bits, type, name, value)                                                            \
  type __tsan_atomic##bits##_##name(volatile type* at, type by, int order) {                       \
    return static_cast<type>(                                                                      \
        change(AT, sizeof(type), order, CALLER, [&](uint64_t was) -> uint64_t { return value; })); \
  }

#define ATOMICS(bits, type)                                                                     \
  type __tsan_atomic##bits##_load(const volatile type* at, int order) {                         \
    return static_cast<type>(load(AT, sizeof(type), order, CALLER));                            \
  }                                                                                             \
  void __tsan_atomic##bits##_store(volatile type* at, type value, int order) {                  \
    store(AT, sizeof(type), value, order, CALLER);                                              \
  }                                                                                             \
  CHANGE(bits, type, exchange, (static_cast<void>(was), by))                                    \
  CHANGE(bits, type, fetch_add, static_cast<type>(was + by))                                    \
  CHANGE(bits, type, fetch_sub, static_cast<type>(was - by))                                    \
  CHANGE(bits, type, fetch_and, was& by)                                                        \
  CHANGE(bits, type, fetch_or, was | by)                                                        \
  CHANGE(bits, type, fetch_xor, was ^ by)                                                       \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile type* at, type* expected, type to, \
                                                    int order, int failing) {                   \
    return compare_exchange(AT, sizeof(type), expected, to, order, failing, CALLER);            \
  }                                                                                             \
  int __tsan_atomic##bits##_compare_exchange_weak(volatile type* at, type* expected, type to,   \
                                                  int order, int failing) {                     \
    return compare_exchange(AT, sizeof(type), expected, to, order, failing, CALLER);            \
  }                                                                                             \
  type __tsan_atomic##bits##_compare_exchange_val(volatile type* at, type expected, type to,    \
                                                  int order, int failing) {                     \
    compare_exchange(AT, sizeof(type), &expected, to, order, failing, CALLER);                  \
    return expected;                                                                            \
  }

#define ACCESS(bytes)                                 \
  void __tsan_read##bytes(const void* at) {           \
    access(at, bytes, false, CALLER);                 \
  }                                                   \
  void __tsan_write##bytes(void* at) {                \
    access(at, bytes, true, CALLER);                  \
  }                                                   \
  void __tsan_unaligned_read##bytes(const void* at) { \
    access(at, bytes, false, CALLER);                 \
  }                                                   \
  void __tsan_unaligned_write##bytes(void* at) {      \
    access(at, bytes, true, CALLER);                  \
  }                                                   \
  void __tsan_read_write##bytes(void* at) {           \
    access(at, bytes, true, CALLER);                  \
  }                                                   \
  void __tsan_unaligned_read_write##bytes(void* at) { \
    access(at, bytes, true, CALLER);                  \
  }

extern "C" {
EACH_SIZE(ATOMICS)
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)
void __tsan_atomic_thread_fence(int order) {
  if (thread() == 0) return;
  order = order_at(CALLER, order, Kind::kFence);
  step();
  hold_back(0, order, Kind::kFence);
  if (releases(order)) show();
  fence(g.fiber(), order);
}
void __tsan_atomic_signal_fence(int) {}
void __tsan_read_range(const void* at, size_t bytes) {
  access(at, bytes, false, CALLER);
}
void __tsan_write_range(void* at, size_t bytes) {
  access(at, bytes, true, CALLER);
}
void __tsan_vptr_read(const void*) {}
void __tsan_vptr_update(void*, void*) {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_init() {}
}
