// The exit codes of the command, as docs/usage.md promises them.
#pragma once

namespace gpupeak::tools {

inline constexpr int kOk = 0;
inline constexpr int kGateFailed = 1;  ///< of `check`: a limit was not kept
inline constexpr int kUsage = 2;
inline constexpr int kUnreadableLog = 3;  ///< missing, corrupt, or made by a newer gpupeak
inline constexpr int kIncomplete = 4;     ///< under --strict: is_whole() of strict.h is false
inline constexpr int kOwnFailure = 125;   ///< of `run`: gpupeak itself failed
inline constexpr int kCannotExec = 126;   ///< of `run`: the program is there and cannot be run
inline constexpr int kNotFound = 127;     ///< of `run`: there is no such program
inline constexpr int kSignalBase = 128;   ///< of `run`: + the signal that ended the program

}  // namespace gpupeak::tools
