// Finds the names of addresses: function, file and line. attribution.h and the summary use it.
//
// in    an address of the run, and the module that was loaded there
// out   one frame, or several where functions were inlined, innermost first
//
//   0x7f31…a2c0 in libtorch_cpu.so, at +0x1fa2c0
//     → at::native::empty_cpu   TensorFactories.cpp:257
//
// Names come from the symbols that came with the log. Without them, libdw reads the module's file
// if it is still the file that ran (by its build-id); if it is not, a warning says so. Names that
// `gpupeak run` kept are used only if that file is not there any more. Only what is asked for is
// looked up, and it is kept. Several processors share the work where many stacks are asked for.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "collector/log/definitions.h"
#include "collector/log/symbol_table.h"
#include "collector/summary/summary.h"
#include "collector/symbols/debug_files.h"
#include "collector/symbols/name_rules.h"

namespace gpupeak::collector {

struct DebugTrouble;
class ModuleSymbols;

/// What a title needs to know of a frame.
struct FrameRole {
  bool plumbing = false;     ///< code that only passes an allocation on
  bool landmark = false;     ///< a title shows it wherever it is in the stack
  bool interpreter = false;  ///< Python's own native code
  bool start = false;        ///< runs before main or before a thread's function
};

/// Which call of its function a return address is.
struct CallNumber {
  uint32_t number = 0;     ///< from 1 on, in the order of the code
  bool one_block = false;  ///< memory was taken there once
};
/// By function and return address.
using CallNumbers = std::map<std::pair<uint32_t, uint64_t>, CallNumber>;

/// What a return address stands for: the function that has the call, and those into which it is
/// inlined, innermost first.
struct ResolvedAddress {
  std::vector<Frame> frames;           ///< never empty
  std::vector<uint32_t> function_ids;  ///< for each frame; equal for equal functions
  std::vector<uint32_t> place_ids;  ///< for each frame; equal for equal lines; 0: no line is known
  std::vector<Frame> plain_frames;  ///< with --confidential: the frames with their names
  std::vector<FrameRole> roles;     ///< beside frames
  bool wants_file = false;          ///< names were looked for in the module's file
  bool wanted = false;              ///< somebody asked for it
  /// Whether all frames are Python's own native code. Where a stack has Python frames, those say
  /// more.
  bool is_interpreter() const {
    return std::ranges::all_of(roles, [](const FrameRole& role) { return role.interpreter; });
  }
  /// The frames for rules that match names. They must not be shown.
  const std::vector<Frame>& named_frames() const {
    return plain_frames.empty() ? frames : plain_frames;
  }
};

class Symbolizer {
 public:
  /// `known`: symbols that came with the log. `known` and `rules` may be nullptr.
  Symbolizer(const Definitions& definitions, const SymbolSearch& search,
             const SymbolTable* known = nullptr, const NameRules* rules = nullptr);
  ~Symbolizer();
  /// Writes names that are new into the user's cache. The destructor does it, too.
  void keep_names();
  Symbolizer(const Symbolizer&) = delete;
  Symbolizer& operator=(const Symbolizer&) = delete;

  /// `node` is an index into Definitions::nodes(), not 0.
  const ResolvedAddress& resolve(uint32_t node);
  /// Does what resolve() does, for each node of these stacks. After that, several threads may call
  /// resolve() for these nodes at once.
  void resolve_all(std::span<const uint32_t> stacks);
  /// From now on, calls of these functions that have no line have a place each, and the numbers
  /// given here.
  void tell_calls_apart(std::set<uint32_t> functions, CallNumbers numbers);
  bool tells_calls_apart() const { return !apart_.empty(); }
  /// The functions at a node, as the symbols name them, innermost first; empty if none are known.
  std::vector<DwarfFrame> look_up(uint32_t node);
  /// All frames of a stack, innermost first; empty for node 0.
  std::vector<Frame> stack(uint32_t node);

  /// When a module's file was last written, since 1970. None: the file that ran is not there.
  std::optional<int64_t> written_ns(uint32_t module);
  /// What is put before all paths of the log.
  const std::string& root() const { return search_.sysroot; }

  /// One for each module that could not be read or is not the file that ran.
  const std::vector<Warning>& warnings() const { return warnings_; }
  /// The same, by module: SymbolTable::kMissing, kOtherBuild.
  const std::map<uint32_t, std::string_view>& problems() const { return problems_; }

 private:
  struct Key {
    uint64_t ip;
    uint32_t module;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const {
      return static_cast<size_t>((key.ip ^ static_cast<uint64_t>(key.module) << 48) *
                                 UINT64_C(0x9e3779b97f4a7c15));
    }
  };

  /// The symbols of a module of the log, once its file was looked for.
  struct ModuleFile {
    std::once_flag looked_for;
    std::shared_ptr<ModuleSymbols> symbols;
    bool wanted = false;
    bool problem_noted = false;
  };

  /// Addresses that are not known yet, with all that can be found without the others.
  struct New {
    uint32_t node;
    ResolvedAddress* resolved;
    std::vector<DwarfFrame> known;
  };
  struct NewAddresses {
    std::vector<New> all;
    std::vector<std::vector<size_t>> of_module;  ///< indexes into `all`
  };
  void list(uint32_t node, NewAddresses& added);
  void describe_all(NewAddresses& added);
  void describe(uint32_t node, const std::vector<DwarfFrame>& known,
                ResolvedAddress& resolved) const;
  void finish(ResolvedAddress& resolved);
  void set_calls(ResolvedAddress& resolved);
  void want(uint32_t node);
  std::vector<DwarfFrame> frames_of(uint32_t node, bool& wants_file);
  ModuleSymbols* symbols_of(uint32_t module);
  void set_version_of_whole(uint32_t module);
  void note_problem(uint32_t module);
  void note_made_code();
  void note_trouble(const Module& module, const DebugTrouble& trouble);
  uint32_t function_id(const Frame& frame);
  uint32_t place_id(const Frame& frame);
  Frame native_frame(const StackNode& node) const;
  Frame python_frame(const PythonFrame& logged) const;
  static Frame model_frame(const ModelFrame& named);

  const Definitions& definitions_;
  const SymbolSearch search_;
  const SymbolTable* known_;
  const NameRules* rules_;
  std::vector<ModuleFile> modules_;  ///< by module
  std::unordered_map<Key, ResolvedAddress, KeyHash> resolved_;
  std::vector<ResolvedAddress*> of_node_;  ///< points into resolved_; nullptr: not known yet
  /// By node: resolve_all() has resolved it and all its callers.
  std::vector<bool> stack_resolved_;
  std::unordered_map<std::string, uint32_t> function_ids_;
  std::unordered_map<std::string, uint32_t> place_ids_;
  std::set<uint32_t> apart_;  ///< functions whose calls are told apart without lines
  CallNumbers numbers_;
  std::vector<Warning> warnings_;
  std::map<uint32_t, std::string_view> problems_;
};

}  // namespace gpupeak::collector
