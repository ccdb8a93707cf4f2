// Tells the calls of one function apart where no lines do: a program built without debug
// information has all its buffers from "main". The summary and Profile ask for it once, before
// anything is named, and all rows, trees and exports follow, since the symbolizer then numbers
// these calls (Frame::call).
//
//   main 1.12 GiB   →   1st buffer of main (+0x13a1) 512 MiB
//                       2nd buffer of main (+0x13c7) 512 MiB
//                       3rd call in main (+0x140e)   128 MiB   in 4 blocks
#pragma once

#include "collector/analyze/site_titles.h"
#include "collector/replay/replay.h"

namespace gpupeak::collector {

/// A function's calls are told apart if two of them hold 5 % of a peak each. They are numbered in
/// the order of their code: first all that take memory of the driver's, then mappings, then heap
/// blocks. Heap blocks count where they hold something at a peak; whose function holds less than 1
/// MiB stay one row. Not `of_host`: only rows of devices will be shown.
void tell_calls_apart(const Replay& replay, SiteTitles& titles, bool of_host = true);

}  // namespace gpupeak::collector
