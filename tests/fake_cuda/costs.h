// The memory that the driver takes of a device for itself: contexts, code, local memory … Only with
// FAKE_CUDA_COSTS=on, so that in other tests all memory is the test's. The amounts are made up, the
// rules are the real driver's (docs/driver-behaviour.md). All functions need the driver's lock.
#pragma once

#include <cstdint>
#include <string>

namespace fake_cuda {

enum class Cost { context, code, local_memory, streams, limits, peer, managed, limit };

/// Takes memory of the device, or gives it back if negative. False if the device has not so much.
bool charge(int device, Cost cost, int64_t bytes);

// The begin and the end of a context. At its end all that it was charged is given back.
bool charge_context(int device, const void* context);
void discharge_context(int device, const void* context);
/// As charge(), for `context`: the memory is given back at its end.
bool charge_in_context(int device, const void* context, Cost cost, uint64_t bytes);

/// At a function's first launch: takes memory for its module's code and for its local variables.
/// False if the device has not so much.
bool charge_launch(int device, const void* context, const void* function);
/// At an unload: gives back the memory of the module's code, in every context that had it.
void discharge_module(const void* module);
/// Takes memory for a stream. Streams come in groups; a context keeps the memory of a group.
bool charge_stream(int device, const void* context);

/// `"cost": bytes` for each cost of the device, for the ledger's file.
std::string costs_as_json(int device);

}  // namespace fake_cuda
