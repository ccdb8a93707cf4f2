#include "collector/log/run_limit.h"

#include <sstream>

namespace gpupeak::collector {

std::optional<RunLimit> run_limit(const Definitions& definitions, uint64_t ordinal) {
  std::istringstream fact(std::string(definitions.fact("limit", ordinal)));
  RunLimit limit;
  std::string holds, card;
  if (!(fact >> limit.bytes >> limit.real_bytes >> holds)) return std::nullopt;
  limit.holds = holds == "on";
  if (std::getline(fact >> std::ws, card)) limit.card = definitions.shown(card);
  return limit;
}

}  // namespace gpupeak::collector
