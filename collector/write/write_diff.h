// Two runs compared, for people and as JSON (docs/diff.md). `gpupeak diff` calls it.
#pragma once

#include <ostream>
#include <vector>

#include "collector/summary/diff.h"
#include "collector/summary/gate.h"
#include "collector/summary/summary.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {

/// `top`: rows of each table; a last row has the sum of the others.
void write_diff(const Summary& a, const Summary& b, size_t top, std::ostream& out,
                const TextStyle& style = {});
void write_diff_json(const Summary& a, const Summary& b, std::ostream& out);

// Two runs compared in a few lines of Markdown, for a comment on a change. `gpupeak diff
// --markdown` calls it.

/// The peaks of both runs; under each peak that changed, the `top` sites that changed most.
void write_diff_markdown(const Summary& a, const Summary& b, size_t top, std::ostream& out);

// The results of gates, for people and for CI: text, JSON, JUnit's XML, Markdown. `gpupeak check`
// calls it.

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
