#include "collector/symbols/symbolizer.h"

#include <elfutils/libdwfl.h>
#include <fmt/format.h>

#include "collector/log/parallel.h"
#include "collector/symbols/module_symbols.h"
#include "collector/text/function_names.h"
#include "collector/text/sanitize.h"
#include "collector/text/text_format.h"
#include "collector/text/work.h"

namespace gpupeak::collector {
namespace {

std::string shown_name(std::string_view path) {
  return escape(file_name(path));
}

/// Whether the kernel or the program made this code: there is no file to look for.
bool has_no_file(std::string_view path) {
  return path.empty() || path.starts_with("[") || path.starts_with("linux-vdso") ||
         path.starts_with("linux-gate");
}

/// With --confidential nothing is written to the cache.
SymbolSearch search_of(SymbolSearch search, const Definitions& definitions) {
  search.keep = search.keep && !definitions.sanitizer().is_confidential();
  return search;
}

}  // namespace

Symbolizer::Symbolizer(const Definitions& definitions, const SymbolSearch& search,
                       const SymbolTable* known, const NameRules* rules)
    : definitions_(definitions),
      search_(search_of(search, definitions)),
      known_(known),
      rules_(rules),
      modules_(definitions.modules().size()) {}

Symbolizer::~Symbolizer() = default;

void Symbolizer::keep_names() {
  for (const ModuleFile& module : modules_) {
    if (module.symbols != nullptr) module.symbols->keep_names();
  }
}

/// A library that is part of another one's release lies beside it and begins with its name:
/// libonnxruntime_providers_cuda.so, libonnxruntime.so.1.
void Symbolizer::set_version_of_whole(uint32_t id) {
  const std::string& path = definitions_.modules()[id].path;
  for (uint32_t other = 1; other < modules_.size(); ++other) {
    const std::string& whole = definitions_.modules()[other].path;
    const std::string stem = whole.substr(0, whole.find(".so", whole.rfind('/') + 1));
    if (other == id || stem.size() == whole.size() || !path.starts_with(stem + '_')) continue;
    if (ModuleSymbols* symbols = symbols_of(other))
      modules_[id].symbols->set_version(symbols->symbol_version());
    return;
  }
}

/// The symbols of a module; nullptr: there are none. Several threads may call it.
ModuleSymbols* Symbolizer::symbols_of(uint32_t id) {
  const Module& module = definitions_.modules()[id];
  if (!search_.files || id == 0 || has_no_file(module.path)) return nullptr;
  ModuleFile& file = modules_[id];
  std::call_once(file.looked_for, [&] {
    // The file at its path may be another one by now, and without a build-id nothing else tells.
    SymbolSearch search = search_;
    const std::string_view kept = known_ != nullptr ? known_->problem(module) : "";
    if (module.build_id.empty() && (kept == kKeptAtEnd || kept == SymbolTable::kOtherBuild))
      search.opened[without_deleted(module.path)];
    file.symbols = search_.cache && search.opened_for(module) == nullptr
                       ? search_.cache->of(module, search, rules_)
                       : std::make_shared<ModuleSymbols>(module, search, rules_);
    if (file.symbols->state() == ModuleSymbols::State::kUsable) set_version_of_whole(id);
  });
  return file.symbols->state() == ModuleSymbols::State::kUsable ? file.symbols.get() : nullptr;
}

std::optional<int64_t> Symbolizer::written_ns(uint32_t module) {
  const ModuleSymbols* symbols = symbols_of(module);
  return symbols != nullptr ? symbols->written_ns() : std::nullopt;
}

/// Warns of a module whose file was looked for and not found. If symbols came with the log and were
/// made where that file could be read, it is not missed here.
void Symbolizer::note_problem(uint32_t id) {
  ModuleFile& file = modules_[id];
  if (file.problem_noted || !file.wanted) return;
  file.problem_noted = true;
  if (id == 0) return note_made_code();
  const Module& module = definitions_.modules()[id];
  if (file.symbols->state() == ModuleSymbols::State::kUsable) {
    note_trouble(module, file.symbols->debug_trouble());
    return;
  }
  const bool is_missing = file.symbols->state() == ModuleSymbols::State::kMissing;
  const bool were_made = known_ != nullptr && (known_->is_of_this_log() || known_->knows(module));
  if (were_made && known_->problem(module).empty()) return;
  if (known_ != nullptr && known_->problem(module) == kKeptAtEnd) return;
  problems_.emplace(id, is_missing ? SymbolTable::kMissing : SymbolTable::kOtherBuild);
  const bool has_exports = known_ != nullptr && known_->problem(module) == kOnlyExported;
  const char* nameless = has_exports ? ": only the functions that it exports have names"
                                     : ": its functions have no names";
  const std::string path = definitions_.shown(module.path), name = shown_name(module.path);
  warnings_.push_back(
      is_missing ? Warning{WarningCode::kModuleMissing,
                           path +
                               (file.symbols->lacks_descriptors()
                                    ? " was not opened, since no more files may be open (ulimit -n)"
                                    : " cannot be read") +
                               nameless,
                           name}
                 : Warning{WarningCode::kModuleOfOtherBuild,
                           path + " is not the file that ran (other build-id)" + nameless, name});
}

/// Says how a runtime can be told to name the code that it makes, if the log has one that was not.
void Symbolizer::note_made_code() {
  struct Runtime {
    std::string_view module, option;
  };
  static constexpr Runtime kRuntimes[] = {
      {"node", "node --perf-basic-prof --interpreted-frames-native-stack"},
      {"libnode.so", "node --perf-basic-prof --interpreted-frames-native-stack"},
      {"libjvm.so",
       "java -XX:+PreserveFramePointer -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit (JDK "
       "17 and later; what it has compiled)"},
      {"libcoreclr.so", "DOTNET_PerfMapEnabled=1"}};
  const std::vector<Module>& modules = definitions_.modules();
  if (known_ != nullptr && known_->knows(modules[0])) return;
  for (const Module& module : modules) {
    for (const Runtime& runtime : kRuntimes) {
      if (!file_name(module.path).starts_with(runtime.module)) continue;
      warnings_.push_back({WarningCode::kMadeCodeUnnamed,
                           fmt::format("code that {} made as it ran has no names: run it with {}",
                                       shown_name(module.path), runtime.option),
                           ""});
      return;
    }
  }
}

void Symbolizer::note_trouble(const Module& module, const DebugTrouble& trouble) {
  using What = DebugTrouble::Kind;
  const std::string file = definitions_.shown(trouble.file);
  std::string why;
  switch (trouble.kind) {
    case What::kNone:
      return;
    case What::kSplitMissing:
      why = fmt::format(
          "{} of its files of debug information (.dwo) cannot be read, first {}: put them there, "
          "or build without -gsplit-dwarf",
          trouble.units, file);
      break;
    case What::kPackageUnread:
      why = fmt::format(
          "its debug information lies in {}, which elfutils {} cannot read (0.191 and later can): "
          "keep the .dwo files where the compiler puts them",
          file, dwfl_version(nullptr));
      break;
    case What::kCommonMissing:
      why = fmt::format(
          "its debug information refers to {} (dwz), which is not there, or is another build's: "
          "the package of its debug symbols has that, too",
          file);
      break;
    case What::kUnknownPacking:
      why = fmt::format(
          "{} has debug information that is packed in a way not known here (type {}): objcopy "
          "--decompress-debug-sections unpacks it",
          file, trouble.packing);
      break;
    case What::kDamaged:
      why = fmt::format("{} has debug information that is damaged: build or copy it again", file);
      break;
  }
  warnings_.push_back(
      {WarningCode::kDebugInfoNotRead,
       fmt::format("{} has no lines, or not all: {}", definitions_.shown(module.path), why),
       shown_name(module.path)});
}

uint32_t Symbolizer::function_id(const Frame& frame) {
  const bool by_file = frame.is_python || frame.name_source == NameSource::kPerfMap;
  std::string key = (by_file ? frame.file : frame.module) + '\0';
  key += frame.function.empty()
             ? std::to_string(frame.module.empty() ? frame.address : frame.offset)
             : frame.function;
  return function_ids_.try_emplace(std::move(key), static_cast<uint32_t>(function_ids_.size()))
      .first->second;
}

uint32_t Symbolizer::place_id(const Frame& frame) {
  if (frame.line <= 0) return 0;
  std::string key = frame.file + ':' + std::to_string(frame.line);
  return place_ids_.try_emplace(std::move(key), static_cast<uint32_t>(place_ids_.size()) + 1)
      .first->second;
}

Frame Symbolizer::native_frame(const StackNode& node) const {
  const Module& module = definitions_.modules()[node.module];
  Frame frame;
  frame.address = node.ip;
  if (node.module != 0) {
    frame.module = shown_name(module.path);
    frame.offset = node.ip - module.bias;
  }
  return frame;
}

Frame Symbolizer::python_frame(const PythonFrame& logged) const {
  Frame frame;
  frame.is_python = true;
  frame.name_source = NameSource::kPython;
  frame.function = escape(definitions_.string(logged.function));
  if (frame.function.empty()) frame.function = "(unknown)";
  frame.file = escape(definitions_.string(logged.file));
  frame.module = shown_name(frame.file);
  frame.line = logged.line <= INT32_MAX ? static_cast<int>(logged.line) : 0;
  return frame;
}

Frame Symbolizer::model_frame(const ModelFrame& named) {
  Frame frame;
  frame.name_source = named.source;
  frame.function = escape(named.function);
  frame.file = escape(named.file);
  frame.module = shown_name(named.file);
  return frame;
}

std::vector<DwarfFrame> Symbolizer::look_up(uint32_t id) {
  bool wants_file = false;
  std::vector<DwarfFrame> frames = frames_of(id, wants_file);
  const uint32_t module = definitions_.nodes()[id].module;
  modules_[module].wanted |= wants_file;
  note_problem(module);
  return frames;
}

/// The frames of a node. `wants_file` becomes true if the module's file was looked for. Several
/// threads may call it.
std::vector<DwarfFrame> Symbolizer::frames_of(uint32_t id, bool& wants_file) {
  const StackNode& node = definitions_.nodes()[id];
  if (!search_.files || definitions_.python_frame(node) != nullptr ||
      definitions_.model_frame(node) != nullptr)
    return {};
  const Module& module = definitions_.modules()[node.module];
  // A return address points behind its call, which may be the last instruction of a function: hence
  // - 1.
  const uint64_t address = node.ip - module.bias - 1;
  const std::vector<DwarfFrame>* known =
      known_ == nullptr ? nullptr : known_->find(module, address);
  // Names that a run kept come after the file, if a build-id tells whether it is still the file
  // that ran.
  if (known != nullptr && (module.build_id.empty() || !has_kept(*known_, module))) return *known;
  if (node.module == 0) {
    wants_file = node.ip != 0;
    return {};
  }
  ModuleSymbols* symbols = symbols_of(node.module);
  wants_file = modules_[node.module].symbols != nullptr;
  if (symbols == nullptr) return known != nullptr ? *known : std::vector<DwarfFrame>();
  ++work().names;
  return symbols->frames_at(address);
}

/// Callers that walk stacks ask for the same nodes again and again.
const ResolvedAddress& Symbolizer::resolve(uint32_t id) {
  if (id >= of_node_.size()) of_node_.resize(definitions_.nodes().size());
  if (of_node_[id] == nullptr) {
    const StackNode& node = definitions_.nodes()[id];
    const auto [entry, added] = resolved_.try_emplace({node.ip, node.module});
    of_node_[id] = &entry->second;
    if (added) {
      describe(id, frames_of(id, entry->second.wants_file), entry->second);
      finish(entry->second);
    }
  }
  if (!of_node_[id]->wanted) want(id);
  return *of_node_[id];
}

/// Notes that somebody asked for this node, so that a missing module is told.
void Symbolizer::want(uint32_t id) {
  const uint32_t module = definitions_.nodes()[id].module;
  of_node_[id]->wanted = true;
  modules_[module].wanted |= of_node_[id]->wants_file;
  note_problem(module);
}

void Symbolizer::resolve_all(std::span<const uint32_t> stacks) {
  const std::vector<StackNode>& nodes = definitions_.nodes();
  of_node_.resize(nodes.size());
  stack_resolved_.resize(nodes.size());
  NewAddresses added;
  std::vector<uint32_t> wanted;
  for (const uint32_t stack : stacks) {
    for (uint32_t id = stack; id != 0 && !stack_resolved_[id]; id = nodes[id].parent) {
      stack_resolved_[id] = true;
      if (of_node_[id] == nullptr) list(id, added);
      if (std::exchange(of_node_[id]->wanted, true)) continue;
      wanted.push_back(id);
    }
  }
  describe_all(added);
  // Warnings come in the same order with any number of threads, and are of all files that were
  // looked for.
  for (const uint32_t id : wanted) modules_[nodes[id].module].wanted |= of_node_[id]->wants_file;
  for (const uint32_t id : wanted) note_problem(nodes[id].module);
}

void Symbolizer::list(uint32_t id, NewAddresses& added) {
  const StackNode& node = definitions_.nodes()[id];
  const auto [entry, is_new] = resolved_.try_emplace({node.ip, node.module});
  of_node_[id] = &entry->second;
  if (!is_new) return;
  added.of_module.resize(modules_.size());
  added.of_module[node.module].push_back(added.all.size());
  added.all.push_back({id, &entry->second, {}});
}

void Symbolizer::describe_all(NewAddresses& added) {
  constexpr size_t kPiece = 64;
  std::vector<New>& all = added.all;
  // One thread at a time reads a module's file, so the module with the most addresses is begun
  // first.
  std::ranges::sort(added.of_module, std::greater(), [](const auto& of) { return of.size(); });
  const auto read = [&](size_t begin, size_t /*end*/) {
    for (const size_t i : added.of_module[begin])
      all[i].known = frames_of(all[i].node, all[i].resolved->wants_file);
  };
  in_parallel(added.of_module.size(), 1, read);
  const auto describe_some = [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) describe(all[i].node, all[i].known, *all[i].resolved);
  };
  in_parallel(all.size(), kPiece, describe_some);
  // Numbers are given in the same order with any number of threads.
  for (const New& one : all) finish(*one.resolved);
}

