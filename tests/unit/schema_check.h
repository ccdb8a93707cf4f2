// A JSON Schema validator for the keywords that docs/summary.schema.json uses. An unknown keyword
// is an error, so that no rule is passed over.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace gpupeak::testing {

/// A message for each violation of the schema by `value`; empty: it is valid.
std::vector<std::string> violations(const nlohmann::json& schema, const nlohmann::json& value);

}  // namespace gpupeak::testing
