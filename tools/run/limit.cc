#include "tools/run/limit.h"

#include <fmt/format.h>

#include <regex>
#include <sstream>

#include "collector/rules/cards.h"
#include "collector/summary/gate.h"
#include "collector/text/error.h"
#include "collector/text/sanitize.h"
#include "gpupeak/log_format.h"

namespace gpupeak::tools {
namespace {

/// "24GiB" as a number of bytes, which is what the library reads.
std::string size_entry(const std::string& text) {
  const uint64_t bytes = collector::parse_size(text);
  if (bytes == 0) throw collector::UsageError("--limit: no card has 0 bytes");
  return std::to_string(bytes);
}

std::string card_entry(const std::string& name) {
  const collector::Card& card = collector::find_card(name);
  return fmt::format("{}:{}", card.least_bytes, card.name.substr(0, card.name.find(',')));
}

/// "0=A,1=B" with A and B replaced by entry(A) and entry(B). A text without devices is one entry
/// for all devices.
template <typename Entry>
std::string entries(const std::string& text, const char* option, Entry entry) {
  if (text.find('=') == std::string::npos) return entry(text);
  static const std::regex numbered("([0-9]{1,3})=(.+)");
  std::istringstream list(text);
  std::string all;
  for (std::string one; std::getline(list, one, ',');) {
    std::smatch parts;
    if (!std::regex_match(one, parts, numbered) ||
        std::stoul(parts[1]) >= GPUPEAK_LOG_MAX_DEVICES) {
      throw collector::UsageError(
          fmt::format("{}: '{}' is not a GPU's number, '=' and what it is to have: 0=24GiB,1=16GiB",
                      option, collector::escape(one)));
    }
    all += fmt::format("{}{}={}", all.empty() ? "" : ",", parts[1].str(), entry(parts[2].str()));
  }
  return all;
}

}  // namespace

std::string limit_variable(const std::string& limit, const std::string& gpu) {
  if (!limit.empty()) return entries(limit, "--limit", size_entry);
  if (!gpu.empty()) return entries(gpu, "--gpu", card_entry);
  return "";
}

}  // namespace gpupeak::tools
