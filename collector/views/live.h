// `gpupeak report --at MOMENT` and `gpupeak diff LOG --at A --at B`: who held the memory of each
// device and of the host at a moment, and what came, went, grew and shrank between two moments.
#pragma once

#include <string>
#include <vector>

#include "collector/views/heading.h"

namespace gpupeak::collector {

/// The scopes of each device's memory and of the host's that the log has.
std::vector<ScopeId> sides(const Profile& profile);

/// A table for each scope. Its rows add up to what was live; the last one is for all others.
void write_live(Profile& profile, const std::vector<Held>& held, GroupBy by, size_t top,
                std::ostream& out, const TextStyle& style);
void write_live_json(Profile& profile, const std::vector<Held>& held, GroupBy by, size_t top,
                     std::ostream& out);

/// `a` and `b` have the same scopes in the same order. In tables by site the blocks of pools are
/// rows of their own.
void write_between(Profile& profile, const std::vector<Held>& a, const std::vector<Held>& b,
                   GroupBy by, size_t top, std::ostream& out, const TextStyle& style);
/// The same as JSON, with all rows.
void write_between_json(Profile& profile, const std::vector<Held>& a, const std::vector<Held>& b,
                        GroupBy by, std::ostream& out);

}  // namespace gpupeak::collector
