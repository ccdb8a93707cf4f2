#include "tools/gates/merge_inputs.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "collector/merge/partial_file.h"
#include "collector/text/error.h"
#include "collector/text/sanitize.h"
#include "tools/shared/log_folder.h"
#include "tools/shared/runs.h"

namespace gpupeak::tools {
namespace {

void add_folder(const std::string& folder, MergeInputs& inputs) {
  const FolderView view = LogFolder(folder, SIZE_MAX).look();
  const auto first = static_cast<ptrdiff_t>(inputs.logs.size());
  for (const FolderLog& log : view.logs) inputs.logs.push_back(log.path);
  std::sort(inputs.logs.begin() + first, inputs.logs.end());
  inputs.unreadable += view.unreadable;
  size_t partials = 0;
  for (const std::string& file : files_named(folder, collector::kPartialEnding)) {
    if (collector::is_partial(file)) {
      inputs.partials.push_back(file);
      ++partials;
    } else {
      ++inputs.unreadable;
    }
  }
  if (view.logs.empty() && partials == 0)
    throw collector::UsageError("there are no logs in " + collector::escape(folder));
}

}  // namespace

std::vector<std::string> MergeInputs::all() const {
  std::vector<std::string> files = logs;
  files.insert(files.end(), partials.begin(), partials.end());
  return files;
}

MergeInputs find_merge_inputs(const std::vector<std::string>& paths) {
  MergeInputs inputs;
  for (const std::string& path : paths) {
    std::error_code error;
    if (std::filesystem::is_directory(path, error))
      add_folder(path, inputs);
    else if (path.ends_with(collector::kPartialEnding) || collector::is_partial(path))
      inputs.partials.push_back(path);
    else
      inputs.logs.push_back(path);
  }
  inputs.logs = all_logs(inputs.logs);
  // A log has the same name, whether the log or its folder was given.
  for (std::string& log : inputs.logs) log = std::filesystem::path(log).lexically_normal();
  return inputs;
}

std::string expand_host(const std::string& out) {
  std::string text;
  for (size_t i = 0; i < out.size(); ++i) {
    const char next = out[i] == '%' && i + 1 < out.size() ? out[i + 1] : '\0';
    if (next != 'h' && next != '%') {
      text += out[i];
      continue;
    }
    ++i;
    char host[256] = {};
    gethostname(host, sizeof host - 1);
    text += next == 'h' ? host : "%";
  }
  return text;
}

}  // namespace gpupeak::tools
