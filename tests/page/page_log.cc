// Writes a log for the tests of the page. Usage: gpupeak_page_log KIND FILE; KIND: run, hostile,
// other, died, empty, big, torch, lost, uses.
#include <random>
#include <string>
#include <vector>

#include "log_builder.h"

namespace {

using gpupeak::testing::Fields;
using gpupeak::testing::LogBuilder;

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kMillisecond = 1'000'000;

/// What a program may call things, to break out of text.
const char* const kHostile =
    "</script><img src=x onerror=\"window.hacked=1\">'\"`${window.hacked=1}<!--\xe2\x80\xa8&amp;";

/// Two devices and the host: weights stay, a workspace makes the peak of GPU 0 at 40 ms, phases
/// load and steps, a failed allocation, thirteen small sites, and what the driver says is in use.
/// `hostile`: all names are.
void write(const std::string& path, bool hostile, uint64_t weights_mib,
           gpupeak_exit_kind exit_kind = GPUPEAK_EXIT_CODE) {
  LogBuilder log;
  log.counters().exit_kind = exit_kind;
  log.counters().exit_code = exit_kind == GPUPEAK_EXIT_SIGNAL ? 11 : 0;
  const auto name = [&](const char* text) { return hostile ? kHostile : text; };
  log.fact("arg", name("benchmark"));
  log.fact("arg", name("--model"));
  log.fact("host", name("machine"));
  log.fact(std::string("label.") + name("commit"), name("abc"));
  log.device(0, 80'000 * kMiB, "0123456789abcdef", name("Test GPU"));
  log.device(1, 80'000 * kMiB, "", name("Test GPU"));
  log.module(std::string("/opt/") + name("libengine.so"), "", 0x100000, 0x100000, 0x10000);
  const uint32_t api = log.string(name("cuMemAlloc_v2"));
  const uint32_t step_name = log.string(name("step"));
  const uint32_t main = log.node(0, 0x100100);
  const uint32_t load = log.node(main, 0x100200);
  const uint32_t step = log.node(main, 0x100300);
  const uint32_t workspace = log.node(step, 0x100400);
  // A script's line that the interpreter calls in three steps of its own.
  log.module("/usr/lib/libpython3.11.so.1.0", "", 0x200000, 0x200000, 0x10000);
  log.python_frame(log.string(name("train")), log.string(name("train.py")), 7);
  uint32_t script = log.node(main, GPUPEAK_PYTHON_IP + 1);
  for (const uint64_t ip : {0x200100, 0x200200, 0x200300}) script = log.node(script, ip);
  log.event(0, 0, GPUPEAK_REC_THREAD, Fields().u(100).s(name("worker")));
  log.phase_push(0, 1, true, log.string(name("main")), GPUPEAK_PHASE_AUTO);
  log.alloc(0, kMillisecond, 0x1000, 12 * kMiB, main, 16);
  for (uint64_t i = 1; i <= 13; ++i) {
    log.alloc(0, kMillisecond, 0x800000 + i * 0x10000, 1000 * i, log.node(main, 0x100500 + i * 16));
  }
  log.driver_reading(0, kMillisecond, {.used = 100 * kMiB});
  log.device_event(0, kMillisecond, GPUPEAK_REC_CONTEXT, Fields().u(0xc).u(1).u(0));
  log.driver_reading(0, kMillisecond, {.used = 500 * kMiB, .cause = GPUPEAK_LEDGER_CONTEXT});
  log.device_alloc(0, 2 * kMillisecond, 300, GPUPEAK_KIND_LINEAR, 1, 5 * kMiB, api,
                   log.node(script, 0x100600));
  log.phase_push(0, 2 * kMillisecond, false, log.string(name("load")));
  for (uint64_t i = 0; i < 10; ++i) {
    log.device_alloc(0, (10 + i) * kMillisecond, 1 + i, GPUPEAK_KIND_LINEAR, 0, weights_mib * kMiB,
                     api, load);
  }
  log.device_alloc(0, 21 * kMillisecond, 50, GPUPEAK_KIND_POOL, 1, 7 * kMiB, api, load);
  log.phase_pop(0, 22 * kMillisecond, false);
  for (uint64_t i = 0; i < 20; ++i) {
    const uint64_t begin = (30 + 3 * i) * kMillisecond;
    log.phase_push(0, begin, false, step_name);
    log.device_alloc(0, begin + 1000, 100 + i, GPUPEAK_KIND_POOL, 0, 16 * kMiB, api, workspace);
    if (i == 3) {
      log.device_alloc(0, 40 * kMillisecond, 200, GPUPEAK_KIND_LINEAR, 0, 512 * kMiB, api,
                       workspace);
      log.driver_reading(
          0, 40 * kMillisecond,
          {.used = 1300 * kMiB, .cause = GPUPEAK_LEDGER_CODE, .name = log.string(name("conv"))});
      log.device_free(0, 40 * kMillisecond + 500, 200);
    }
    log.alloc(0, begin + 2000, 0x100000 + i * 0x1000, 3000, step);
    log.free(0, begin + 3000, 0x100000 + i * 0x1000);
    log.device_free(0, begin + kMillisecond, 100 + i);
    log.phase_pop(0, begin + 2 * kMillisecond, false);
  }
  log.device_event(0, 95 * kMillisecond, GPUPEAK_REC_DEVICE_FAILED,
                   Fields()
                       .u(GPUPEAK_KIND_LINEAR)
                       .u(1)
                       .u(90'000 * kMiB)
                       .u(2)
                       .u(0)
                       .u(0)
                       .u(0)
                       .u(api)
                       .u(workspace));
  log.driver_reading(0, 95 * kMillisecond, {.used = 788 * kMiB});
  log.event(0, 96 * kMillisecond, GPUPEAK_REC_SAMPLE, Fields().u(40 * kMiB).u(0).u(0));
  log.free(0, 100 * kMillisecond, 0x1000);
  log.save(path);
}

/// Ten million heap events of 20 000 stacks in 500 000 live blocks.
void write_big(const std::string& path) {
  constexpr uint64_t kEvents = 10'000'000, kLive = 500'000;
  LogBuilder log;
  log.set_chunk_bytes(256 << 10);
  std::mt19937_64 random(1);
  std::vector<uint32_t> stacks{0};
  for (uint32_t i = 0; i < 20'000; ++i) {
    const uint32_t parent = random() % 50 == 0 ? 0 : stacks[random() % stacks.size()];
    stacks.push_back(log.node(parent, 0x400000 + random() % 100'000));
  }
  std::vector<uint64_t> live;
  uint64_t time = 0;
  for (uint64_t i = 0; i < kEvents; ++i) {
    time += 100;
    const uint32_t stack = stacks[random() % stacks.size()];
    if (live.size() < kLive) {
      live.push_back(0x10000 + i * 4096);
      log.alloc(0, time, live.back(), 16 + random() % 3000, stack);
      continue;
    }
    const uint64_t address = live[random() % live.size()];
    log.free(0, time, address);
    log.alloc(0, time + 50, address, 16 + random() % (i % 1'000'000 < 1000 ? 3'000'000 : 3000),
              stack);
    ++i;
  }
  log.save(path);
}

/// PyTorch's pool: a block that got a whole segment of 40 MiB, for which a little less may have
/// been asked. `lost`: the library has counted 100 MiB more, which the log does not have.
void write_torch(const std::string& path, bool lost) {
  LogBuilder log(GPUPEAK_HOST_OFF);
  log.device(0, 80'000 * kMiB, "0123456789abcdef", "Test GPU");
  gpupeak_counters_page& page = log.counters();
  page.ended = 1;
  page.exit_kind = GPUPEAK_EXIT_CODE;
  page.device_count = 1;
  page.device[0].total.peak = (lost ? 140 : 40) * kMiB;
  page.dropped_events = lost ? 3 : 0;
  const uint32_t train = log.node(0, 0x100);
  log.event(0, kMillisecond, GPUPEAK_REC_ARENA,
            Fields().u(1).u(0).u(log.string("PyTorch")).u(0).u(0).s("").u(1));
  log.device_alloc(0, 10 * kMillisecond, 1000, GPUPEAK_KIND_LINEAR, 0, 40 * kMiB, 0, train);
  log.event(0, 11 * kMillisecond, GPUPEAK_REC_ARENA_ALLOC,
            Fields().u(1).u(1000 * kMiB).u(40 * kMiB).u(0).u(train).u(0).u(0));
  log.event(0, 50 * kMillisecond, GPUPEAK_REC_ARENA_FREE,
            Fields().u(1).u(1000 * kMiB).u(40 * kMiB).u(1).u(0));
  log.save(path);
}

/// Of each use at the peak, at 60 ms, some blocks; two of a site differ.
void write_uses(const std::string& path) {
  LogBuilder log(GPUPEAK_HOST_OFF);
  log.device(0, 80'000 * kMiB, "", "Test GPU");
  log.fact("last_use", "on");
  log.module("/opt/libengine.so", "", 0x100000, 0x100000, 0x10000);
  const uint32_t main = log.node(0, 0x100100);
  const auto ms = [](uint64_t time) { return time * kMillisecond; };
  const auto give = [&](uint64_t time, uint64_t id, uint64_t mib, uint64_t site) {
    log.device_alloc(0, ms(time), id, GPUPEAK_KIND_LINEAR, 0, mib * kMiB, 0,
                     log.node(main, 0x100200 + 0x100 * site));
  };
  give(10, 1, 10, 1);   // used before and after
  give(11, 2, 20, 2);   // over
  give(12, 3, 30, 2);   // over for longer
  give(13, 4, 40, 3);   // early
  give(14, 5, 50, 4);   // never
  give(15, 6, 60, 5);   // idle
  give(16, 7, 70, 6);   // not known
  give(60, 8, 300, 7);  // the peak
  const auto used = [&](uint64_t time, uint64_t id, uint64_t first, uint64_t last,
                        uint64_t idle_from, uint64_t idle_to) {
    log.used(0, ms(time), 0, id, 3, ms(first), ms(last), ms(idle_from), ms(idle_to));
  };
  used(80, 1, 20, 75, 20, 50);
  used(81, 2, 20, 55, 20, 40);
  used(82, 3, 20, 25, 20, 22);
  used(83, 4, 70, 75, 70, 73);
  log.used(0, ms(84), 0, 5, 0, 0, 0);
  used(85, 6, 20, 79, 30, 77);
  used(86, 8, 60, 65, 61, 63);
  log.event(0, ms(90), GPUPEAK_REC_USES_END, Fields().u(1).u(2));
  log.counters().ended = 1;
  log.counters().exit_kind = GPUPEAK_EXIT_CODE;
  log.counters().device_count = 1;
  log.counters().device[0].total.peak = 580 * kMiB;
  log.save(path);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string kind = argv[1];
  if (kind == "empty") {
    LogBuilder(GPUPEAK_HOST_OFF).save(argv[2]);
    return 0;
  }
  if (kind == "big") {
    write_big(argv[2]);
    return 0;
  }
  if (kind == "uses") {
    write_uses(argv[2]);
    return 0;
  }
  if (kind == "torch" || kind == "lost") {
    write_torch(argv[2], kind == "lost");
    return 0;
  }
  write(argv[2], kind == "hostile", kind == "run" || kind == "hostile" ? 20 : 30,
        kind == "died" ? GPUPEAK_EXIT_SIGNAL : GPUPEAK_EXIT_CODE);
  return 0;
}
