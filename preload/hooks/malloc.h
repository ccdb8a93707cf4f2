// What the hooks of other allocators need of malloc's hooks.
#pragma once

namespace gpupeak::preload {

/// A function of the allocator that our hooks call has moved: its code at `from` is replaced, and
/// `to` does the same.
void real_allocator_moved(const void* from, const void* to);

}  // namespace gpupeak::preload
