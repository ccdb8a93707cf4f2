#include "tools/serve/index.h"

#include <algorithm>
#include <iterator>

#include "collector/text/sanitize.h"
#include "collector/text/text_format.h"

namespace gpupeak::tools {
namespace {

constexpr const char* kHead =
    "<!doctype html>\n<html lang=en><meta charset=utf-8><meta name=viewport "
    "content=\"width=device-width\"><title>gpupeak serve</title>\n"
    "<style>body{font:15px/1.5 system-ui,sans-serif;max-width:72em;margin:2em auto;padding:0 1em;"
    "color:#1a202c;background:#fff}table{border-collapse:collapse}th,td{text-align:left;"
    "padding:.2em 1.2em .2em 0;border-bottom:1px solid #ddd;vertical-align:top}"
    ".n{text-align:right;white-space:nowrap}.wide{overflow-x:auto}code{font-size:95%}"
    "@media(prefers-color-scheme:dark){body{color:#e2e8f0;background:#171923}th,td{border-color:"
    "#444}a{color:#90cdf4}}</style>\n";

std::string shown(std::string_view text) {
  return collector::xml_text(collector::escape(text));
}

std::string sizes(const gpupeak_counters_page& counters, bool live) {
  std::string text;
  for (uint32_t number = 0; number < GPUPEAK_LOG_MAX_DEVICES; ++number) {
    const gpupeak_device_counters& device = counters.device[number];
    if (device.alloc_count == 0) continue;
    text += text.empty() ? "" : "<br>";
    text += "GPU " + std::to_string(number) + ": " +
            collector::size_text(live ? device.total.live : device.total.peak);
  }
  return text.empty() ? "–" : text;
}

std::string row(const FolderLog& log) {
  const gpupeak_file_header& header = log.head.header;
  const gpupeak_counters_page& counters = log.head.counters;
  std::string text = "<tr><td>" + shown(log.name) + "<td>" +
                     collector::kLogStates[static_cast<size_t>(log.state)] + "<td>" +
                     (log.facts.program.empty() ? "–" : shown(log.facts.program)) + "<td class=n>" +
                     std::to_string(header.pid) + "<td class=n>" +
                     (header.rank < 0 ? "–" : std::to_string(header.rank)) + "<td>" +
                     (log.facts.host.empty() ? "–" : shown(log.facts.host)) + "<td class=n>" +
                     (log.is_live() ? sizes(counters, true) : "–") + "<td class=n>" +
                     sizes(counters, false) + "<td>";
  const auto* end = std::find(std::begin(header.tool_version), std::end(header.tool_version), '\0');
  return text + shown({header.tool_version, static_cast<size_t>(end - header.tool_version)}) + "\n";
}

}  // namespace

std::string index_page(const FolderView& view, const std::string& folder) {
  std::string page = kHead;
  page += "<h1>gpupeak serve " GPUPEAK_VERSION
          "</h1>\n<p>The exact GPU memory of the programs "
          "whose logs lie in <code>" +
          shown(folder) +
          "</code>, as the logs say now.\n<ul><li><a href=\"/metrics\">/metrics</a>: "
          "for Prometheus<li><a href=\"/\">/</a>: this page</ul>\n";
  page += "<h2>Programs</h2>\n";
  if (view.logs.empty()) page += "<p>No log yet.\n";
  if (!view.logs.empty()) {
    page +=
        "<div class=wide><table>\n<tr><th>log<th>state<th>program<th>pid<th>rank<th>host<th>"
        "now<th>peak<th>recorded by\n";
    for (const FolderLog& log : view.logs) page += row(log);
    page += "</table></div>\n";
  }
  if (view.left_out > 0)
    page +=
        "<p>Older logs that are left out (<code>--logs</code>): " + std::to_string(view.left_out) +
        ".\n";
  if (view.unreadable > 0)
    page +=
        "<p>Files that are named as logs and cannot be read: " + std::to_string(view.unreadable) +
        ".\n";
  page +=
      "<p>Peaks are high-water marks of the driver's own counts, never sampled. In a terminal: "
      "<code>gpupeak top " +
      shown(folder) +
      "</code>; who held a peak: <code>gpupeak report "
      "LOG</code>.\n";
  return page;
}

}  // namespace gpupeak::tools
