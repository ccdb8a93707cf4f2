// A function with another one inlined into it, for test_symbolizer.cc. Compiled with debug
// information whatever the build type.
#pragma once

namespace gpupeak::testing {

/// A return address inside sample_inner, which is inlined into sample_outer<int>.
const void* address_in_inlined_function();

}  // namespace gpupeak::testing
