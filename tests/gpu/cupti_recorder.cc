// The independent truth for tests/gpu: CUPTI's own memory records of a run.
// The driver loads this library at cuInit (CUDA_INJECTION64_PATH). At exit it writes the records to
// $CUPTI_RECORDER_OUT.<pid>, in the order of their time stamps, a line each:
//   <alloc or free> <kind> <address, hexadecimal> <bytes>
#include <cupti.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

namespace {

struct Change {
  uint64_t timestamp_ns;
  std::string kind;
  uint64_t address, bytes;
  bool is_allocation;
};

std::mutex g_mutex;
std::vector<Change>* g_changes = nullptr;

std::string kind_of(const CUpti_ActivityMemory4& record) {
  switch (record.memoryKind) {
    case CUPTI_ACTIVITY_MEMORY_KIND_PINNED:
      return "pinned";
    case CUPTI_ACTIVITY_MEMORY_KIND_DEVICE:
      return record.memoryPoolConfig.memoryPoolType != CUPTI_ACTIVITY_MEMORY_POOL_TYPE_INVALID
                 ? "pool"
                 : "linear";
    case CUPTI_ACTIVITY_MEMORY_KIND_ARRAY:
      return "array";
    case CUPTI_ACTIVITY_MEMORY_KIND_MANAGED:
      return "managed";
    case CUPTI_ACTIVITY_MEMORY_KIND_DEVICE_STATIC:
      return "device_static";
    case CUPTI_ACTIVITY_MEMORY_KIND_MANAGED_STATIC:
      return "managed_static";
    default:
      return "other";
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
    if (activity->kind != CUPTI_ACTIVITY_KIND_MEMORY2) continue;
    const auto& record = *reinterpret_cast<const CUpti_ActivityMemory4*>(activity);
    g_changes->push_back(
        {record.timestamp, kind_of(record), record.address, record.bytes,
         record.memoryOperationType == CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION});
  }
  free(buffer);
}

void write_records() {
  cuptiActivityFlushAll(1);
  std::lock_guard<std::mutex> lock(g_mutex);
  std::stable_sort(g_changes->begin(), g_changes->end(), [](const Change& a, const Change& b) {
    return a.timestamp_ns < b.timestamp_ns;
  });
  const char* prefix = getenv("CUPTI_RECORDER_OUT");
  const std::string path =
      std::string(prefix != nullptr ? prefix : "cupti") + "." + std::to_string(getpid());
  FILE* out = fopen(path.c_str(), "w");
  if (out == nullptr) return;
  for (const Change& change : *g_changes) {
    fprintf(out, "%s %s %llx %llu\n", change.is_allocation ? "alloc" : "free", change.kind.c_str(),
            static_cast<unsigned long long>(change.address),
            static_cast<unsigned long long>(change.bytes));
  }
  fclose(out);
}

}  // namespace

extern "C" int InitializeInjection(void) {
  g_changes = new std::vector<Change>;
  cuptiActivityRegisterCallbacks(give_buffer, take_buffer);
  if (cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMORY2) != CUPTI_SUCCESS) {
    fputs("cupti_recorder: CUPTI refuses its memory records\n", stderr);
    return 0;
  }
  atexit(write_records);
  return 1;
}
