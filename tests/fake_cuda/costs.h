// What the driver takes of a device for itself: contexts, code, local memory … With
// FAKE_CUDA_COSTS=on only, so that the other tests' memory is all theirs. Amounts are made up, the
// rules are the real driver's (docs/driver-behaviour.md). All need the driver's lock.
#pragma once

#include <cstdint>
#include <string>

namespace fake_cuda {

enum class Cost { context, code, local_memory, streams, limits, peer, managed, limit };

/// Takes (or, negative, gives back) memory of the device. False if it has not that much.
bool charge(int device, Cost cost, int64_t bytes);

/// A context's beginning and end: with it ends all that it was charged.
bool charge_context(int device, const void* context);
void discharge_context(int device, const void* context);
/// The same, for `context`: given back at its end.
bool charge_in_context(int device, const void* context, Cost cost, uint64_t bytes);

/// A function's first launch: its module's code, and the device's memory for its local variables.
/// False if the device has not that much.
bool charge_launch(int device, const void* context, const void* function);
/// An unload gives back the module's code, of every context that had it.
void discharge_module(const void* module);
/// Streams come in groups, of which a context keeps the memory.
bool charge_stream(int device, const void* context);

/// `"cost": bytes` for each cost of the device, for the ledger's file.
std::string costs_as_json(int device);

}  // namespace fake_cuda
