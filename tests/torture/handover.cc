// Two threads that take turns: one allocates, the other frees, so that the log's order must be
// alloc, free, alloc, free, … whatever way the turn is handed over. A spinning hand-over by plain
// stores and loads is the hardest, since nothing but the stamp itself holds the processor back.
//
// usage: handover run HAND_OVERS          in all; each kind of hand-over gets its share
//        gpupeak export events LOG | handover check HAND_OVERS
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <thread>

namespace {

constexpr size_t kBytes =
    2040;  // beyond what libc keeps a thread: no locked instruction before a free
constexpr unsigned kDistance = 64;   // the block that is freed: this one, or one from so long ago
constexpr uint64_t kStretch = 1024;  // rounds of one sort
constexpr size_t kBegin = 7770000, kEnd = 7780000;  // sizes that mark a kind's begin and end

// Each kind: wait(me, round) until it is thread me's turn in that round; pass(me, round) hands it
// on.

class Flag {  // one writer a flag, plain stores and loads
 public:
  void wait(unsigned me, uint64_t round) {
    for (unsigned spins = 0; done_[1 - me].at.load(std::memory_order_acquire) < round + me;) {
      if (++spins % 4096 == 0) sched_yield();  // processors may be fewer than threads
    }
  }
  void pass(unsigned me, uint64_t round) {
    done_[me].at.store(round + 1, std::memory_order_release);
  }

 private:
  struct alignas(128) Count {
    std::atomic<uint64_t> at{0};
  } done_[2];
};

class Ticket {  // even ones are thread 0's
 public:
  void wait(unsigned me, uint64_t) {
    for (unsigned spins = 0; serving_.load(std::memory_order_acquire) % 2 != me;) {
      if (++spins % 4096 == 0) sched_yield();
    }
  }
  void pass(unsigned, uint64_t) { serving_.fetch_add(1, std::memory_order_release); }

 private:
  std::atomic<uint64_t> serving_{0};
};

class Mutex {
 public:
  void wait(unsigned me, uint64_t) {
    while (true) {
      pthread_mutex_lock(&mutex_);
      if (turn_ == me) return;
      pthread_mutex_unlock(&mutex_);
      sched_yield();
    }
  }
  void pass(unsigned me, uint64_t) {
    turn_ = 1 - me;
    pthread_mutex_unlock(&mutex_);
  }

 private:
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  unsigned turn_ = 0;
};

class Futex {
 public:
  void wait(unsigned me, uint64_t) {
    uint32_t turn;
    while ((turn = turn_.load(std::memory_order_acquire)) != me) {
      syscall(SYS_futex, &turn_, FUTEX_WAIT_PRIVATE, turn, nullptr, nullptr, 0);
    }
  }
  void pass(unsigned me, uint64_t) {
    turn_.store(1 - me, std::memory_order_release);
    syscall(SYS_futex, &turn_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  }

 private:
  std::atomic<uint32_t> turn_{0};
};

class Pipe {
 public:
  Pipe() {
    if (pipe(ends_[0]) != 0 || pipe(ends_[1]) != 0) abort();
    pass(1, 0);
  }
  ~Pipe() {
    for (auto& ends : ends_) {
      for (const int end : ends) close(end);
    }
  }
  void wait(unsigned me, uint64_t) {
    char byte;
    while (read(ends_[me][0], &byte, 1) != 1) {
    }
  }
  void pass(unsigned me, uint64_t) {
    const char byte = 0;
    while (write(ends_[1 - me][1], &byte, 1) != 1) {
    }
  }

 private:
  int ends_[2][2];
};

/// A pointer to the newest version is published; who reads it finds all that was done before.
class Pointer {
 public:
  void wait(unsigned me, uint64_t round) {
    const uint64_t wanted = 2 * round + me;
    for (unsigned spins = 0;; ++spins) {
      const Version* version = newest_.load(std::memory_order_consume);
      if (version->number == wanted) return;
      if (spins % 4096 == 4095) sched_yield();
    }
  }
  void pass(unsigned me, uint64_t round) {
    const uint64_t number = 2 * round + me + 1;
    Version& version = versions_[number % 4];
    version.number = number;
    newest_.store(&version, std::memory_order_release);
  }

 private:
  struct alignas(128) Version {
    std::atomic<uint64_t> number{0};
  } versions_[4];
  alignas(128) std::atomic<const Version*> newest_{&versions_[0]};
};

void *g_blocks[kDistance], *g_latest;

template <typename HandOver>
void take_turns(HandOver& turn, unsigned me, uint64_t rounds) {
  for (uint64_t i = 0; i < rounds; ++i) {
    // Half of the rounds free the block just made, half one from long ago.
    const bool same = i / kStretch % 2 != 0;
    const uint64_t at = i / (2 * kStretch) * kStretch + i % kStretch;
    void*& fresh = same ? g_latest : g_blocks[at % kDistance];
    void*& old = same ? g_latest : g_blocks[(at + 1) % kDistance];
    turn.wait(me, i);
    if (me == 0) {
      if (fresh != nullptr) abort();
      fresh = malloc(kBytes);
    } else {
      free(old);
      old = nullptr;
    }
    turn.pass(me, i);
  }
}

void pin(unsigned thread) {
  cpu_set_t allowed, one;
  CPU_ZERO(&one);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  unsigned wanted = thread;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &allowed) && wanted-- == 0) {
      CPU_SET(cpu, &one);
      sched_setaffinity(0, sizeof one, &one);
      return;
    }
  }
}

