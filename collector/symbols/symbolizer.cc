#include "collector/symbols/symbolizer.h"

#include <algorithm>
#include <string_view>

#include "collector/log/parallel.h"
#include "collector/symbols/module_cache.h"
#include "collector/symbols/module_symbols.h"
#include "collector/text/function_names.h"
#include "collector/text/sanitize.h"

namespace gpupeak::collector {
namespace {

constexpr std::string_view kMissing = "GP025";
constexpr std::string_view kMismatch = "GP026";

std::string base_name(std::string_view path) {
  return escape(path.substr(path.rfind('/') + 1));
}

/// Code that the kernel or the program made: there is no file to look for.
bool has_no_file(std::string_view path) {
  return path.empty() || path.starts_with("[") || path.starts_with("linux-vdso") ||
         path.starts_with("linux-gate") || path.starts_with("/memfd:");
}

}  // namespace

Symbolizer::Symbolizer(const Definitions& definitions, const SymbolSearch& search,
                       const SymbolTable* known, const NameRules* rules)
    : definitions_(definitions),
      search_(search),
      known_(known),
      rules_(rules),
      modules_(definitions.modules().size()) {}

Symbolizer::~Symbolizer() = default;

/// nullptr if there are no symbols to be had. Several threads may ask.
ModuleSymbols* Symbolizer::symbols_of(uint32_t id) {
  const Module& module = definitions_.modules()[id];
  if (!search_.files || id == 0 || has_no_file(module.path)) return nullptr;
  ModuleFile& file = modules_[id];
  std::call_once(file.looked_for, [&] {
    file.symbols = search_.cache ? search_.cache->of(module, search_, rules_)
                                 : std::make_shared<ModuleSymbols>(module, search_, rules_);
  });
  return file.symbols->state() == ModuleSymbols::State::kUsable ? file.symbols.get() : nullptr;
}

/// If the module was looked for in vain. Symbols that came with the log were made where its files
/// were: a file that could be read there is not missed here.
void Symbolizer::note_problem(uint32_t id) {
  ModuleFile& file = modules_[id];
  if (file.problem_noted || !file.symbols) return;
  file.problem_noted = true;
  if (file.symbols->state() == ModuleSymbols::State::kUsable) return;
  const Module& module = definitions_.modules()[id];
  const bool is_missing = file.symbols->state() == ModuleSymbols::State::kMissing;
  const bool were_made = known_ != nullptr && (known_->is_of_this_log() || known_->knows(module));
  if (were_made && known_->problem(module).empty()) return;
  problems_.emplace(id, is_missing ? SymbolTable::kMissing : SymbolTable::kOtherBuild);
  const std::string path = definitions_.shown(module.path);
  warnings_.push_back(
      is_missing
          ? Warning{std::string(kMissing), path + " cannot be read: its functions have no names"}
          : Warning{std::string(kMismatch), path + " is not the file that ran (other "
                                                   "build-id): its functions have no names"});
}

uint32_t Symbolizer::function_id(const Frame& frame) {
  std::string key = (frame.is_python ? frame.file : frame.module) + '\0';
  key += frame.function.empty()
             ? std::to_string(frame.module.empty() ? frame.address : frame.offset)
             : frame.function;
  return function_ids_.try_emplace(std::move(key), static_cast<uint32_t>(function_ids_.size()))
      .first->second;
}

Frame Symbolizer::native_frame(const StackNode& node) const {
  const Module& module = definitions_.modules()[node.module];
  Frame frame;
  frame.address = node.ip;
  if (node.module != 0) {
    frame.module = base_name(module.path);
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
  frame.module = base_name(frame.file);
  frame.line = logged.line <= INT32_MAX ? static_cast<int>(logged.line) : 0;
  return frame;
}

std::vector<DwarfFrame> Symbolizer::look_up(uint32_t id) {
  std::vector<DwarfFrame> frames = frames_of(id);
  note_problem(definitions_.nodes()[id].module);
  return frames;
}

/// Several threads may ask.
std::vector<DwarfFrame> Symbolizer::frames_of(uint32_t id) {
  const StackNode& node = definitions_.nodes()[id];
  if (!search_.files || node.module == 0 || definitions_.python_frame(node) != nullptr) return {};
  const Module& module = definitions_.modules()[node.module];
  // A return address points behind its call, which may be the last instruction of a function.
  const uint64_t address = node.ip - module.bias - 1;
  if (known_ != nullptr) {
    if (const std::vector<DwarfFrame>* frames = known_->find(module, address)) return *frames;
  }
  ModuleSymbols* symbols = symbols_of(node.module);
  return symbols != nullptr ? symbols->frames_at(address) : std::vector<DwarfFrame>{};
}

/// Whoever walks stacks asks for the same nodes again and again.
const ResolvedAddress& Symbolizer::resolve(uint32_t id) {
  if (id >= of_node_.size()) of_node_.resize(definitions_.nodes().size());
  if (of_node_[id] == nullptr) {
    const StackNode& node = definitions_.nodes()[id];
    const auto [entry, added] = resolved_.try_emplace({node.ip, node.module});
    of_node_[id] = &entry->second;
    if (added) {
      describe(id, frames_of(id), entry->second);
      finish(id, entry->second);
    }
  }
  return *of_node_[id];
}

void Symbolizer::resolve_all(std::span<const uint32_t> stacks) {
  constexpr size_t kPiece = 64;
  const std::vector<StackNode>& nodes = definitions_.nodes();
  of_node_.resize(nodes.size());
  stack_resolved_.resize(nodes.size());
  struct New {
    uint32_t node;
    ResolvedAddress* resolved;
    std::vector<DwarfFrame> known;
  };
  std::vector<New> added;
  std::vector<std::vector<size_t>> of_module(modules_.size());
  for (const uint32_t stack : stacks) {
    for (uint32_t id = stack; id != 0 && !stack_resolved_[id]; id = nodes[id].parent) {
      stack_resolved_[id] = true;
      if (of_node_[id] != nullptr) continue;
      const auto [entry, is_new] = resolved_.try_emplace({nodes[id].ip, nodes[id].module});
      of_node_[id] = &entry->second;
      if (!is_new) continue;
      of_module[nodes[id].module].push_back(added.size());
      added.push_back({id, &entry->second, {}});
    }
  }
  // Of a module's file one thread reads at a time: the largest are begun first.
  std::sort(of_module.begin(), of_module.end(),
            [](const auto& a, const auto& b) { return a.size() > b.size(); });
  in_parallel(of_module.size(), 1, [&](size_t begin, size_t /*end*/) {
    for (const size_t i : of_module[begin]) added[i].known = frames_of(added[i].node);
  });
  in_parallel(added.size(), kPiece, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i)
      describe(added[i].node, added[i].known, *added[i].resolved);
  });
  // Numbers and warnings in the same order, however many threads there were.
  for (const New& one : added) finish(one.node, *one.resolved);
}

