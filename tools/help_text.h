// What --help prints, in one form by every release of CLI11: since 2.5 its own breaks lines and
// words headings otherwise. Examples, completions and the manual rely on the form.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace gpupeak::tools {

class HelpText : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;

 private:
  std::string usage(const CLI::App& app, const std::string& name) const;
  std::string rows(const std::string& heading,
                   const std::vector<const CLI::Option*>& options) const;
};

}  // namespace gpupeak::tools
