// The settings in GPUPEAK_* variables. Read once, when the process decides whether to record.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/compiler.h"
#include "base/text.h"
#include "gpupeak/log_format.h"

namespace gpupeak::preload {

/// GPUPEAK_LAST_USE: what is recorded of the use of device memory.
enum class UseRecording : uint8_t {
  kOff,
  kRoles,  ///< what the driver's blocks are used for; of launches a sample where they are many
  kAll     ///< each use, of blocks that frameworks' allocators give, too
};

enum class Children : uint8_t { kGpu, kAll, kNone };

/// The limit of a device that is to look smaller than it is.
struct CardLimit {
  uint64_t bytes = 0;  ///< 0: none
  Text<48> name;       ///< the card that the device is to look like; empty: none
};

/// The settings that take little room.
struct Settings {
  uint32_t host_mode = GPUPEAK_HOST_AUTO;  ///< GPUPEAK_HOST, enum gpupeak_host_mode
  uint64_t sample_bytes = 0;               ///< GPUPEAK_SAMPLE; 0: the default of host_mode
  uint64_t log_max_bytes = 1 << 30;        ///< GPUPEAK_LOG_MAX; off: the largest number
  Children children = Children::kGpu;      ///< GPUPEAK_CHILDREN
  /// GPUPEAK_KEEP_PRELOAD=off: a program that is started without the library does not get it.
  bool keep_preload = true;
  bool ledger = true;          ///< GPUPEAK_LEDGER=off: the driver is not asked for its figures
  uint32_t ledger_hz = 10;     ///< GPUPEAK_LEDGER_HZ: readings between the causes; 0: none
  bool verify_stacks = false;  ///< GPUPEAK_VERIFY_STACKS=1: check each cached stack by unwinding
  bool python = true;          ///< GPUPEAK_PYTHON=off: no Python frames
  bool quiet = false;          ///< GPUPEAK_QUIET=1: no line on stderr, ever
  bool nvtx = true;            ///< GPUPEAK_NVTX=off: the library is not NVTX's tool
  bool arenas = true;          ///< GPUPEAK_POOLS=off: frameworks' allocators are left alone
  UseRecording uses = UseRecording::kRoles;  ///< GPUPEAK_LAST_USE
  bool ort_nodes = false;    ///< GPUPEAK_ORT_NODES=1: sessions of ONNX Runtime write a profile
  bool stamp_all = false;    ///< GPUPEAK_STAMP_ALL=1: a time on each event, with one thread too
  bool summary = true;       ///< GPUPEAK_SUMMARY=off: none at exit
  uint64_t run_id = 0;       ///< GPUPEAK_RUN_ID: a secret of one run's processes; 0: none
  uint32_t log_mode = 0600;  ///< GPUPEAK_LOG_MODE: who may read logs, which hold arguments
  CardLimit limit;           ///< GPUPEAK_LIMIT=24GiB: of each device without a limit of its own
  CardLimit device_limits[GPUPEAK_LOG_MAX_DEVICES];  ///< GPUPEAK_LIMIT=0=24GiB,1=16GiB
  int run_pid = 0;      ///< GPUPEAK_RUN_PID: what `gpupeak run` started; 0: not said
  int rank = -1;        ///< of the MPI or torchrun launcher
  Text<512> complaint;  ///< variables that were not understood; empty: none
};

struct Environment : Settings {
  // These are long; only their beginnings are touched.
  Path children_pattern;  ///< GPUPEAK_CHILDREN_OUT; empty: as out_pattern
  Path out_pattern;       ///< GPUPEAK_OUT
};

const Environment& environment();
/// Whether any device has a limit.
extern constinit GPUPEAK_OWN bool g_has_limits;
/// The process's variables. While a process without any is decided about, they are those that it
/// began with: the loader allocates before libc begins, if a library audits it, and a program may
/// have cleared them before it forked. nullptr: there are none.
char** variables();
/// The decision is made: from here on only libc's variables count.
void forget_early_variables();
/// Reads the variables; false if there are none.
bool read_environment();
/// Sets the environment for a program that ran before we were loaded (`gpupeak attach`). Its
/// variables are not meant for us. We record only what was asked for from outside, print nothing
/// and leave its children alone.
void set_environment_of_attached(std::string_view out_pattern);
/// The value of `name`, or empty. Never through getenv, which a program may define.
std::string_view variable(std::string_view name);

}  // namespace gpupeak::preload