/// All but what depends on others. Several threads may ask, each for another address.
void Symbolizer::describe(uint32_t id, const std::vector<DwarfFrame>& known,
                          ResolvedAddress& resolved) const {
  const StackNode& node = definitions_.nodes()[id];
  const PythonFrame* python = definitions_.python_frame(node);
  Frame frame = python != nullptr ? python_frame(*python) : native_frame(node);
  for (const DwarfFrame& part : known) {
    frame.function = escape(demangle(part.function));
    frame.file = escape(part.file);
    frame.line = part.line;
    frame.name_source = part.source;
    resolved.frames.push_back(frame);
  }
  if (resolved.frames.empty()) resolved.frames.push_back(frame);
  for (const Frame& part : resolved.frames) {
    FrameRole& role = resolved.roles.emplace_back();
    role.start = is_start_code(part.function);
    if (part.is_python) continue;
    role.interpreter = is_python_interpreter(part.module, part.function);
    role.plumbing = (rules_ != nullptr && rules_->is_plumbing(part.module, part.function)) ||
                    is_plumbing(part.module, part.function);
    role.landmark = rules_ != nullptr && rules_->is_landmark(part.module, part.function);
  }
}

void Symbolizer::finish(uint32_t id, ResolvedAddress& resolved) {
  note_problem(definitions_.nodes()[id].module);
  for (const Frame& part : resolved.frames) resolved.function_ids.push_back(function_id(part));
  const Sanitizer& sanitizer = definitions_.sanitizer();
  if (!sanitizer.is_confidential()) return;
  resolved.plain_frames = resolved.frames;
  for (Frame& shown : resolved.frames) {
    shown.module = sanitizer.text(shown.module);
    shown.function = sanitizer.text(shown.function);
    shown.file = sanitizer.text(shown.file);
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
