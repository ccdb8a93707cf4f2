#include "sample_logs.h"

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "collector/analyze/analyze.h"
#include "collector/log/log_parts.h"
#include "collector/log/packed_log.h"
#include "collector/write/writers.h"
#include "log_builder.h"

namespace gpupeak::testing {
namespace {

constexpr const char* kAttack =
    "<script>alert(1)</script>\x1b[31m\x1b]0;x\a\"',;|`&\\\n\r\t\xff\xc0\x80\xe2\x80\xae=cmd()";

/// A log with every record once or more. All its names are `name` and a number.
LogBuilder every_record(const std::string& name) {
  LogBuilder log;
  int number = 0;
  const auto next_name = [&] { return name + std::to_string(number++); };
  log.set_chunk_bytes(4096);
  log.set_heap_apart(true);
  log.fact("arg", "/opt/" + next_name());
  log.fact("arg", next_name());
  log.fact("exe", "/opt/" + next_name());
  log.fact("cwd", "/home/" + next_name());
  log.fact("host", next_name());
  log.fact("label.job", next_name());
  log.fact("ort.session.1", next_name());
  log.fact("roles", "on");
  log.device(0, 141 << 20, std::string("0123456789abcdef"), "NVIDIA H200");
  log.module("/opt/" + next_name() + ".so", "0123456789", 0x100000, 0x100000, 0x10000);
  const uint32_t phase = log.string(next_name());
  const uint32_t api = log.string("cuMemAlloc_v2");
  const uint32_t outer = log.node(0, 0x100100);
  const uint32_t stack = log.node(outer, 0x100200);
  log.python_frame(log.string(next_name()), log.string("/work/" + next_name() + ".py"), 12);
  const uint32_t python = log.node(log.node(outer, GPUPEAK_PYTHON_IP + 1), 0x100300);
  log.unload(log.module("/opt/" + next_name() + ".so", "", 0x300000, 0x300000, 0x1000));
  log.event(0, 0, GPUPEAK_REC_THREAD, Fields().u(100).s(next_name()));
  log.phase_push(0, 0, true, phase, GPUPEAK_PHASE_AUTO);
  log.event(0, 1, GPUPEAK_REC_PHASE_PUSH, Fields().u(0).u(1).u(0).u(2).u(phase).s(next_name()));
  log.alloc(0, 2, 0x1000, 100, stack, 12);
  log.alloc(0, 3, 0x2008, 50, outer);
  log.realloc_begin(0, 4, 0x1000);
  log.realloc_end(0, 5, 0x3000, 200, stack);
  log.realloc_begin(0, 6, 0x2008);
  log.realloc_failed(0, 7, 0x2008);
  log.free(0, 8, 0x2008);
  log.map(0, 9, 0x7f0000000000, 1 << 16, 3, GPUPEAK_KIND_MMAP_ANON, stack);
  log.event(0, 10, GPUPEAK_REC_PROTECT, Fields().u(0x7f0000000000).u(4096).u(0));
  log.event(0, 11, GPUPEAK_REC_REMAP_BEGIN, Fields().u(0x7f0000000000).u(1 << 16));
  log.event(0, 11, GPUPEAK_REC_REMAP_FAILED, Fields().u(0x7f0000000000).u(1 << 16));
  log.event(0, 11, GPUPEAK_REC_REMAP_BEGIN, Fields().u(0x7f0000000000).u(1 << 16));
  log.event(0, 11, GPUPEAK_REC_REMAP,
            Fields().u(0x7f0000000000).u(1 << 16).u(0x7f0000100000).u(1 << 17).u(stack));
  log.unmap(0, 12, 0x7f0000100000, 4096);
  log.driver_reading(0, 12, {.used = 100 << 20, .reserved = 1 << 20, .others = 100 << 20});
  log.device_event(0, 12, GPUPEAK_REC_CONTEXT, Fields().u(0xd).u(1).u(0));
  log.driver_reading(0, 12,
                     {.used = 500 << 20,
                      .cause = GPUPEAK_LEDGER_CONTEXT,
                      .own = 400 << 20,
                      .others = 100 << 20,
                      .api = api,
                      .stack = stack});
  log.device_alloc(0, 13, 1, GPUPEAK_KIND_LINEAR, 0, 4096, api, python);
  log.driver_reading(0, 13,
                     {.used = 540 << 20,
                      .cause = GPUPEAK_LEDGER_CODE,
                      .others = 101 << 20,
                      .overlaps = 2,
                      .name = log.string(next_name())});
  log.device_alloc(1, 14, 2, GPUPEAK_KIND_POOL, 1, 8192, api, outer);
  log.device_alloc(1, 15, 3, GPUPEAK_KIND_PINNED, 0, 100, api, outer);
  log.device_alloc(1, 15, 4, GPUPEAK_KIND_VMM, 0, 4 << 20, api, stack);
  log.device_alloc(1, 15, 5, GPUPEAK_KIND_ARRAY, 0, 300, api, stack);
  log.device_alloc(1, 15, 6, GPUPEAK_KIND_GRAPH, 1, 700, api, stack);
  log.device_alloc(1, 15, 7, GPUPEAK_KIND_MANAGED, 0, 900, api, stack);
  log.device_alloc(1, 15, 8, GPUPEAK_KIND_IMPORTED, 0, 900, api, stack);
  log.device_alloc(1, 15, 9, GPUPEAK_KIND_VMM_VA, 0, 8 << 20, api, stack);
  log.device_alloc(1, 15, 10, GPUPEAK_KIND_REGISTERED, -1, 60, api, stack);
  log.driver_reading(0, 15,
                     {.used = 550 << 20, .cause = GPUPEAK_LEDGER_LOCAL_MEMORY, .uncertain = true});
  log.driver_reading(0, 15, {.used = 560 << 20});
  log.driver_reading(1, 15, {.used = 9 << 20, .device = 1, .source = GPUPEAK_READING_CUDA});
  log.device_free(0, 16, 1);
  log.device_event(0, 17, GPUPEAK_REC_DEVICE_REVIVE, Fields().u(1));
  log.device_event(0, 18, GPUPEAK_REC_DEVICE_FAILED,
                   Fields().u(16).u(1).u(1 << 30).u(2).u(4096).u(11).u(21).u(api).u(stack));
  log.device_event(0, 19, GPUPEAK_REC_DEVICE_UNKNOWN, Fields().u(0x123).u(api).u(stack));
  log.device_event(0, 20, GPUPEAK_REC_POOL, Fields().u(0xa).u(1).u(100).u(50).u(2));
  log.device_event(0, 21, GPUPEAK_REC_CONTEXT, Fields().u(0xc).u(1).u(0));
  log.event(
      0, 21, GPUPEAK_REC_HOST_FAILED,
      Fields().u(GPUPEAK_KIND_HEAP).u(100).u(12).u(GPUPEAK_LIMIT_DATA).u(90).u(80).u(api).u(stack));
  log.event(0, 22, GPUPEAK_REC_SAMPLE, Fields().u(1 << 20).u(1 << 10).u(77));
  log.event(0, 22, GPUPEAK_REC_RESIDENT,
            Fields()
                .u(99)
                .u(20)
                .u(5)
                .u(6)
                .u(7)
                .u(50)
                .u(8)
                .u(3)
                .u(10)
                .u(30)
                .u(4)
                .u(1)
                .u(3)
                .u(0x4000)
                .u(9)
                .u(2)
                .u(0x7f0000000000)
                .u(8192)
                .u(4096));
  log.event(0, 23, GPUPEAK_REC_MARK, Fields().u(2).u(0).u(1).u(phase).s(next_name()));
  log.event(0, 24, GPUPEAK_REC_RANGE_BEGIN, Fields().u(7).u(2).u(phase).u(1).u(phase).s(""));
  log.event(0, 25, GPUPEAK_REC_RANGE_END, Fields().u(7));
  log.event(0, 26, GPUPEAK_REC_TAG_PUSH, Fields().u(0).s(next_name()));
  log.alloc(0, 27, 0x4000, 30, stack);
  log.event(0, 28, GPUPEAK_REC_TAG_POP, Fields());
  log.event(0, 29, GPUPEAK_REC_ARENA,
            Fields().u(1).u(0).u(0).u(0x7f0000200000).u(4096).s(next_name()));
  log.event(0, 30, GPUPEAK_REC_ARENA_ALLOC,
            Fields().u(1).u(0x7f0000200000).u(64).u(phase).u(stack));
  log.event(0, 31, GPUPEAK_REC_ARENA_FREE, Fields().u(1).u(0x7f0000200000));
  log.event(0, 31, GPUPEAK_REC_ARENA, Fields().u(2).u(0).u(0).u(0).u(0).s(next_name()).u(1));
  log.event(0, 31, GPUPEAK_REC_DEVICE_MAPPED, Fields().u(0x7f1000000000).u(4 << 20).u(4));
  log.event(0, 31, GPUPEAK_REC_ARENA_ALLOC,
            Fields().u(2).u(0x7f1000000000).u(512).u(0).u(stack).u(513).u((4 << 20) + 1));
  log.event(0, 31, GPUPEAK_REC_ARENA_FAILED, Fields().u(2).u(1 << 30).u(513).u(9).u(stack));
  log.event(0, 31, GPUPEAK_REC_ARENA_FREE, Fields().u(2).u(0x7f1000000000).u(512).u(1).u(9));
  log.event(0, 31, GPUPEAK_REC_DEVICE_UNMAPPED, Fields().u(0x7f1000000000).u(4 << 20));
  log.event(0, 31, GPUPEAK_REC_USED, Fields().u(2).u(0x7f1000000000).u(3).u(9).u(2).u(4).u(7).u(1));
  log.event(0, 31, GPUPEAK_REC_USED, Fields().u(0).u(4).u(1).u(8).u(8).u(0).u(0).u(2));
  log.event(0, 31, GPUPEAK_REC_KERNEL, Fields().u(1).u(phase).u(stack));
  log.event(0, 31, GPUPEAK_REC_ROLE, Fields().u(0).u(4).u(1).u(2).u(3));
  log.event(0, 31, GPUPEAK_REC_ROLE, Fields().u(0).u(4).u(0).u(GPUPEAK_ROLE_COPIED_IN).u(1));
  log.event(0, 31, GPUPEAK_REC_WINDOW, Fields().u(0).u(1).u(1).u(90).u(60).u(20).u(2).u(10));
  log.event(0, 31, GPUPEAK_REC_SAMPLING, Fields().u(4096));
  log.alloc(0, 31, 0x5000, 30, stack);
  log.event(0, 32, 0xff, Fields().u(1).s(next_name()));  // a record of a newer gpupeak
  log.phase_pop(0, 33, false);
  log.phase_pop(0, 34, true);
  log.event(0, 35, GPUPEAK_REC_USES_END, Fields().u(1).u(2));
  return log;
}

/// A pool that follows PyTorch's rules, so that `fit` simulates it, also when it is damaged.
LogBuilder torch_arena() {
  constexpr uint64_t kMiB = 1 << 20;
  LogBuilder log(GPUPEAK_HOST_OFF);
  log.device(0, 1 << 30, std::string(16, 'u'), "card");
  log.counters().ended = 1;
  log.counters().exit_kind = GPUPEAK_EXIT_CODE;
  log.counters().device_count = 1;
  log.counters().device[0].total.peak = 62 * kMiB;
  log.driver_reading(0, 1, {.used = 1 * kMiB, .others = 0});
  log.device_event(0, 2, GPUPEAK_REC_CONTEXT, Fields().u(0xc).u(1).u(GPUPEAK_CONTEXT_CREATED));
  log.driver_reading(0, 3, {.used = 401 * kMiB, .cause = GPUPEAK_LEDGER_CONTEXT});
  const uint32_t name = log.string("PyTorch");
  log.event(0, 4, GPUPEAK_REC_ARENA, Fields().u(1).u(0).u(name).u(0).u(0).s("").u(1));
  const auto give = [&](uint64_t time, uint64_t at, uint64_t bytes) {
    log.event(0, time, GPUPEAK_REC_ARENA_ALLOC,
              Fields().u(1).u(at * kMiB).u(bytes).u(0).u(0).u(0).u(0));
  };
  const auto take = [&](uint64_t time, uint64_t at) {
    log.event(0, time, GPUPEAK_REC_ARENA_FREE, Fields().u(1).u(at * kMiB).u(0).u(0).u(0));
  };
  log.device_alloc(0, 5, 1000, GPUPEAK_KIND_LINEAR, 0, 20 * kMiB);
  give(6, 1000, 5 * kMiB);
  give(7, 1005, 15 * kMiB);
  take(8, 1000);
  give(9, 1000, 3 * kMiB);
  take(10, 1000);
  take(11, 1005);
  log.device_alloc(0, 12, 2000, GPUPEAK_KIND_LINEAR, 0, 40 * kMiB);
  give(13, 2000, 40 * kMiB);
  log.device_alloc(0, 14, 3000, GPUPEAK_KIND_LINEAR, 0, 2 * kMiB);
  log.driver_reading(0, 15, {.used = 463 * kMiB});
  return log;
}

/// Cuts every list to two members, which are read as all members are. The test damages each byte
/// and then reads the whole text, so its time grows with the square of the length.
void shorten(nlohmann::json& value) {
  if (value.is_array() && value.size() > 2) value.erase(value.begin() + 2, value.end());
  if (!value.is_structured()) return;
  for (nlohmann::json& member : value) shorten(member);
}

/// `log` with another log as a part of it.
std::vector<uint8_t> with_part(const std::vector<uint8_t>& log, const std::string& program) {
  LogBuilder other;
  other.alloc(0, 1, 0x1000, 10);
  other.counters().device_events = 1;
  const TemporaryFile file, part;
  file.write(log);
  part.write(other.bytes());
  collector::add_part(file.path(), part.path(), program);
  std::ifstream joined(file.path(), std::ios::binary);
  return {std::istreambuf_iterator<char>(joined), {}};
}

std::vector<uint8_t> bytes_of(const std::string& text) {
  return {text.begin(), text.end()};
}

}  // namespace

std::vector<SampleLog> sample_logs() {
  std::vector<SampleLog> logs;
  logs.push_back({"whole", every_record("name").bytes()});
  logs.push_back({"hostile", with_part(every_record(kAttack).bytes(), kAttack)});
  const std::string symbols =
      R"({"schema":"gpupeak.symbols/1","log":"1122334455667788","strings":["f","g.cc"],"modules":)"
      R"([{"path":"/opt/name7.so","build_id":"30313233343536373839","frames":[[511,0,1,7]]}]})";
  std::ostringstream bundle;
  collector::write_packed(logs.front().bytes, symbols, bundle, {});
  logs.push_back({"bundle", bytes_of(bundle.str())});
  LogBuilder short_log;
  short_log.alloc(0, 1, 0x1000, 10);
  logs.push_back({"parts", with_part(short_log.bytes(), "name")});
  logs.push_back({"torch", torch_arena().bytes()});
  const TemporaryFile file;
  file.write(logs.front().bytes);
  std::ostringstream json;
  collector::write_json(collector::analyze(file.path()), json);
  nlohmann::json summary = nlohmann::json::parse(json.str());
  shorten(summary);
  logs.push_back({"summary", bytes_of(summary.dump())});
  return logs;
}

SampleLog secret_log(const std::string& secret) {
  return {"secret", with_part(every_record(secret).bytes(), secret)};
}

}  // namespace gpupeak::testing
