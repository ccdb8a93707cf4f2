// The results of gates, for people and for CI: text, JSON, JUnit's XML, Markdown. `gpupeak check`
// calls it.
#pragma once

#include <ostream>
#include <vector>

#include "collector/summary/gate.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {

bool all_passed(const std::vector<GateResult>& results);

void write_gates(const Summary& summary, const std::vector<GateResult>& results, std::ostream& out,
                 const TextStyle& style = {});
/// Schema gpupeak.check/1 (docs/json.md).
void write_gates_json(const Summary& summary, const std::vector<GateResult>& results,
                      std::ostream& out);
/// Each gate is a test case.
void write_junit(const Summary& summary, const std::vector<GateResult>& results, std::ostream& out);
/// A section with a table, as GitHub shows it; names are escaped.
void write_markdown(const Summary& summary, const std::vector<GateResult>& results,
                    std::ostream& out);

}  // namespace gpupeak::collector
