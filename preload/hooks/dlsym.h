// dlsym's assembler entry (dlsym_*.S) and its C++ half share this.
#pragma once

namespace gpupeak::preload {

/// Returned in two registers: the answer, or the real dlsym to jump to.
struct DlsymDecision {
  void* result;
  void* jump_to;  ///< not null: go there with the program's own arguments and return address
};

extern "C" DlsymDecision gpupeak_decide_dlsym(void* handle, const char* name, const void* caller);

}  // namespace gpupeak::preload
