#include "track/driver.h"

#include <cstring>
#include <string_view>

#include "track/limit.h"

namespace gpupeak::preload {

uint32_t new_api(const ApiCall& call) {
  const uint32_t id = intern_string(call.name);
  __atomic_store_n(call.string_id, id, __ATOMIC_RELAXED);
  return id;
}

namespace {

constinit DriverLookup g_lookup = nullptr;

/// The pool that the driver last gave for each device, with the number of changes at that time.
/// Both are in one word, so that no lock is needed.
struct DevicePools {
  static constexpr int kPointerBits = 48;
  static constexpr uint64_t kPointer = (uint64_t{1} << kPointerBits) - 1;
  std::atomic<uint64_t> current[GPUPEAK_LOG_MAX_DEVICES];  ///< 0: to be asked for
  std::atomic<uint64_t> changes{1};

  uint64_t tag() const { return changes.load(std::memory_order_acquire) << kPointerBits; }
};
constinit DevicePools g_pools;

template <typename... Arguments>
using Ask = DriverFunction<CUresult (*)(Arguments...)>;

constinit Ask<int*> g_get_device_count("cuDeviceGetCount");
constinit Ask<CUcontext*> g_ctx_get_current("cuCtxGetCurrent");
constinit Ask<CUdevice*> g_ctx_get_device("cuCtxGetDevice");
constinit Ask<size_t*, size_t*> g_mem_get_info("cuMemGetInfo_v2");
constinit Ask<CUstream, CUstreamCaptureStatus*> g_is_capturing("cuStreamIsCapturing");
constinit Ask<CUstream, CUstreamCaptureStatus*> g_is_capturing_ptsz("cuStreamIsCapturing_ptsz");
constinit Ask<CUstream, CUdevice*> g_stream_device("cuStreamGetDevice");
constinit Ask<CUstream, CUdevice*> g_stream_device_ptsz("cuStreamGetDevice_ptsz");
constinit Ask<CUmemoryPool*, CUdevice> g_device_pool("cuDeviceGetMemPool");
constinit Ask<CUmemoryPool, CUmemPool_attribute, void*> g_pool_attribute("cuMemPoolGetAttribute");
constinit Ask<CUdevice, CUgraphMem_attribute, void*> g_graph_attribute(
    "cuDeviceGetGraphMemAttribute");
constinit Ask<CUdeviceptr*, size_t*, CUdeviceptr> g_address_range("cuMemGetAddressRange_v2");
constinit Ask<void*, CUpointer_attribute, CUdeviceptr> g_pointer_attribute("cuPointerGetAttribute");
constinit Ask<CUdevice, unsigned*, int*> g_primary_state("cuDevicePrimaryCtxGetState");
constinit Ask<char*, int, CUdevice> g_device_name("cuDeviceGetName");
constinit Ask<size_t*, CUdevice> g_device_total("cuDeviceTotalMem_v2");
constinit Ask<int*, CUdevice_attribute, CUdevice> g_device_attribute("cuDeviceGetAttribute");
constinit Ask<CUmemGenericAllocationHandle*, size_t, const CUmemAllocationProp*, unsigned long long>
    g_mem_create("cuMemCreate");
constinit Ask<CUmemGenericAllocationHandle> g_mem_release("cuMemRelease");
constinit Ask<CUuuid*, CUdevice> g_device_uuid2("cuDeviceGetUuid_v2");
constinit Ask<CUuuid*, CUdevice> g_device_uuid("cuDeviceGetUuid");
constinit Ask<char*, int, CUdevice> g_bus_id("cuDeviceGetPCIBusId");

}  // namespace

constinit uint32_t g_driver_generation = 1;
constinit std::atomic<uint32_t> g_introduced{0};
constinit std::atomic<int> g_device_count{0};

void forget_driver_functions() {
  __atomic_add_fetch(&g_driver_generation, 1, __ATOMIC_RELEASE);
  g_device_count = 0;
  forget_limits();
}

void set_driver_lookup(DriverLookup lookup) {
  __atomic_store_n(&g_lookup, lookup, __ATOMIC_RELEASE);
}

void* driver_function(const char* export_name) {
  const DriverLookup lookup = __atomic_load_n(&g_lookup, __ATOMIC_ACQUIRE);
  return lookup != nullptr ? lookup(export_name) : nullptr;
}

CUcontext current_context() {
  CUcontext context = nullptr;
  return g_ctx_get_current(&context) == CUDA_SUCCESS ? context : nullptr;
}

int current_device() {
  CUdevice device = kNoDevice;
  return g_ctx_get_device(&device) == CUDA_SUCCESS ? device : kNoDevice;
}

bool real_memory_info(uint64_t& free_bytes, uint64_t& total_bytes) {
  size_t free_now = 0, total = 0;
  if (g_mem_get_info(&free_now, &total) != CUDA_SUCCESS) return false;
  free_bytes = free_now;
  total_bytes = total;
  return true;
}

uint64_t real_device_total(int ordinal) {
  size_t total = 0;
  return g_device_total(&total, ordinal) == CUDA_SUCCESS ? total : 0;
}

bool is_integrated(int ordinal) {
  int value = 0;
  return g_device_attribute(&value, CU_DEVICE_ATTRIBUTE_INTEGRATED, ordinal) == CUDA_SUCCESS &&
         value != 0;
}

bool take_physical_memory(int ordinal, uint64_t bytes, CUmemGenericAllocationHandle& handle) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, ordinal};
  return g_mem_create(&handle, bytes, &properties, 0) == CUDA_SUCCESS;
}

