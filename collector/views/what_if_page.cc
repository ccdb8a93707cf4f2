// What a change would have made of a run, as a page of its own. collector/page/what_if.js draws it.
#include "collector/summary/what_if_text.h"
#include "collector/views/what_if.h"
#include "collector/write/write_html.h"

namespace gpupeak::collector {
namespace {

/// Each point as [ns since the point before, bytes as recorded, lower bound with the change, upper
/// bound with the change]. The upper bound is left out if it equals the lower one.
Json curve_json(const WhatIfSum& sum) {
  Json points = Json::array();
  int64_t last = 0;
  for (const WhatIfPoint& point : sum.curve) {
    Json one = {point.time - last, point.before, point.least};
    if (sum.most_bytes && point.most != point.least) one.push_back(point.most);
    points.push_back(std::move(one));
    last = point.time;
  }
  return points;
}

std::string answer_data(const WhatIf& what_if) {
  Json json = what_if_json(what_if);
  json["text"] = changes_text(what_if.changes);
  json["log"] = what_if.log;
  json["duration_ns"] = what_if.duration_ns;
  for (size_t i = 0; i < what_if.sums.size(); ++i) {
    json["sums"][i]["name"] = what_if.sums[i].name;
    json["sums"][i]["curve"] = curve_json(what_if.sums[i]);
  }
  return page_text(json);
}

}  // namespace

void write_what_if_page(const std::vector<WhatIf>& all, const std::string& tool_version,
                        std::ostream& out) {
  std::vector<std::string> answers;
  answers.reserve(all.size());
  for (const WhatIf& what_if : all) answers.push_back(answer_data(what_if));
  write_page("whatif", answers, tool_version, out);
}

}  // namespace gpupeak::collector
