// What every exported hook begins with.
#pragma once

#include "stack/stack.h"

/// A function that the library exports; its name must be in exports.map.
#define GPUPEAK_EXPORT extern "C" __attribute__((visibility("default")))
/// The registers of the hook's caller; in the exported function itself only.
#define GPUPEAK_CALLER GPUPEAK_CALLER_FRAME
