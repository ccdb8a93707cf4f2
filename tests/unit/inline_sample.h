// A function with another function inlined into it, for test_symbolizer.cc. It is compiled with
// debug information in every build type.
#pragma once

namespace gpupeak::testing {

/// A return address inside sample_inner, which is inlined into sample_outer<int>.
const void* address_in_inlined_function();

}  // namespace gpupeak::testing