void give_physical_memory(CUmemGenericAllocationHandle handle) {
  g_mem_release(handle);
}

constinit std::atomic<bool> g_captures_begun{false};

void captures_begin() {
  g_captures_begun.store(true, std::memory_order_relaxed);
}

bool ask_if_capturing(CUstream stream, bool per_thread_default) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  auto& ask =
      per_thread_default && g_is_capturing_ptsz.exists() ? g_is_capturing_ptsz : g_is_capturing;
  // An error means that the question was about the legacy stream while another stream is being
  // captured. Then the legacy stream itself is not.
  return ask(stream, &status) == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
}

int device_count() {
  int count = g_device_count.load(std::memory_order_relaxed);
  if (count == 0 && g_get_device_count(&count) == CUDA_SUCCESS)
    g_device_count.store(count, std::memory_order_relaxed);
  return count;
}

int ask_for_stream_device(CUstream stream, bool per_thread_default) {
  if (device_count() == 1) return 0;
  CUdevice device = kNoDevice;
  // Drivers before CUDA 12.8 lack this function. All frameworks make a stream's calls in the
  // stream's own context, since most calls would fail in another one.
  auto& ask = per_thread_default ? g_stream_device_ptsz : g_stream_device;
  return ask(stream, &device) == CUDA_SUCCESS ? device : current_device();
}

/// Asks the driver, and keeps the answer as valid until the next change after `tag`.
static __attribute__((noinline)) CUmemoryPool ask_for_device_pool(int device, uint64_t tag) {
  CUmemoryPool pool = nullptr;
  if (g_device_pool(&pool, device) != CUDA_SUCCESS) return nullptr;
  const auto address = reinterpret_cast<uint64_t>(pool);
  if ((address & ~DevicePools::kPointer) == 0)
    g_pools.current[device].store(tag | address, std::memory_order_relaxed);
  return pool;
}

CUmemoryPool device_pool(int device) {
  if (!has_counters(device)) return nullptr;
  const uint64_t tag = g_pools.tag();
  const uint64_t known = g_pools.current[device].load(std::memory_order_relaxed);
  const uint64_t address = known & DevicePools::kPointer;
  if (__builtin_expect(address != 0 && known - address == tag, 1))
    return reinterpret_cast<CUmemoryPool>(address);
  return ask_for_device_pool(device, tag);
}

void forget_device_pools() {
  g_pools.changes.fetch_add(1, std::memory_order_acq_rel);
}

uint64_t pool_attribute(CUmemoryPool pool, CUmemPool_attribute attribute) {
  cuuint64_t value = 0;
  return pool != nullptr && g_pool_attribute(pool, attribute, &value) == CUDA_SUCCESS ? value : 0;
}

uint64_t graph_reserve(CUdevice device) {
  cuuint64_t bytes = 0;
  const auto attribute = CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT;
  return device >= 0 && g_graph_attribute(device, attribute, &bytes) == CUDA_SUCCESS ? bytes : 0;
}

