#include "collector/log/kept_names.h"

#include <fcntl.h>
#include <zstd.h>

#include <algorithm>

#include "collector/log/log_parts.h"
#include "collector/text/error.h"

namespace gpupeak::collector {
namespace {

constexpr int kNamesLevel = 3;
/// A chunk that unpacks to more than that is not read.
constexpr uint64_t kMostNamesBytes = 64 << 20, kMostNamesRatio = 32, kAlwaysAllowedNames = 1 << 20;

}  // namespace

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
