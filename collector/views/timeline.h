// Memory over time, a chart for each sum, in block characters; also as JSON and as SVG.
#pragma once

#include <ostream>
#include <string>

#include "collector/analyze/profile.h"
#include "collector/text/text_format.h"
#include "collector/timeline/time_series.h"
#include "collector/write/json_values.h"

namespace gpupeak::collector {

/// The sums that a timeline shows for `scope`. Empty: every device that was used, and the host.
/// Throws UsageError if the log has nothing of the scope.
std::vector<ScopeId> timeline_scopes(const Profile& profile, const std::string& scope);
/// The parts of a sum with a line of their own: its kinds, if there are several.
std::vector<ScopeId> timeline_kinds(const Profile& profile, ScopeId sum);

/// `height`: rows of a chart.
void write_timeline(const Profile& profile, const TimeSeries& times, const std::string& scope,
                    size_t height, std::ostream& out, const TextStyle& style);
void write_timeline_json(const Profile& profile, const TimeSeries& times, const std::string& scope,
                         std::ostream& out);
/// A row for each stretch of each curve in which something changed: its least and its most.
void write_timeline_csv(const Profile& profile, const TimeSeries& times, const std::string& scope,
                        std::ostream& out);
void write_timeline_svg(const Profile& profile, const TimeSeries& times, const std::string& scope,
                        std::ostream& out);

/// The unit for times up to `end_ns`, and its length in ns.
struct TimeUnit {
  double ns;
  std::string_view name;
};
TimeUnit time_unit(int64_t end_ns);
/// A round step for an axis from 0 to `end`, with `most` steps at most.
double axis_step(double end, size_t most);

}  // namespace gpupeak::collector
