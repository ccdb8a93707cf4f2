// The cards that `gpupeak fit` knows, from rules/cards.toml, which says where each figure is from.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "collector/summary/fit.h"

namespace gpupeak::collector {

/// Of one figure: others differ by up to this much, in thousandths, in either direction.
inline constexpr uint64_t kFigureReserve = 25;
/// Of the size that a card is sold by: so much less can be had of it.
inline constexpr uint64_t kSizeReserve = 100;

/// `origin` is what messages call the text. Throws UsageError with the line of what is wrong.
std::vector<Card> parse_cards(std::string_view toml, const std::string& origin);
/// Those built in, by size.
const std::vector<Card>& builtin_cards();
/// By its name, however it is written ("rtx 4090", "RTX4090"), or by what CUDA calls it. Throws
/// UsageError, with what was most likely meant.
const Card& find_card(const std::string& name);

/// rules/cards.toml; made when the command is built.
std::string_view builtin_cards_text();

}  // namespace gpupeak::collector
