#include "collector/symbols/keep_names.h"

#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "collector/symbols/symbolizer.h"
#include "collector/text/function_names.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {
namespace {

using Clock = std::chrono::steady_clock;

/// Opening a file of this size takes a while, in which nothing else is kept. The first look-up
/// takes a second for each kBytesPerSecond in a file with much debug information, and a tenth of
/// that in others.
constexpr uint64_t kLargeFileBytes = 32 << 20, kBytesPerSecond = 256 << 20;

bool has_time_for(uint64_t file_bytes, Clock::time_point until) {
  const double seconds = static_cast<double>(file_bytes) / kBytesPerSecond;
  return std::chrono::duration<double>(until - Clock::now()).count() > seconds;
}

struct WantedModule {
  uint32_t module = 0;
  uint64_t file_bytes = 0;
  std::vector<uint32_t> nodes;  ///< one for each address
};

/// The modules by the sizes of their files. First what the program made as it ran, if it has names.
std::vector<WantedModule> wanted_modules(const LogReader& log, const NamesBudget& budget) {
  const Definitions& definitions = log.definitions();
  const bool has_made = log.symbols().knows(definitions.modules()[0]);
  std::map<uint32_t, WantedModule> by_module;
  std::set<std::pair<uint32_t, uint64_t>> seen;
  for (uint32_t id = 1; id < definitions.nodes().size(); ++id) {
    const StackNode& node = definitions.nodes()[id];
    if (definitions.python_frame(node) != nullptr) continue;
    const Module& module = definitions.modules()[node.module];
    const std::string& path = module.path;
    if (file_name(path).starts_with(kOwnModule)) continue;  // no report shows them
    const bool is_gone = budget.search.opened_for(module) != nullptr;
    const bool is_file =
        is_gone || (path.starts_with('/') && (budget.of_system || !is_of_system(path)));
    if (is_gone != budget.gone_alone || (node.module == 0 ? !has_made : !is_file)) continue;
    if (seen.emplace(node.module, node.ip).second) by_module[node.module].nodes.push_back(id);
  }
  std::vector<WantedModule> wanted;
  for (auto& [module, one] : by_module) {
    struct stat file {};
    const Module& of = definitions.modules()[module];
    const std::vector<std::string>* held = budget.search.opened_for(of);
    const std::string& path = held == nullptr || held->empty() ? of.path : held->front();
    if (module != 0 && stat(path.c_str(), &file) != 0 && held == nullptr) continue;
    one.module = module;
    one.file_bytes = static_cast<uint64_t>(file.st_size);
    wanted.push_back(std::move(one));
  }
  std::ranges::stable_sort(wanted, {}, &WantedModule::file_bytes);
  return wanted;
}

/// Adds up about how much text the table is.
class TableSize {
 public:
  uint64_t bytes() const { return bytes_; }
  void add(const std::vector<DwarfFrame>& frames) {
    constexpr uint64_t kNumbers = 16, kQuotes = 3;
    bytes_ += kNumbers;
    for (const DwarfFrame& frame : frames) {
      bytes_ += kNumbers;
      for (const std::string* text : {&frame.function, &frame.file}) {
        if (texts_.insert(*text).second) bytes_ += text->size() + kQuotes;
      }
    }
  }

 private:
  uint64_t bytes_ = 0;
  std::set<std::string> texts_;
};

class NamesKeeper {
 public:
  NamesKeeper(const LogReader& log, const NameRules& rules, const NamesBudget& budget)
      : definitions_(log.definitions()),
        made_(log.symbols()),
        symbolizer_(definitions_, budget.search, nullptr, &rules),
        budget_(budget) {
    if (!budget.search.opened.empty()) kept_.table = made_;  // what an earlier call has kept
  }

