// Python frames as the log has them: a function, a file and a line, numbered in the order of their
// first sight. HOOK-SAFE, inside a HookScope.
#pragma once

#include <cstdint>
#include <string_view>

namespace gpupeak::preload {

/// The number of a frame, from 1 on, defined at its first sight; 0 if there is no more room. Frames
/// are told apart by function, file and line, never by an object's address: addresses are used
/// again.
uint32_t python_frame(std::string_view function, std::string_view file, uint32_t line);

/// In the new log of a forked child, or of a program that is attached to again: defines all frames
/// again, under their old numbers.
void redefine_python_frames();

}  // namespace gpupeak::preload
