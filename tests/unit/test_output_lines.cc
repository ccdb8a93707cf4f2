#include "catch.h"
#include "tools/report/output_phases.h"

using namespace gpupeak::tools;

namespace {

std::string names(LineMatcher& lines, std::string_view bytes) {
  std::string all;
  for (const OutputPhase* phase : lines.add(bytes)) all += phase->name + ";";
  return all;
}

}  // namespace

TEST_CASE("output phases: a name before the text, or the text itself", "[tools]") {
  CHECK(parse_output_phase("load=Loading model").name == "load");
  CHECK(parse_output_phase("load=Loading model").text == "Loading model");
  CHECK(parse_output_phase("Session creation").name == "Session creation");
  CHECK(parse_output_phase("time cost = 3").text == "time cost = 3");
  CHECK(parse_output_phase("=x").text == "=x");
  CHECK(parse_output_phase("x=").text == "x=");
}

TEST_CASE("output phases: lines that come in pieces, ended by either character", "[tools]") {
  const std::vector<OutputPhase> phases{{"a", "alpha"}, {"b", "beta"}};
  LineMatcher lines(phases);
  CHECK(names(lines, "al").empty());
  CHECK(names(lines, "pha").empty());  // the line may go on
  CHECK(names(lines, " and beta\nbeta\rgamma\n") == "a;b;");
  CHECK(names(lines, "al\npha\n").empty());
  const std::string endless(1 << 20, 'x');
  CHECK(names(lines, endless + "beta") == "b;");  // what is longer than a line need not be kept
  CHECK(names(lines, "\n").empty());
}
