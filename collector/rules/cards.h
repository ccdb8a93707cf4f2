// The cards that `gpupeak fit` knows, from rules/cards.toml, which says where each figure is from.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "collector/summary/fit.h"

namespace gpupeak::collector {

/// Where one figure of a card is known: by how much others may differ from it, in either direction,
/// in thousandths.
inline constexpr uint64_t kFigureReserve = 25;
/// By how much less than the size that it is sold by a card can give, in thousandths.
inline constexpr uint64_t kSizeReserve = 100;

/// `origin` is what messages call the text. Throws UsageError with the line of what is wrong.
std::vector<Card> parse_cards(std::string_view toml, const std::string& origin);
/// The built-in cards, by size.
const std::vector<Card>& builtin_cards();
/// The card with this name, however it is written ("rtx 4090", "RTX4090"), or with the name that
/// CUDA has for it. Throws UsageError with what was most likely meant.
const Card& find_card(const std::string& name);

/// The text of rules/cards.toml; made when the command is built.
std::string_view builtin_cards_text();

}  // namespace gpupeak::collector
