// warning_codes.def against what docs/metrics.md says of each code.
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "catch.h"
#include "collector/summary/summary.h"

using namespace gpupeak::collector;

namespace {

constexpr const char* kMetrics = GPUPEAK_GOLDEN_FOLDER "/../../docs/metrics.md";

/// Of each code whether the document says that figures stay exact.
std::map<std::string, bool> documented() {
  std::ifstream file(kMetrics);
  std::map<std::string, bool> rows;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("| GP")) rows.emplace(line.substr(2, 5), !line.ends_with("| no |"));
  }
  return rows;
}

/// The codes in brackets behind "`events_lost` is true where events are missing".
std::set<std::string> documented_as_lost() {
  std::ifstream file(kMetrics);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  std::set<std::string> codes;
  const size_t at = text.find("`events_lost` is true"), end = text.find(')', at);
  for (size_t code = text.find("GP", at); code < end; code = text.find("GP", code + 1))
    codes.insert(text.substr(code, 5));
  return codes;
}

std::set<std::string> lost_in_table() {
  std::set<std::string> codes;
#define GPUPEAK_WARNING(code, name, inexact, no_bound) \
  if (inexact_by(WarningCode::k##name) == Inexact::kLost) codes.insert(#code);
#include "collector/summary/warning_codes.def"
#undef GPUPEAK_WARNING
  return codes;
}

std::map<std::string, bool> in_table() {
  return {
#define GPUPEAK_WARNING(code, name, inexact, no_bound) \
  {#code, inexact_by(WarningCode::k##name) == Inexact::kNone},
#include "collector/summary/warning_codes.def"
#undef GPUPEAK_WARNING
  };
}

}  // namespace

TEST_CASE("warnings: the document has a row for each code, and says what is exact", "[collector]") {
  CHECK(in_table().size() > 40);
  CHECK(documented() == in_table());
}

TEST_CASE("warnings: the document has the codes by which events are missing", "[collector]") {
  CHECK(lost_in_table().contains("GP001"));
  CHECK(documented_as_lost() == lost_in_table());
}

TEST_CASE("warnings: a code is the same as text and back", "[collector]") {
  for (const auto& [text, exact] : in_table()) CHECK(code_text(parse_warning_code(text)) == text);
  CHECK(parse_warning_code("GP033") == WarningCode::kLogLimitReached);
  for (const char* text : {"", "GP", "GP33", "GP0033", "GP03x", "XX033", "GP+33"})
    CHECK(parse_warning_code(text) == WarningCode::kNone);
}

TEST_CASE("warnings: a code of a newer gpupeak keeps its text and changes no figure",
          "[collector]") {
  const WarningCode code = parse_warning_code("GP999");
  CHECK(code_text(code) == "GP999");
  CHECK(inexact_by(code) == Inexact::kNone);
  CHECK(keeps_lower_bound(code));
  CHECK(keeps_upper_bound(code));
}