struct Kind {
  const char* name;
  unsigned share;  // of 1000 hand-overs
  void (*run)(uint64_t rounds, unsigned number);
};

template <typename HandOver>
void run_kind(uint64_t rounds, unsigned number);

constexpr Kind kKinds[] = {{"flag", 400, run_kind<Flag>},     {"pointer", 300, run_kind<Pointer>},
                           {"ticket", 250, run_kind<Ticket>}, {"mutex", 40, run_kind<Mutex>},
                           {"futex", 6, run_kind<Futex>},     {"pipe", 4, run_kind<Pipe>}};

uint64_t rounds_of(const Kind& kind, uint64_t hand_overs) {
  return hand_overs / 2000 * kind.share;
}

template <typename HandOver>
void run_kind(uint64_t rounds, unsigned number) {
  static HandOver turn;
  std::atomic<unsigned> ready{0};
  std::atomic<bool> go{false};
  const auto work = [&](unsigned me) {
    pin(me);
    free(malloc(kBytes));  // the thread has its place in the log
    ready.fetch_add(1);
    while (!go.load()) sched_yield();
    take_turns(turn, me, rounds);
    ready.fetch_sub(1);
    while (go.load()) sched_yield();  // what a thread's end frees is not counted
  };
  std::thread one(work, 0), two(work, 1);
  while (ready.load() != 2) sched_yield();
  for (void*& block : g_blocks) block = malloc(kBytes);
  free(g_blocks[0]);
  g_blocks[0] = nullptr;
  void* volatile begin = malloc(kBegin + number);
  go.store(true);
  while (ready.load() != 0) sched_yield();
  void* volatile end = malloc(kEnd + number);
  go.store(false);
  one.join();
  two.join();
  free(begin);
  free(end);
  for (void*& block : g_blocks) {
    free(block);
    block = nullptr;
  }
}

int run(uint64_t hand_overs) {
  unsigned number = 0;
  for (const Kind& kind : kKinds) kind.run(rounds_of(kind, hand_overs), number++);
  return 0;
}

/// Reads `gpupeak export events`'s lines: "+time slot n tid n alloc address size n …".
int check(uint64_t hand_overs) {
  static char line[4096];
  const Kind* kind = nullptr;
  uint64_t seen = 0, wrong = 0, all_seen = 0, all_wrong = 0;
  unsigned kinds = 0;
  bool complete = true;
  while (fgets(line, sizeof line, stdin) != nullptr) {
    const char* event = strstr(line, " tid ");
    if (event == nullptr || (event = strchr(event + 5, ' ')) == nullptr) continue;
    const bool alloc = strncmp(event, " alloc ", 7) == 0;
    if (!alloc && strncmp(event, " free ", 6) != 0) continue;
    if (alloc) {
      const char* at = strchr(event + 7, ' ');
      while (at != nullptr && *at != 0 && (*at < '0' || *at > '9')) ++at;
      const size_t bytes = at != nullptr ? strtoull(at, nullptr, 10) : 0;
      if (bytes >= kBegin && bytes < kBegin + std::size(kKinds)) {
        kind = &kKinds[bytes - kBegin];
        seen = wrong = 0;
        continue;
      }
      if (kind != nullptr && bytes >= kEnd && bytes < kEnd + std::size(kKinds)) {
        printf("%-8s %12llu hand-overs, %llu misordered\n", kind->name,
               static_cast<unsigned long long>(seen), static_cast<unsigned long long>(wrong));
        complete = complete && seen == 2 * rounds_of(*kind, hand_overs);
        all_seen += seen;
        all_wrong += wrong;
        ++kinds;
        kind = nullptr;
        continue;
      }
    }
    if (kind == nullptr) continue;
    wrong += alloc != (seen++ % 2 == 0);
  }
  printf("all      %12llu hand-overs, %llu misordered\n", static_cast<unsigned long long>(all_seen),
         static_cast<unsigned long long>(all_wrong));
  if (!complete || kinds != std::size(kKinds)) puts("the log has not all of them");
  return complete && kinds == std::size(kKinds) && all_wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const uint64_t hand_overs = strtoull(argv[2], nullptr, 10);
  return strcmp(argv[1], "run") == 0 ? run(hand_overs) : check(hand_overs);
}
