// A JSON Schema validator for the keywords that docs/summary.schema.json uses. An unknown keyword
// is an error, so that nothing is passed over.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace gpupeak::testing {

/// What is wrong with `value`, one message a violation; empty: valid.
std::vector<std::string> violations(const nlohmann::json& schema, const nlohmann::json& value);

}  // namespace gpupeak::testing
