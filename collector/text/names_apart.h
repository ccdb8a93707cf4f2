// Gives functions texts that tell them apart, where their short names would be equal:
// instantiations of a template, overloads. Titles of sites and calls use it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpupeak::collector {

/// A text for each function, in the same order: its short name. If short names are equal, they get
/// as much of their template arguments as tells them apart; if that is not enough, of their
/// parameters, then of their namespaces, and at last all. Equal functions have equal texts.
///
///   void load<std::vector<float>>(unsigned long)   → load<vector<float>>
///   void load<std::vector<double>>(unsigned long)  → load<vector<double>>
std::vector<std::string> names_apart(const std::vector<std::string_view>& functions);

/// Shortens the inside of a bracket of template arguments to at most `most` characters: without
/// namespaces and default arguments of the standard library, and if need be without inner brackets.
/// Empty if it is still longer.
std::string short_arguments(std::string_view inside, size_t most);

}  // namespace gpupeak::collector
