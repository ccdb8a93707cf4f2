#include "tools/examples.h"

#include <sstream>

#include "collector/write/write_html.h"
#include "tools/shared/child.h"

namespace gpupeak::tools {
namespace {

std::string_view all_of(std::string_view verb) {
  if (verb.empty()) return kExamples;
  for (const VerbExamples& examples : kVerbExamples) {
    if (examples.verb == verb) return examples.lines;
  }
  return {};
}

bool can_be_done(const std::string& line) {
  if (line.find(" --html ") != std::string::npos) return collector::has_page();
  if (line.find("gpupeak serve ") != std::string::npos) return !server_program().empty();
  return true;
}

}  // namespace

std::string examples_of(std::string_view verb) {
  std::istringstream lines{std::string(all_of(verb))};
  std::string possible;
  for (std::string line; std::getline(lines, line);) {
    if (can_be_done(line)) possible += line + "\n";
  }
  if (verb.empty() || possible.empty()) return possible;
  return "Examples:\n" + possible;
}

}  // namespace gpupeak::tools
