#include "collector/rules/cards.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <sstream>

#include "collector/text/error.h"
#include "collector/text/name_match.h"
#include "collector/text/sanitize.h"

#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

namespace gpupeak::collector {
namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
constexpr uint64_t kThousandths = 1000;

class CardReader {
 public:
  explicit CardReader(const std::string& origin) : origin_(origin) {}

  Card read(const toml::table& table) const {
    Card card;
    std::vector<double> usable;
    std::vector<std::string> sources, dates;
    double size = 0;
    for (const auto& [key, value] : table) {
      if (key == "name") {
        card.name = texts(value).front();
      } else if (key == "device") {
        card.devices = texts(value);
      } else if (key == "usable_gib") {
        usable = numbers(value);
      } else if (key == "size_gib") {
        size = numbers(value).front();
      } else if (key == "source") {
        sources = texts(value);
      } else if (key == "date") {
        dates = days(value);
      } else {
        fail(value, fmt::format("no such key '{}'", escape(key.str())));
      }
    }
    if (card.name.empty() || card.devices.empty()) fail(table, "a card needs name and device");
    if (usable.empty() && size == 0) fail(table, "a card needs usable_gib or size_gib");
    if (sources.empty() || sources.size() != dates.size()) {
      fail(table, "each source needs its date");
    }
    set_bytes(card, usable, size);
    for (size_t i = 0; i < sources.size(); ++i) {
      card.note += fmt::format("{}{}, {}", i == 0 ? "" : "; ", sources[i], dates[i]);
    }
    return card;
  }

  [[noreturn]] void fail(const toml::node& node, const std::string& what) const {
    throw UsageError(
        fmt::format("{}:{}: {}", origin_, static_cast<uint64_t>(node.source().begin.line), what));
  }

 private:
  static void set_bytes(Card& card, const std::vector<double>& usable, double size) {
    const auto bytes = [](double gib) { return static_cast<uint64_t>(std::llround(gib * kGiB)); };
    if (usable.empty()) {
      card.by_size = true;
      card.most_bytes = bytes(size);
      card.least_bytes = card.most_bytes / kThousandths * (kThousandths - kSizeReserve);
      return;
    }
    const auto [least, most] = std::ranges::minmax_element(usable);
    card.least_bytes = bytes(*least);
    card.most_bytes = bytes(*most);
    if (usable.size() > 1) return;
    card.least_bytes -= card.least_bytes / kThousandths * kFigureReserve;
    card.most_bytes += card.most_bytes / kThousandths * kFigureReserve;
    if (size > 0) card.most_bytes = std::min(card.most_bytes, bytes(size));
  }

  /// One value or a list of them.
  template <typename Read>
  auto list_of(const toml::node& node, Read read) const {
    std::vector<decltype(read(node))> found;
    if (const toml::array* list = node.as_array()) {
      for (const toml::node& part : *list) found.push_back(read(part));
    } else {
      found.push_back(read(node));
    }
    if (found.empty()) fail(node, "the list is empty");
    return found;
  }
  std::vector<std::string> texts(const toml::node& node) const {
    return list_of(node, [&](const toml::node& part) {
      const auto text = part.value<std::string>();
      if (!part.is_string() || !text || text->empty()) fail(part, "a text is needed");
      return *text;
    });
  }
  std::vector<double> numbers(const toml::node& node) const {
    return list_of(node, [&](const toml::node& part) {
      const auto number = part.value<double>();
      if (!number || !(*number > 0) || *number > 1e6) fail(part, "a size in GiB is needed");
      return *number;
    });
  }
  std::vector<std::string> days(const toml::node& node) const {
    return list_of(node, [&](const toml::node& part) {
      const toml::date* day = part.is_date() ? &part.as_date()->get() : nullptr;
      if (day == nullptr) fail(part, "a day is needed, such as 2026-01-31");
      return fmt::format("{:04}-{:02}-{:02}", day->year, day->month, day->day);
    });
  }

  const std::string& origin_;
};

/// A name without case, with letters and digits only, so that names typed in a hurry are equal.
std::string plain(std::string_view name) {
  std::string letters;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return letters;
}

}  // namespace

std::vector<Card> parse_cards(std::string_view toml, const std::string& origin) {
  const CardReader reader(origin);
  std::vector<Card> cards;
  try {
    const toml::table table = toml::parse(toml, origin);
    for (const auto& [key, value] : table) {
      const toml::array* list = value.as_array();
      if (key != "card" || list == nullptr) reader.fail(value, "there is only [[card]]");
      for (const toml::node& part : *list) {
        if (!part.is_table()) reader.fail(part, "write [[card]]");
        cards.push_back(reader.read(*part.as_table()));
      }
    }
  } catch (const toml::parse_error& error) {
    throw UsageError(fmt::format("{}:{}: {}", origin,
                                 static_cast<uint64_t>(error.source().begin.line),
                                 error.description()));
  }
  std::ranges::stable_sort(cards, {}, &Card::most_bytes);
  return cards;
}

const std::vector<Card>& builtin_cards() {
  static const std::vector<Card> cards = parse_cards(builtin_cards_text(), "rules/cards.toml");
  return cards;
}

const Card& find_card(const std::string& name) {
  std::vector<std::string> names;
  for (const Card& card : builtin_cards()) {
    if (is_card(card, name)) return card;
    std::istringstream each(card.name);  // "A10, A10G"
    for (std::string one; std::getline(each, one, ',');) {
      if (plain(one) == plain(name)) return card;
    }
    names.push_back(card.name);
  }
  const std::string meant = did_you_mean(name, names);
  throw UsageError(
      fmt::format("no card '{}' is known{}{} Of any other, say what it has: --capacity 24GiB",
                  escape(name), meant, meant.ends_with('?') ? "" : "."));
}

}  // namespace gpupeak::collector