/// Finds all of an address that does not depend on others. Several threads may call it, each for
/// another address.
void Symbolizer::describe(uint32_t id, const std::vector<DwarfFrame>& known,
                          ResolvedAddress& resolved) const {
  const StackNode& node = definitions_.nodes()[id];
  const PythonFrame* python = definitions_.python_frame(node);
  const ModelFrame* model = definitions_.model_frame(node);
  Frame frame = python != nullptr  ? python_frame(*python)
                : model != nullptr ? model_frame(*model)
                                   : native_frame(node);
  for (const DwarfFrame& part : known) {
    frame.function = escape(demangle(part.function));
    frame.file = escape(part.file);
    frame.line = part.line;
    frame.name_source = part.source;
    // Files within a runtime have no folder: "node:internal/main/run_main_module".
    if (part.source == NameSource::kPerfMap)
      frame.module = part.file.starts_with("node:") ? frame.file : shown_name(part.file);
    resolved.frames.push_back(frame);
  }
  if (resolved.frames.empty()) resolved.frames.push_back(frame);
  for (const Frame& part : resolved.frames) {
    FrameRole& role = resolved.roles.emplace_back();
    role.start = is_start_code(part.function);
    if (part.is_python) {
      role.plumbing = rules_ != nullptr && rules_->is_plumbing_file(part.module);
      continue;
    }
    role.interpreter = is_python_interpreter(part.module, part.function);
    role.plumbing = (rules_ != nullptr && rules_->is_plumbing(part.module, part.function)) ||
                    is_plumbing(part.module, part.function);
    role.landmark = rules_ != nullptr && rules_->is_landmark(part.module, part.function);
  }
}

