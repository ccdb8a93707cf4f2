#include "collector/log/symbol_table.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <zstd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "collector/log/log_parts.h"
#include "collector/text/error.h"
#include "collector/text/lists.h"
#include "collector/text/sanitize.h"

namespace gpupeak::collector {
namespace {

using Json = nlohmann::json;

constexpr const char* kSchema = "gpupeak.symbols/1";
constexpr size_t kFieldsOfFrame = 3;  // function, file, line

/// The most inlined calls of one address; compilers make up to a hundred.
constexpr size_t kMostFramesOfAddress = 1024;
/// The most levels of values within values. Our files have five.
constexpr size_t kMostLevels = 16;

/// A long text that every frame has would take memory without end, so the text of all frames is
/// bounded.
constexpr uint64_t kMostTextRatio = 32, kAlwaysAllowedText = 32 << 20;

std::vector<DwarfFrame> frames_of(const Json& row, const Json& strings, NameSource source,
                                  uint64_t& text_left) {
  std::vector<DwarfFrame> frames;
  if (row.size() > 1 + kMostFramesOfAddress * kFieldsOfFrame)
    throw LogError("it has an address with thousands of calls", 0);
  frames.reserve(row.size() / kFieldsOfFrame);
  for (size_t i = 1; i + kFieldsOfFrame <= row.size(); i += kFieldsOfFrame) {
    const auto& function = strings.at(row.at(i).get<size_t>()).get_ref<const std::string&>();
    const auto& file = strings.at(row.at(i + 1).get<size_t>()).get_ref<const std::string&>();
    if (function.size() + file.size() > text_left)
      throw LogError("its names are many times as long as it is", 0);
    text_left -= function.size() + file.size();
    frames.push_back({function, file, row.at(i + 2).get<int>(), source});
  }
  return frames;
}

constexpr int kNamesLevel = 3;
/// A chunk that unpacks to more than that is not read.
constexpr uint64_t kMostNamesBytes = 64 << 20, kMostNamesRatio = 32, kAlwaysAllowedNames = 1 << 20;

}  // namespace

SymbolTable::Key SymbolTable::key(const Module& module) {
  if (module.build_id.empty()) return {escape(module.path), ""};
  return {"", hex_text(module.build_id)};
}

SymbolTable::SymbolTable(std::string_view text, uint64_t log_cookie) {
  uint64_t text_left = kAlwaysAllowedText + kMostTextRatio * text.size();
  if (nests_deeper_than(kMostLevels, text))
    throw LogError("its values lie within each other too often", 0);
  try {
    const Json json = Json::parse(text);
    if (json.at("schema") != kSchema) throw LogError("its schema is another", 0);
    const Json& strings = json.at("strings");
    const bool same_log = json.at("log") == fmt::format("{:016x}", log_cookie);
    is_of_this_log_ = same_log;
    for (const Json& module : json.at("modules")) {
      Key key{module.at("path").get<std::string>(), module.at("build_id").get<std::string>()};
      if (key.build_id.empty() && !same_log) continue;
      ModuleFrames& known = modules_[key.build_id.empty() ? key : Key{"", key.build_id}];
      known.path = key.path;
      known.problem = module.value("problem", "");
      const Json& rows = module.at("frames");
      const Json sources = module.value("sources", Json::array());  // older files have none
      for (size_t i = 0; i < rows.size(); ++i) {
        const std::string source =
            i < sources.size() ? strings.at(sources.at(i).get<size_t>()).get<std::string>() : "";
        known.frames.emplace(rows.at(i).at(0).get<uint64_t>(),
                             frames_of(rows.at(i), strings, parse_name_source(source), text_left));
      }
    }
  } catch (const Json::exception&) {
    throw LogError("it is damaged", 0);
  }
}

void SymbolTable::add(const Module& module, uint64_t address, std::vector<DwarfFrame> frames) {
  ModuleFrames& known = modules_[key(module)];
  known.path = escape(module.path);
  known.frames[address] = std::move(frames);
}

void SymbolTable::add_problem(const Module& module, std::string_view problem) {
  ModuleFrames& known = modules_[key(module)];
  known.path = escape(module.path);
  known.problem = problem;
}

std::string_view SymbolTable::problem(const Module& module) const {
  const auto known = modules_.find(key(module));
  return known == modules_.end() ? std::string_view{} : std::string_view(known->second.problem);
}

std::string SymbolTable::json(uint64_t log_cookie) const {
  Numbers<std::string> texts;  // most functions and files occur many times
  Json modules = Json::array();
  for (const auto& [key, known] : modules_) {
    std::vector<uint64_t> addresses = keys_of(known.frames);
    std::ranges::sort(addresses);
    Json rows = Json::array();
    Json sources = Json::array();
    for (const uint64_t address : addresses) {
      Json row = Json::array({address});
      for (const DwarfFrame& frame : known.frames.at(address)) {
        row.push_back(texts.of(escape(frame.function)));
        row.push_back(texts.of(escape(frame.file)));
        row.push_back(frame.line);
      }
      rows.push_back(std::move(row));
      const std::vector<DwarfFrame>& frames = known.frames.at(address);
      const NameSource source = frames.empty() ? NameSource::kNone : frames[0].source;
      sources.push_back(texts.of(std::string(name_source_text(source))));
    }
    modules.push_back({{"path", known.path},
                       {"build_id", key.build_id},
                       {"frames", std::move(rows)},
                       {"sources", std::move(sources)}});
    if (!known.problem.empty()) modules.back()["problem"] = known.problem;
  }
  Json strings = Json::array();
  for (const std::string* text : texts.all()) strings.push_back(*text);
  const Json json{{"schema", kSchema},
                  {"log", fmt::format("{:016x}", log_cookie)},
                  {"strings", std::move(strings)},
                  {"modules", std::move(modules)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

const std::vector<DwarfFrame>* SymbolTable::find(const Module& module, uint64_t address) const {
  const auto known = modules_.find(key(module));
  if (known == modules_.end()) return nullptr;
  const auto frames = known->second.frames.find(address);
  return frames == known->second.frames.end() ? nullptr : &frames->second;
}

bool is_of_system(std::string_view path) {
  // Containers have the driver in the first of these, toolkits install themselves into the second.
  if (path.starts_with("/usr/local/"))
    return path.starts_with("/usr/local/nvidia/") || path.starts_with("/usr/local/cuda");
  constexpr std::string_view kFolders[] = {"/usr/", "/lib/",  "/lib32/",     "/lib64/",
                                           "/bin/", "/sbin/", "/nix/store/", "/gnu/store/"};
  return std::any_of(std::begin(kFolders), std::end(kFolders),
                     [path](std::string_view folder) { return path.starts_with(folder); });
}

bool has_kept(const SymbolTable& table, const Module& module) {
  const std::string_view problem = table.problem(module);
  return problem == kKeptAtEnd || problem == kKeptInPart || problem == kOnlyExported;
}

bool is_kept_table(const SymbolTable& table, const Definitions& definitions) {
  const std::vector<Module>& modules = definitions.modules();
  return std::ranges::any_of(modules,
                             [&table](const Module& module) { return has_kept(table, module); });
}

uint64_t write_kept_names(const std::string& log, const SymbolTable& names, uint64_t instead_of) {
  if (instead_of != 0 && !LogTail(log, O_RDWR).set_end(instead_of)) return 0;
  const LogTail to(log, O_RDWR);
  if (!to.is_log()) return 0;
  const std::string text = names.json(to.header().cookie);
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  const size_t size =
      ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), kNamesLevel);
  if (ZSTD_isError(size) != 0) return 0;
  return to.append(kNamesChunk, {packed.data(), size});
}

std::string unpack_kept_names(std::span<const uint8_t> chunk) {
  const size_t packed = ZSTD_findFrameCompressedSize(chunk.data(), chunk.size());
  const uint64_t bytes = ZSTD_getFrameContentSize(chunk.data(), chunk.size());
  if (ZSTD_isError(packed) != 0 || bytes > kMostNamesBytes ||
      bytes > kAlwaysAllowedNames + kMostNamesRatio * packed)
    throw LogError("they are damaged", 0);
  std::string text(bytes, '\0');
  const size_t got = ZSTD_decompress(text.data(), text.size(), chunk.data(), packed);
  if (ZSTD_isError(got) != 0 || got != bytes) throw LogError("they are damaged", 0);
  return text;
}

}  // namespace gpupeak::collector
