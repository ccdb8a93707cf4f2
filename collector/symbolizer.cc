#include "collector/symbolizer.h"

#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "collector/dwarf_functions.h"
#include "collector/function_names.h"
#include "collector/sanitize.h"

namespace gpupeak::collector {
namespace {

constexpr std::string_view kMissing = "GP025";
constexpr std::string_view kMismatch = "GP026";

std::string base_name(std::string_view path) {
  return sanitize(path.substr(path.rfind('/') + 1));
}

/// Code that the kernel or the program made: there is no file to look for.
bool has_no_file(std::string_view path) {
  return path.empty() || path.starts_with("[") || path.starts_with("linux-vdso") ||
         path.starts_with("linux-gate") || path.starts_with("/memfd:");
}

}  // namespace

/// The symbols of one module's file.
class Symbolizer::ModuleSymbols {
 public:
  enum class State { kUsable, kMissing, kMismatch };

  ModuleSymbols(const std::string& path, std::string_view build_id) { open(path, build_id); }
  ~ModuleSymbols() {
    functions_.reset();
    if (dwfl_ != nullptr) dwfl_end(dwfl_);
  }
  ModuleSymbols(const ModuleSymbols&) = delete;
  ModuleSymbols& operator=(const ModuleSymbols&) = delete;

  State state() const { return state_; }

  /// Frames at an ELF address, innermost first; empty if nothing is known of it.
  std::vector<DwarfFrame> frames_at(uint64_t address) {
    load();
    std::vector<DwarfFrame> frames;
    if (functions_) frames = functions_->frames_at(address - dwarf_bias_);
    const Symbol* symbol = symbol_at(address);
    if (frames.empty() && symbol != nullptr) frames.push_back({symbol->name, "", 0});
    if (!frames.empty() && symbol != nullptr) {
      // Debug information names local functions without their namespaces.
      std::string& outermost = frames.back().function;
      const bool mangled = std::string_view(symbol->name).starts_with("_Z");
      if (outermost.empty() || (mangled && !outermost.starts_with("_Z"))) outermost = symbol->name;
    }
    return frames;
  }

 private:
  struct Symbol {
    uint64_t begin, bytes;
    bool global;
    const char* name;
  };

  void open(const std::string& path, std::string_view build_id) {
    static char* debug_path = nullptr;  // libdwfl's default: beside the file, then /usr/lib/debug
    static const Dwfl_Callbacks callbacks{dwfl_build_id_find_elf, dwfl_standard_find_debuginfo,
                                          dwfl_offline_section_address, &debug_path};
    dwfl_ = dwfl_begin(&callbacks);
    if (dwfl_ == nullptr) return;
    dwfl_report_begin(dwfl_);
    // Base 0 and the file's own addresses: lookups then take plain ELF addresses.
    module_ = dwfl_report_elf(dwfl_, path.c_str(), path.c_str(), -1, 0, true);
    dwfl_report_end(dwfl_, nullptr, nullptr);
    Dwarf_Addr bias = 0;
    if (module_ == nullptr || dwfl_module_getelf(module_, &bias) == nullptr) return;
    const unsigned char* bits = nullptr;
    GElf_Addr where = 0;
    const int bytes = dwfl_module_build_id(module_, &bits, &where);
    const std::string_view found(reinterpret_cast<const char*>(bits),
                                 bytes > 0 ? static_cast<size_t>(bytes) : 0);
    state_ = build_id.empty() || found == build_id ? State::kUsable : State::kMismatch;
  }

