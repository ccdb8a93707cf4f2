// Names of addresses: function, file and line. attribution.h and the summary use it.
//
// in    an address of the run, and the module that was loaded there
// out   one frame, or several where functions were inlined, innermost first
//
//   0x7f31…a2c0 in libtorch_cpu.so, at +0x1fa2c0
//     → at::native::empty_cpu   TensorFactories.cpp:257
//
// Names come from the symbols that came with the log. Else libdw reads the module's file, if it is
// still the file that ran (by its build-id); if not, a warning says so. Only what is asked for is
// looked up, and it is kept; several processors share the work where many stacks are asked for.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "collector/log/definitions.h"
#include "collector/log/symbol_table.h"
#include "collector/summary/summary.h"
#include "collector/symbols/module_symbols.h"

namespace gpupeak::collector {

/// What a title needs to know of a frame.
struct FrameRole {
  bool plumbing = false;     ///< code that merely passes an allocation on
  bool landmark = false;     ///< to be shown in any case
  bool interpreter = false;  ///< Python's own native code
  bool start = false;        ///< what runs before main or before a thread's function
};

/// What a return address stands for: the function called from there first, then those that it was
/// inlined into.
struct ResolvedAddress {
  std::vector<Frame> frames;           ///< never empty
  std::vector<uint32_t> function_ids;  ///< beside frames: equal for equal functions
  std::vector<uint32_t> place_ids;     ///< beside frames: equal for equal lines; 0: none is known
  std::vector<Frame> plain_frames;     ///< with --confidential: `frames` with their names
  std::vector<FrameRole> roles;        ///< beside frames
  bool wants_file = false;             ///< its names were looked for in the module's file
  bool wanted = false;                 ///< somebody has asked for it
  /// Python's own native code and nothing else: where a stack has Python's frames, these say more.
  bool is_interpreter() const {
    return std::all_of(roles.begin(), roles.end(),
                       [](const FrameRole& role) { return role.interpreter; });
  }
  /// For rules that match names; not to be shown.
  const std::vector<Frame>& named_frames() const {
    return plain_frames.empty() ? frames : plain_frames;
  }
};

class Symbolizer {
 public:
  /// `known`: asked before any file; may be nullptr, and so may be `rules`.
  Symbolizer(const Definitions& definitions, const SymbolSearch& search,
             const SymbolTable* known = nullptr, const NameRules* rules = nullptr);
  ~Symbolizer();
  /// Writes names that were found into the user's cache, where that lacks them; so does the
  /// destructor.
  void keep_names();
  Symbolizer(const Symbolizer&) = delete;
  Symbolizer& operator=(const Symbolizer&) = delete;

  /// `node` is an index into Definitions::nodes(), not 0.
  const ResolvedAddress& resolve(uint32_t node);
  /// As if resolve() had been called for each node of these stacks. From then on several threads
  /// may ask resolve() for them at once.
  void resolve_all(std::span<const uint32_t> stacks);
  /// So that there is less to do later: all that the log defines, by so many threads, until they
  /// are stopped. Gives one node for each address, or none if it was stopped. From here to
  /// end_ahead() nobody is told of a module that is missing: he will be when he asks for it after
  /// that.
  std::vector<uint32_t> resolve_ahead(size_t threads, const std::stop_token& stop);
  void end_ahead() {
    if (telling_ == Telling::kLater) telling_ = Telling::kWhoAsks;
  }
  /// The functions at a node as the symbols name them, innermost first; empty if none are known.
  std::vector<DwarfFrame> look_up(uint32_t node);
  /// All frames of a stack, innermost first; empty for node 0.
  std::vector<Frame> stack(uint32_t node);

  /// When a module's file was last written, since 1970; none: it is not at hand as it ran.
  std::optional<int64_t> written_ns(uint32_t module);
  /// What stands before all paths of the log.
  const std::string& root() const { return search_.sysroot; }

  /// One for each module that could not be read or is not the file that ran.
  const std::vector<Warning>& warnings() const { return warnings_; }
  /// The same by module: SymbolTable::kMissing, kOtherBuild.
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

  /// Who is told what is missing.
  enum class Telling {
    kWhoAsks,
    kLater,   ///< nobody before end_ahead()
    kNobody,  ///< all nodes are known, and nothing is missing
  };

  /// Addresses that are not known yet, with all that depends on no other one.
  struct New {
    uint32_t node;
    ResolvedAddress* resolved;
    std::vector<DwarfFrame> known;
  };
  struct NewAddresses {
    std::vector<New> all;
    std::vector<std::vector<size_t>> of_module;  ///< places in `all`
  };
  void list(uint32_t node, NewAddresses& added);
  void describe_all(NewAddresses& added, size_t most_threads, const std::stop_token& stop);
  void forget_undescribed();
  void describe(uint32_t node, const std::vector<DwarfFrame>& known,
                ResolvedAddress& resolved) const;
  void finish(ResolvedAddress& resolved);
  void want(uint32_t node);
  std::vector<DwarfFrame> frames_of(uint32_t node, bool& wants_file);
  ModuleSymbols* symbols_of(uint32_t module);
  void set_version_of_whole(uint32_t module);
  void note_problem(uint32_t module);
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
  std::vector<ResolvedAddress*> of_node_;  ///< in resolved_; nullptr: not known yet
  std::vector<bool> stack_resolved_;       ///< by node: with all of its callers, by resolve_all()
  Telling telling_ = Telling::kWhoAsks;
  std::unordered_map<std::string, uint32_t> function_ids_;
  std::unordered_map<std::string, uint32_t> place_ids_;
  std::vector<Warning> warnings_;
  std::map<uint32_t, std::string_view> problems_;
};

}  // namespace gpupeak::collector
