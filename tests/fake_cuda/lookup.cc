// cuGetProcAddress: finds the function of an ABI by base name, version and flags.
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "config.h"
#include "export.h"

/// Stands for all functions that are not simulated.
extern "C" int fake_cuda_unsupported();

namespace fake_cuda {
namespace {

std::vector<Export>& exports() {
  static auto* const instance = new std::vector<Export>;
  return *instance;
}

struct Request {
  const char* name;
  int version, stream;
};
constexpr Request kRequests[] = {
#define REQUEST(name, version, flags) {#name, version, flags},
#include "requested_names.def"
#undef REQUEST
};

struct Found {
  bool known = false;  ///< the name exists, perhaps only in a later version than was asked for
  int version = 0;
  void* address = nullptr;
};

/// The newest ABI for that stream that is not newer than `version`.
Found newest(const char* name, int version, int stream) {
  Found best;
  const auto consider = [&](const char* base, int entry_version, int entry_stream, void* address) {
    if (entry_stream != stream || strcmp(base, name) != 0) return;
    best.known = true;
    if (entry_version > version || entry_version <= best.version) return;
    best.version = entry_version;
    best.address = address;
  };
  for (const Export& entry : exports())
    consider(entry.base_name, entry.version, entry.stream, entry.address);
  for (const Request& request : kRequests) {
    consider(request.name, request.version, request.stream,
             reinterpret_cast<void*>(&fake_cuda_unsupported));
  }
  return best;
}

enum Status { kFound = 0, kNotFound = 1, kVersionTooLow = 2 };  // CUdriverProcAddressQueryResult

/// A driver cannot be called before its constructors have run, since its C library may not be ready
/// either, if it has one of its own.
constinit bool g_constructed = false;
__attribute__((constructor)) void constructed() {
  g_constructed = true;
}

CUresult find_function(const char* name, void** out, int version, cuuint64_t flags, int* status) {
  if (name == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!g_constructed) abort();
  Found found;
  if ((flags & kPerThreadStream) != 0) found = newest(name, version, kPerThreadStream);
  // Most functions take no stream and have one variant only.
  if (!found.known || found.address == nullptr) {
    const Found legacy = newest(name, version, kLegacyStream);
    found.known = found.known || legacy.known;
    found.address = legacy.address;
  }
  *out = found.address;
  if (status != nullptr)
    *status = found.address != nullptr ? kFound : found.known ? kVersionTooLow : kNotFound;
  return CUDA_SUCCESS;
}

CUresult init(unsigned flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  Driver& state = driver();
  if (state.initialised) return state.pid == getpid() ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
  if (config().devices <= 0) return CUDA_ERROR_NO_DEVICE;
  for (int ordinal = 0; ordinal < config().devices; ++ordinal) {
    auto device = std::make_unique<Device>(ordinal);
    figures_of(ordinal).pid = getpid();
    device->taken = device->others = config().others_bytes;
    device->primary = {.device = ordinal, .primary = true, .active = false};
    state.devices.push_back(std::move(device));
  }
  state.initialised = true;
  state.pid = getpid();
  return CUDA_SUCCESS;
}

CUresult driver_version(int* out) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = 13000;
  return CUDA_SUCCESS;
}

}  // namespace

bool register_export(const Export& entry) {
  exports().push_back(entry);
  return true;
}

static std::atomic<void (*)(const char*)> g_on_return{nullptr};

CallEnd::~CallEnd() {
  if (const auto on_return = g_on_return.load()) on_return(base_name);
}

Call::Call(const char* base_name, bool needs_init)
    : end_{base_name}, guard_(driver().lock), refusal_(CUDA_SUCCESS) {
  const Driver& state = driver();
  if (needs_init && (!state.initialised || state.pid != getpid())) {
    refusal_ = CUDA_ERROR_NOT_INITIALIZED;
  } else {
    refusal_ = static_cast<CUresult>(injected_failure(base_name));
  }
}

FAKE_CUDA_EXPORT_EARLY(cuInit, "cuInit", 2000, init, (unsigned flags), (flags))
FAKE_CUDA_EXPORT_EARLY(cuDriverGetVersion, "cuDriverGetVersion", 2020, driver_version, (int* out),
                       (out))
FAKE_CUDA_EXPORT_EARLY(cuGetProcAddress, "cuGetProcAddress", 11030, find_function,
                       (const char* name, void** out, int version, cuuint64_t flags),
                       (name, out, version, flags, nullptr))
FAKE_CUDA_EXPORT_EARLY(cuGetProcAddress_v2, "cuGetProcAddress", 12000, find_function,
                       (const char* name, void** out, int version, cuuint64_t flags, int* status),
                       (name, out, version, flags, status))

}  // namespace fake_cuda

/// Calls `on_return(base_name)` after each call, on its thread: so a test can act between the end
/// of the call and its return.
extern "C" __attribute__((visibility("default"))) void fake_cuda_on_return(
    void (*on_return)(const char* base_name)) {
  fake_cuda::g_on_return = on_return;
}
