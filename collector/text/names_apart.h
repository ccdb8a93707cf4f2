// Names of functions that are alike when they are short: instantiations of a template, overloads.
// Titles of sites and calls use it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpupeak::collector {

/// A text for each function, in the same order: its short name. Those whose short names would be
/// alike get as much of their template arguments, then of their parameters, then of their
/// namespaces as tells them apart, and at last all. Equal functions have equal texts.
///
///   void load<std::vector<float>>(unsigned long)   → load<vector<float>>
///   void load<std::vector<double>>(unsigned long)  → load<vector<double>>
std::vector<std::string> names_apart(const std::vector<std::string_view>& functions);

/// The inside of a bracket of template arguments, without namespaces and default arguments of the
/// standard library, at most so many characters: if need be without what lies deeper; empty if it
/// is longer still.
std::string short_arguments(std::string_view inside, size_t most);

}  // namespace gpupeak::collector
