// Whether a program is of a kind that can be recorded.
#pragma once

#include <string_view>

namespace gpupeak::preload {

/// True inside a program that gained privileges: nothing of ours happens there, not even a word.
bool is_privileged();
/// Why nothing can be recorded in a program of this kind; empty: it can.
std::string_view unfit_because();
/// Whether a program of this kind is left alone for good.
bool must_be_silent();
/// False if the program's calls of malloc go elsewhere: it defines malloc itself.
bool owns_malloc();

}  // namespace gpupeak::preload