  void load() {
    if (loaded_) return;
    loaded_ = true;
    const int count = dwfl_module_getsymtab(module_);
    for (int i = 1; i < count; ++i) {
      GElf_Sym symbol;
      GElf_Addr address = 0;
      GElf_Word section = 0;
      const char* name =
          dwfl_module_getsym_info(module_, i, &symbol, &address, &section, nullptr, nullptr);
      const int type = GELF_ST_TYPE(symbol.st_info);
      const bool code = type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE;
      if (name == nullptr || *name == 0 || *name == '$' || section == SHN_UNDEF || !code) continue;
      symbols_.push_back(
          {address, symbol.st_size, GELF_ST_BIND(symbol.st_info) != STB_LOCAL, name});
    }
    // Of several names for one address the last is used: a sized one, a global one, one that is not
    // marked as internal, the shortest.
    std::sort(symbols_.begin(), symbols_.end(), [](const Symbol& a, const Symbol& b) {
      if (a.begin != b.begin) return a.begin < b.begin;
      if ((a.bytes != 0) != (b.bytes != 0)) return b.bytes != 0;
      if (a.global != b.global) return b.global;
      if ((*a.name == '_') != (*b.name == '_')) return *a.name == '_';
      const size_t x = strlen(a.name);
      const size_t y = strlen(b.name);
      return x != y ? x > y : strcmp(a.name, b.name) > 0;
    });
    if (Dwarf* dwarf = dwfl_module_getdwarf(module_, &dwarf_bias_)) {
      functions_ = std::make_unique<DwarfFunctions>(dwarf);
    }
  }

  const Symbol* symbol_at(uint64_t address) const {
    auto next = std::upper_bound(symbols_.begin(), symbols_.end(), address,
                                 [](uint64_t value, const Symbol& s) { return value < s.begin; });
    if (next == symbols_.begin()) return nullptr;
    const Symbol& symbol = *std::prev(next);
    const bool inside = symbol.bytes == 0 || address - symbol.begin < symbol.bytes;
    return inside ? &symbol : nullptr;
  }

  Dwfl* dwfl_ = nullptr;
  Dwfl_Module* module_ = nullptr;
  State state_ = State::kMissing;
  bool loaded_ = false;
  Dwarf_Addr dwarf_bias_ = 0;
  std::vector<Symbol> symbols_;
  std::unique_ptr<DwarfFunctions> functions_;
};

Symbolizer::Symbolizer(const Definitions& definitions, bool look_up)
    : definitions_(definitions), look_up_(look_up) {}

Symbolizer::~Symbolizer() = default;

/// nullptr if there are no symbols to be had.
Symbolizer::ModuleSymbols* Symbolizer::symbols_of(uint32_t id) {
  const Module& module = definitions_.modules()[id];
  if (!look_up_ || id == 0 || has_no_file(module.path)) return nullptr;
  auto& symbols = modules_[id];
  if (!symbols) {
    symbols = std::make_unique<ModuleSymbols>(module.path, module.build_id);
    const std::string path = sanitize(module.path);
    if (symbols->state() == ModuleSymbols::State::kMissing) {
      warnings_.push_back(
          {std::string(kMissing), path + " cannot be read: its functions have no names"});
    } else if (symbols->state() == ModuleSymbols::State::kMismatch) {
      warnings_.push_back(
          {std::string(kMismatch),
           path + " is not the file that ran (other build-id): its functions have no names"});
    }
  }
  return symbols->state() == ModuleSymbols::State::kUsable ? symbols.get() : nullptr;
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
  frame.function = sanitize(definitions_.string(logged.function));
  if (frame.function.empty()) frame.function = "(unknown)";
  frame.file = sanitize(definitions_.string(logged.file));
  frame.module = base_name(frame.file);
  frame.line = logged.line <= INT32_MAX ? static_cast<int>(logged.line) : 0;
  return frame;
}

const ResolvedAddress& Symbolizer::resolve(uint32_t id) {
  const StackNode& node = definitions_.nodes()[id];
  auto [entry, added] = resolved_.try_emplace({node.ip, node.module});
  ResolvedAddress& resolved = entry->second;
  if (!added) return resolved;
  const PythonFrame* python = definitions_.python_frame(node);
  Frame frame = python != nullptr ? python_frame(*python) : native_frame(node);
  std::vector<DwarfFrame> found;
  // A return address points behind its call, which may be the last instruction of a function.
  if (ModuleSymbols* symbols = python == nullptr ? symbols_of(node.module) : nullptr)
    found = symbols->frames_at(frame.offset - 1);
  for (const DwarfFrame& part : found) {
    frame.function = sanitize(demangle(part.function));
    frame.file = sanitize(part.file);
    frame.line = part.line;
    resolved.frames.push_back(frame);
  }
  if (resolved.frames.empty()) resolved.frames.push_back(frame);
  for (const Frame& part : resolved.frames) {
    resolved.function_ids.push_back(function_id(part));
    resolved.plumbing.push_back(!part.is_python && is_plumbing(part.module, part.function));
  }
  return resolved;
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