  void keep(const WantedModule& wanted) {
    const Module& module = definitions_.modules()[wanted.module];
    std::vector<std::pair<uint64_t, std::vector<DwarfFrame>>> found;
    TableSize size = size_;
    bool all = true;
    for (const uint32_t id : wanted.nodes) {
      if (Clock::now() >= budget_.until || size.bytes() > budget_.bytes) {
        all = false;
        ++kept_.left_out;
        break;
      }
      std::vector<DwarfFrame> frames = frames_of(id);
      if (frames.empty()) continue;
      size.add(frames);
      found.emplace_back(definitions_.nodes()[id].ip - module.bias - 1, std::move(frames));
    }
    // It has no symbols, or is no longer the file that ran. Where no build-id tells that to
    // reports, this does.
    if (found.empty()) {
      if (!module.build_id.empty() || budget_.search.opened_for(module) == nullptr) return;
      kept_.table.add_problem(module, SymbolTable::kOtherBuild);
      ++kept_.modules;
      return;
    }
    size_ = std::move(size);
    ++kept_.modules;
    kept_modules_.insert(wanted.module);
    for (auto& [address, frames] : found) kept_.table.add(module, address, std::move(frames));
    kept_.table.add_problem(module, all ? kKeptAtEnd : kKeptInPart);
  }

  /// What there is so far. Modules that are not in it are marked as not kept, so that nobody takes
  /// them for modules without names.
  KeptNames result() const {
    KeptNames result = kept_;
    for (uint32_t id = 1; id < definitions_.modules().size(); ++id) {
      const Module& module = definitions_.modules()[id];
      if (!kept_modules_.contains(id) && !result.table.knows(module))
        result.table.add_problem(module, kNotKept);
    }
    return result;
  }

 private:
  /// What the program made as it ran has names that came with the log, and no file.
  std::vector<DwarfFrame> frames_of(uint32_t id) {
    const StackNode& node = definitions_.nodes()[id];
    if (node.module != 0) return symbolizer_.look_up(id);
    const std::vector<DwarfFrame>* made = made_.find(definitions_.modules()[0], node.ip - 1);
    return made != nullptr ? *made : std::vector<DwarfFrame>();
  }

  const Definitions& definitions_;
  const SymbolTable& made_;
  Symbolizer symbolizer_;
  const NamesBudget& budget_;
  KeptNames kept_;
  std::set<uint32_t> kept_modules_;
  TableSize size_;
};

constexpr size_t kProgressStep = 256;

}  // namespace

KeptNames keep_names(const LogReader& log, const NameRules& rules, const NamesBudget& budget,
                     const std::function<void(const KeptNames&)>& before_large) {
  NamesKeeper keeper(log, rules, budget);
  bool has_told = false;
  for (const WantedModule& wanted : wanted_modules(log, budget)) {
    const bool is_large = wanted.file_bytes >= kLargeFileBytes;
    if (is_large && !budget.large_files && !has_time_for(wanted.file_bytes, budget.until))
      break;  // those behind it are larger still
    if (is_large && before_large && !std::exchange(has_told, true)) before_large(keeper.result());
    keeper.keep(wanted);
  }
  return keeper.result();
}

Symbolized symbolize(const LogReader& log, const SymbolSearch& search, const NameRules& rules,
                     const Progress& progress) {
  const Definitions& definitions = log.definitions();
  Symbolizer symbolizer(definitions, search, &log.symbols(), &rules);
  Symbolized result;
  std::set<std::pair<uint32_t, uint64_t>> seen;
  for (uint32_t id = 1; id < definitions.nodes().size(); ++id) {
    if (progress && id % kProgressStep == 0) progress(id, definitions.nodes().size());
    const StackNode& node = definitions.nodes()[id];
    if (definitions.python_frame(node) != nullptr) continue;
    if (!seen.emplace(node.module, node.ip).second) continue;
    ++result.addresses;
    std::vector<DwarfFrame> frames = symbolizer.look_up(id);
    if (frames.empty()) continue;
    ++result.named;
    const Module& module = definitions.modules()[node.module];
    result.table.add(module, node.ip - module.bias - 1, std::move(frames));
  }
  for (const auto& [id, problem] : symbolizer.problems())
    result.table.add_problem(definitions.modules()[id], problem);
  result.warnings = symbolizer.warnings();
  return result;
}

}  // namespace gpupeak::collector
