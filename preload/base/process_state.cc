#include "base/process_state.h"

#include "base/compiler.h"

namespace gpupeak::preload {

alignas(4096) constinit ProcessPage g_first_page{};
GPUPEAK_HOT_DATA constinit ProcessPage* g_process = &g_first_page;
constinit bool g_children_know = false;

}  // namespace gpupeak::preload
