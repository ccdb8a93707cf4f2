// What hooks of other allocators need to know of malloc's.
#pragma once

namespace gpupeak::preload {

/// A function of the allocator that our hooks call does what it did at another place now.
void real_allocator_moved(const void* from, const void* to);

}  // namespace gpupeak::preload
