#include "collector/symbols/symbol_files.h"

#include "collector/symbols/package_version.h"
#include "collector/text/file_name.h"
#include "collector/text/sanitize.h"

namespace gpupeak::collector {

std::string build_id_path(std::string_view build_id) {
  const std::string digits = hex_text(build_id);
  return "/.build-id/" + digits.substr(0, 2) + "/" + digits.substr(2) + ".debug";
}

std::vector<std::string> symbol_files(const Module& module, const SymbolSearch& search) {
  std::vector<std::string> paths{search.sysroot + module.path};
  std::vector<std::string> folders = search.debug_dirs;
  folders.push_back(search.sysroot + std::string(kDefaultDebugDir));
  for (const std::string& folder : folders) {
    if (!module.build_id.empty()) paths.push_back(folder + build_id_path(module.build_id));
    paths.push_back(folder + module.path + ".debug");
  }
  for (const std::string& folder : search.debug_dirs) {  // a folder of binaries
    paths.push_back(folder + "/" + std::string(file_name(module.path)));
  }
  return paths;
}

std::vector<std::string> watched_symbol_files(const Module& module, const SymbolSearch& search) {
  std::vector<std::string> paths = symbol_files(module, search);
  const std::string name(file_name(module.path));
  const std::string folder = module.path.substr(0, module.path.size() - name.size());
  paths.push_back(package_file(search.sysroot + module.path));
  paths.push_back(search.sysroot + folder + name + ".debug");
  paths.push_back(search.sysroot + folder + ".debug");
  paths.push_back(search.sysroot + folder + ".debug/" + name + ".debug");
  for (const std::string& debug : search.debug_dirs) paths.push_back(debug + folder);
  paths.push_back(search.sysroot + std::string(kDefaultDebugDir) + folder);
  return paths;
}

}  // namespace gpupeak::collector
