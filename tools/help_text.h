// What --help prints. The form is the same with every release of CLI11: CLI11's own form has other
// line breaks and headings since 2.5. Examples, completions and the manual rely on our form.
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
