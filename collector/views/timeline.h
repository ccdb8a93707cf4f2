// Memory over time, a chart for each sum, in block characters; also as JSON, CSV and SVG. A sum may
// be taken apart by site, tag, kind or phase.
#pragma once

#include <ostream>
#include <string>

#include "collector/analyze/profile.h"
#include "collector/timeline/instants.h"
#include "collector/timeline/time_series.h"
#include "collector/write/json_values.h"
#include "collector/write/view_style.h"

namespace gpupeak::collector {

/// The sums that a timeline shows for `scope`. Empty: every device that was used, and the host.
/// Throws UsageError if the log has nothing of the scope.
std::vector<ScopeId> timeline_scopes(const Profile& profile, const std::string& scope);
/// The parts of a sum with a line of their own: its kinds, if there are several.
std::vector<ScopeId> timeline_kinds(const Profile& profile, ScopeId sum);

/// What a timeline shows.
struct TimelineOf {
  const Profile& profile;
  const TimeSeries& times;
  std::vector<ScopeId> scopes;
  /// Each of the scopes, taken apart; empty: they are not.
  std::vector<Stacked> stacked;

  /// Throws UsageError if the scope cannot be taken apart.
  TimelineOf(const Profile& of, const TimeSeries& series, const std::string& scope,
             std::vector<Stacked> parts = {});
  /// When the last bucket ends.
  int64_t end_ns() const { return times.begin_ns(times.bucket_count(), profile.log().clock()); }
  /// nullptr: it is not taken apart.
  const Stacked::By* parts_of(ScopeId scope) const;
};

/// `height`: rows of a chart. CSV has a row for each stretch of each curve in which something
/// changed: its least and its most. Taken apart: a row for each part at each moment.
void write_timeline(const TimelineOf& shown, size_t height, std::ostream& out,
                    const ViewStyle& style);

/// For what a picture is made: it says how wide it is and how large its letters are.
enum class PictureSize { kScreen, kPage, kColumn };
/// `dark`: on a dark ground. Else on white; a picture for the screen follows its viewer's theme.
void write_timeline_svg(const TimelineOf& shown, PictureSize size, bool dark, std::ostream& out);

/// Lines and texts of a drawing.
class Svg {
 protected:
  explicit Svg(std::ostream& out) : out_(out) {}
  void line(double x1, double y1, double x2, double y2, std::string_view css);
  void text(double at_x, double at_y, std::string_view anchor, std::string_view css,
            const std::string& what);

  std::ostream& out_;
};

/// The unit for times up to `end_ns`, and its length in ns.
struct TimeUnit {
  double ns;
  std::string_view name;
};
TimeUnit time_unit(int64_t end_ns);
/// A round step for an axis from 0 to `end`, with `most` steps at most.
double axis_step(double end, size_t most);

}  // namespace gpupeak::collector