uint64_t bytes_at(CUdeviceptr at) {
  CUdeviceptr base = 0;
  size_t bytes = 0;
  return g_address_range(&base, &bytes, at) == CUDA_SUCCESS ? bytes : 0;
}

uint64_t gives_back_plus_1(CUdeviceptr at) {
  unsigned type = 0, managed = 0;
  if (g_pointer_attribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at) != CUDA_SUCCESS ||
      g_pointer_attribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, at) != CUDA_SUCCESS)
    return 0;
  if (managed != 0 || type == CU_MEMORYTYPE_HOST) return 1;
  // Memory of another process or interface cannot be passed on. The process's own memory can, but
  // for that of pools. If nothing can be passed on, the two look alike, and the size is not known.
  unsigned can_be_passed_on = 0;
  CUmemoryPool pool = nullptr;
  if (g_pointer_attribute(&can_be_passed_on, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, at) ==
          CUDA_SUCCESS &&
      can_be_passed_on == 0 &&
      (g_pointer_attribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, at) != CUDA_SUCCESS ||
       pool == nullptr))
    return 0;
  const uint64_t bytes = bytes_at(at);
  return bytes != 0 ? bytes + 1 : 0;
}

int device_at(CUdeviceptr at) {
  unsigned type = 0;
  int device = kNoDevice;
  if (g_pointer_attribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at) != CUDA_SUCCESS ||
      type != CU_MEMORYTYPE_DEVICE ||
      g_pointer_attribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at) != CUDA_SUCCESS)
    return kNoDevice;
  return device;
}

bool primary_context_is_active(CUdevice device) {
  unsigned flags = 0;
  int active = 1;
  return g_primary_state(device, &flags, &active) != CUDA_SUCCESS || active != 0;
}

CUcontext& primary_context(CUdevice device) {
  static CUcontext contexts[kDevices + 1];  // the last is for all further devices
  return contexts[has_counters(device) ? device : kDevices];
}

void forget_introductions() {
  g_introduced.store(0);
  forget_device_pools();
}

bool device_uuid(int ordinal, char* uuid) {
  CUuuid found{};
  auto& ask = g_device_uuid2.exists() ? g_device_uuid2 : g_device_uuid;
  if (ask(&found, ordinal) != CUDA_SUCCESS) return false;
  memcpy(uuid, found.bytes, sizeof found.bytes);
  return true;
}

bool device_bus_id(int ordinal, char* id, int capacity) {
  return g_bus_id(id, capacity, ordinal) == CUDA_SUCCESS;
}

/// A sum of GPUPEAK_MEMORY_*. If the driver does not know an attribute, the device lacks it.
static uint64_t memory_of(int ordinal) {
  struct {
    CUdevice_attribute attribute;
    uint64_t bit;
  } constexpr kAsked[] = {
      {CU_DEVICE_ATTRIBUTE_INTEGRATED, GPUPEAK_MEMORY_INTEGRATED},
      {CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, GPUPEAK_MEMORY_PAGEABLE},
      {CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES,
       GPUPEAK_MEMORY_HOST_PAGE_TABLES},
      {CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, GPUPEAK_MEMORY_CONCURRENT_MANAGED}};
  uint64_t memory = 0;
  for (const auto& [attribute, bit] : kAsked) {
    int value = 0;
    if (g_device_attribute(&value, attribute, ordinal) != CUDA_SUCCESS) continue;
    memory |= GPUPEAK_MEMORY_KNOWN | (value != 0 ? bit : 0);
  }
  return memory;
}

void introduce_new_device(int ordinal) {
  const uint32_t bit = 1u << ordinal;
  if ((g_introduced.fetch_or(bit) & bit) != 0) return;
  char name[128] = {};
  const uint64_t total = visible_device_total(ordinal);
  char uuid[16] = {};
  g_device_name(name, sizeof name - 1, ordinal);
  device_uuid(ordinal, uuid);
  define(Record{GPUPEAK_DEF_DEVICE, ordinal, total, std::string_view(uuid, sizeof uuid),
                std::string_view(name, strlen(name)), memory_of(ordinal)});
  log_limit(ordinal);
  raise_to(std::atomic_ref<uint32_t>(counters().device_count), static_cast<uint32_t>(ordinal) + 1);
}

}  // namespace gpupeak::preload