/// The rest, which several threads may not do at once.
void Symbolizer::finish(ResolvedAddress& resolved) {
  for (const Frame& part : resolved.frames) {
    resolved.function_ids.push_back(function_id(part));
    resolved.place_ids.push_back(place_id(part));
  }
  set_calls(resolved);
  const Sanitizer& sanitizer = definitions_.sanitizer();
  if (!sanitizer.is_confidential()) return;
  resolved.plain_frames = resolved.frames;
  for (Frame& shown : resolved.frames) {
    shown.module = sanitizer.text(shown.module);
    shown.function = sanitizer.text(shown.function);
    shown.file = sanitizer.text(shown.file);
  }
}

void Symbolizer::set_calls(ResolvedAddress& resolved) {
  if (apart_.empty()) return;
  for (size_t i = 0; i < resolved.frames.size(); ++i) {
    Frame& frame = resolved.frames[i];
    if (!apart_.contains(resolved.function_ids[i]) || resolved.place_ids[i] != 0) continue;
    const auto known = numbers_.find({resolved.function_ids[i], frame.address});
    if (known == numbers_.end()) continue;
    frame.call = known->second.number;
    frame.one_block = known->second.one_block;
    resolved.place_ids[i] = place_ids_
                                .try_emplace(std::to_string(frame.address),
                                             static_cast<uint32_t>(place_ids_.size()) + 1)
                                .first->second;
  }
}

void Symbolizer::tell_calls_apart(std::set<uint32_t> functions, CallNumbers numbers) {
  apart_ = std::move(functions);
  numbers_ = std::move(numbers);
  for (auto& [key, resolved] : resolved_) {
    if (resolved.function_ids.size() == resolved.frames.size()) set_calls(resolved);
  }
}

std::vector<Frame> Symbolizer::stack(uint32_t node) {
  std::vector<Frame> frames;
  for (; node != 0; node = definitions_.nodes()[node].parent) {
    const ResolvedAddress& resolved = resolve(node);
    frames.insert(frames.end(), resolved.frames.begin(), resolved.frames.end());
  }
  return frames;
}

}  // namespace gpupeak::collector
