// What NVML tells of a card. `gpupeak run` keeps a process that has NVML open, the card server, so
// that a short program does not pay for it: opening NVML takes 15 ms, and a process that has it
// open ends 10 ms later. The server is this library, run by the loader. It starts when the run's
// first process calls cuInit. Its socket has a name that the run's processes know.
//
//   cuInit               wake_card_server(): the run's helper becomes the server
//   a reading            a question with the card's names; the answer is what NVML says
//
// A process opens NVML itself where there is no server, where it does not answer in time, and after
// so many questions that they take longer than that.
#pragma once

#include "track/nvml.h"

namespace gpupeak::preload {

void wake_card_server();
/// From here on nothing is asked: a filter of system calls may end the process for it.
void leave_card_server();

/// By NVML in this process.
void* nvml_handle(int device);
/// As nvml_memory() and nvml_processes().
bool memory_of_card(int device, NvmlMemory& memory);
bool processes_of_card(int device, uint64_t most, bool with_graphics, NvmlProcesses& processes);

}  // namespace gpupeak::preload

/// Where the loader begins if it runs this library as a program: the server. Its socket is standard
/// input. It answers until the run is over, which kills it.
extern "C" [[noreturn]] void gpupeak_serve_cards();
