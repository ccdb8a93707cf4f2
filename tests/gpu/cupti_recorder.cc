// The independent truth for tests/gpu: CUPTI's own memory records of a run, summed by kind.
// The driver loads this library at cuInit (CUDA_INJECTION64_PATH). At exit it writes one JSON object to
// $CUPTI_RECORDER_OUT.<pid>: {kind: {alloc_bytes, alloc_count, free_bytes, free_count, peak_bytes}}.
#include <cupti.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <unistd.h>
#include <vector>

namespace {

struct Change {
  uint64_t timestamp_ns;
  std::string kind;
  uint64_t bytes;
  bool is_allocation;
};

struct Totals {
  uint64_t alloc_bytes = 0, alloc_count = 0, free_bytes = 0, free_count = 0, peak_bytes = 0;
};

std::mutex g_mutex;
std::vector<Change>* g_changes = nullptr;
uint64_t g_unread = 0;
FILE* g_raw = nullptr;  // CUPTI_RECORDER_RAW=file: each record as it came

std::string kind_of(const CUpti_ActivityMemory4& record) {
  switch (record.memoryKind) {
    case CUPTI_ACTIVITY_MEMORY_KIND_PINNED: return "pinned";
    case CUPTI_ACTIVITY_MEMORY_KIND_DEVICE:
      return record.memoryPoolConfig.memoryPoolType != CUPTI_ACTIVITY_MEMORY_POOL_TYPE_INVALID ? "pool" : "linear";
    case CUPTI_ACTIVITY_MEMORY_KIND_ARRAY: return "array";
    case CUPTI_ACTIVITY_MEMORY_KIND_MANAGED: return "managed";
    case CUPTI_ACTIVITY_MEMORY_KIND_DEVICE_STATIC: return "device_static";
    case CUPTI_ACTIVITY_MEMORY_KIND_MANAGED_STATIC: return "managed_static";
    default: return "other";
  }
}

void CUPTIAPI give_buffer(uint8_t** buffer, size_t* bytes, size_t* max_records) {
  *bytes = 1 << 20;
  *buffer = static_cast<uint8_t*>(aligned_alloc(8, *bytes));
  *max_records = 0;
}

void CUPTIAPI take_buffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid_bytes) {
  std::lock_guard<std::mutex> lock(g_mutex);
  CUpti_Activity* activity = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid_bytes, &activity) == CUPTI_SUCCESS) {
    if (activity->kind != CUPTI_ACTIVITY_KIND_MEMORY2) {
      ++g_unread;
      continue;
    }
    const auto& record = *reinterpret_cast<const CUpti_ActivityMemory4*>(activity);
    if (g_raw != nullptr) {
      fprintf(g_raw, "op %d kind %d address %llx bytes %llu pool %d async %d name %s source %s\n",
              record.memoryOperationType, record.memoryKind, static_cast<unsigned long long>(record.address),
              static_cast<unsigned long long>(record.bytes), record.memoryPoolConfig.memoryPoolType, record.isAsync,
              record.name != nullptr ? record.name : "-", record.source != nullptr ? record.source : "-");
    }
    g_changes->push_back({record.timestamp, kind_of(record), record.bytes,
                          record.memoryOperationType == CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION});
  }
  free(buffer);
}

void write_totals() {
  cuptiActivityFlushAll(1);
  std::lock_guard<std::mutex> lock(g_mutex);
  std::stable_sort(g_changes->begin(), g_changes->end(),
                   [](const Change& a, const Change& b) { return a.timestamp_ns < b.timestamp_ns; });
  std::map<std::string, Totals> kinds;
  std::map<std::string, int64_t> live;
  for (const Change& change : *g_changes) {
    Totals& totals = kinds[change.kind];
    int64_t& now = live[change.kind];
    if (change.is_allocation) {
      totals.alloc_bytes += change.bytes;
      ++totals.alloc_count;
      now += static_cast<int64_t>(change.bytes);
      totals.peak_bytes = std::max<int64_t>(static_cast<int64_t>(totals.peak_bytes), now);
    } else {
      totals.free_bytes += change.bytes;
      ++totals.free_count;
      now -= static_cast<int64_t>(change.bytes);
    }
  }
  const char* prefix = getenv("CUPTI_RECORDER_OUT");
  const std::string path = std::string(prefix != nullptr ? prefix : "cupti") + "." + std::to_string(getpid());
  FILE* out = fopen(path.c_str(), "w");
  if (out == nullptr) return;
  fputs("{", out);
  const char* comma = "";
  for (const auto& [kind, t] : kinds) {
    fprintf(out,
            "%s\"%s\":{\"alloc_bytes\":%llu,\"alloc_count\":%llu,\"free_bytes\":%llu,\"free_count\":%llu,"
            "\"peak_bytes\":%llu}",
            comma, kind.c_str(), static_cast<unsigned long long>(t.alloc_bytes),
            static_cast<unsigned long long>(t.alloc_count), static_cast<unsigned long long>(t.free_bytes),
            static_cast<unsigned long long>(t.free_count), static_cast<unsigned long long>(t.peak_bytes));
    comma = ",";
  }
  fputs("}\n", out);
  fclose(out);
}

}  // namespace

extern "C" int InitializeInjection(void) {
  g_changes = new std::vector<Change>;
  if (const char* raw = getenv("CUPTI_RECORDER_RAW")) g_raw = fopen(raw, "w");
  cuptiActivityRegisterCallbacks(give_buffer, take_buffer);
  if (cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMORY2) != CUPTI_SUCCESS) {
    fputs("cupti_recorder: CUPTI refuses its memory records\n", stderr);
    return 0;
  }
  atexit(write_totals);
  return 1;
}
