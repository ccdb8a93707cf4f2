#include "collector/write/write_html.h"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "collector/analyze/call_tree.h"
#include "collector/log/kinds.h"
#include "collector/summary/site_title.h"
#include "collector/summary/verdict.h"
#include "collector/text/sanitize.h"
#include "collector/text/text_format.h"
#include "collector/timeline/time_series.h"
#include "collector/write/json_values.h"
#include "collector/write/page_parts.h"
#include "collector/write/writers.h"

namespace gpupeak::collector {
namespace {

constexpr size_t kMaxLanes = 12;
/// Rows of scopes of all kinds together (is_main()), and of scopes of one kind.
constexpr size_t kMainRows = 400, kOtherRows = 100;
constexpr size_t kMainCalls = 4000, kOtherCalls = 1000;
constexpr size_t kListRows = 200;
constexpr size_t kHoldersOfInstant = 10;

/// Texts by number, since names repeat a lot.
class Strings {
 public:
  uint32_t id(const std::string& text) {
    const auto [entry, added] = ids_.try_emplace(text, static_cast<uint32_t>(list_.size()));
    if (added) list_.push_back(text);
    return entry->second;
  }
  /// The number of a call's place. Places on different lines of source have different numbers, even
  /// if their texts are equal.
  uint32_t place_id(const std::string& text, uint32_t file, int line) {
    const auto [entry, added] =
        place_ids_.try_emplace({file, line, text}, static_cast<uint32_t>(list_.size()));
    if (added) list_.push_back(text);
    return entry->second;
  }
  Json json() const { return list_; }
  /// For each place [number of its text, file, line…].
  Json places_json() const {
    Json all = Json::array();
    for (const auto& [place, id] : place_ids_)
      all.insert(all.end(), {id, std::get<0>(place), std::get<1>(place)});
    return all;
  }

 private:
  std::unordered_map<std::string, uint32_t> ids_;
  std::map<std::tuple<uint32_t, int, std::string>, uint32_t> place_ids_;
  std::vector<std::string> list_;
};

class PageData {
 public:
  PageData(Profile& profile, const TimeSeries& times, const PageLog& log, bool with_source,
           Complete complete)
      : profile_(profile),
        times_(times),
        instants_(log.instants),
        arenas_(log.arenas),
        uses_(log.uses),
        run_(log.run),
        complete_(complete),
        source_(profile, with_source ? sums(profile) : std::vector<ScopeId>()) {
    for (const Grouping& grouping : kGroupings) {
      if (grouping.by == GroupBy::kIp) continue;  // the flame graph shows instructions
      attributions_.emplace_back(profile.replay(), profile.titles(), grouping.by,
                                 &profile.tagger());
    }
  }

  std::string make() {
    Options options;
    options.top = kListRows;
    options.stacks = false;
    options.reading.sanitizer = profile_.definitions().sanitizer();
    Summary summary = summarize(profile_, options);
    if (complete_ != nullptr) complete_(summary, profile_.path(), options, {});
    if (run_) summary.quality = run_->quality;
    const Json verdict = verdict_json(run_ ? *run_ : summary);
    const std::vector<Holder> temporaries = std::move(summary.temporaries);
    const std::vector<Peak> peaks = std::exchange(summary.peaks, {});  // the key "scopes" has them
    summary.live_at_exit.clear();
    summary.temporaries.clear();
    Json json =
        object("log, log_bytes, verdict, summary, time, series", summary.log_path,
               summary.log_bytes, verdict, summary_json(summary), time_json(), series_json());
    json["scopes"] = scopes_json();  // these number texts in their order
    json["phases"] = phases_json();
    json["instants"] = instants_json();
    json["stacked"] = stacked_json();
    const auto string = [this](const std::string& text) { return strings_.id(text); };
    json["pools"] = page_arenas(arenas_, times_, string);
    json["uses"] = uses_ ? page_uses(profile_, *uses_, kMainRows, string) : Json(nullptr);
    json["buffers"] = page_buffers(peaks, string);
    json["live_at_exit"] = leaks_json();
    json["temporaries"] = rows_json(temporaries);
    json["files"] = source_.files_json(string);
    json["places"] = strings_.places_json();
    json["strings"] = strings_.json();  // last, since all other keys add texts
    return page_text(json);
  }

 private:
  static Json verdict_json(const Summary& summary) {
    const Verdict verdict = verdict_of(summary, {});
    Json json = object("facts, hints", verdict.facts, verdict.hints);
    json["rows"] = verdict.rows;
    for (const char* list : {"sentences", "bar", "next"}) json[list] = Json::array();
    for (const Verdict::Sentence& sentence : verdict.sentences)
      json["sentences"].push_back(object("text, alarm", sentence.text, sentence.alarm));
    for (const Verdict::Part& part : verdict.bar)
      json["bar"].push_back(object("name, bytes, free", part.name, part.bytes, part.free));
    for (const Verdict::Step& step : verdict.next)
      json["next"].push_back(object("command, why", step.command, step.why));
    return json;
  }

  int64_t begin_ns(size_t bucket) const { return times_.begin_ns(bucket, profile_.log().clock()); }

  Json time_json() const {
    Json begins = Json::array();
    int64_t last = 0;
    for (size_t i = 0; i <= times_.bucket_count(); ++i) {
      begins.push_back(begin_ns(i) - last);
      last = begin_ns(i);
    }
    return begins;
  }

  Json series_json() const {
    Json all = Json::array();
    for (const Series& series : times_.series()) {
      const ScopeId* scope = profile_.replay().sites().find_scope(series.name);
      const bool shown = series.kind == Series::Kind::kGauge ||
                         (scope != nullptr && covers_scope(profile_.coverage(), series.name));
      const bool any = std::ranges::any_of(
          series.buckets, [](const SeriesBucket& bucket) { return bucket.max > 0; });
      if (!shown || !any) continue;
      all.push_back(object("name, gauge, changes", series.name, series.kind == Series::Kind::kGauge,
                           series_changes(series)));
    }
    return all;
  }

  /// Title, kind, bytes, count, module, phase, thread, api, flags, longest life; then the stack
  /// that holds most of the row, if it is known: name and place of each call, innermost first,
  /// numbered as in flame_json().
  Json row_json(const Holder& holder) {
    constexpr int kTemporary = 1;
    Json row = {strings_.id(holder.title),
                strings_.id(holder.kind),
                holder.bytes,
                holder.count,
                strings_.id(holder.module),
                holder.phase ? Json(strings_.id(*holder.phase)) : Json(nullptr),
                nullable(holder.thread_id),
                strings_.id(holder.api),
                holder.temporary ? kTemporary : 0,
                holder.longest_life_ns};
    if (!holder.stack.empty()) row.push_back(stack_json(holder.stack));
    return row;
  }
  Json stack_json(const std::vector<Frame>& stack) {
    Json json = Json::array();
    for (const Frame& frame : stack) {
      if (frame.module.starts_with(kOwnModule)) continue;
      json.insert(json.end(), {strings_.id(frame_title(frame)), place_id(frame)});
    }
    return json;
  }
  Json rows_json(const std::vector<Holder>& rows) {
    return array_of(rows, [&](const Holder& row) { return row_json(row); });
  }
  Json table_json(const HolderTable& table) {
    return object("rows, other_bytes, other_rows", rows_json(table.rows), table.other_bytes,
                  table.other_rows);
  }

  static bool is_main(const ScopeInfo& info) { return info.kind == 0; }
  static std::vector<ScopeId> sums(const Profile& profile) {
    std::vector<ScopeId> scopes = profile.scopes();
    std::erase_if(scopes, [&](ScopeId id) { return !is_main(profile.scope_info(id)); });
    return scopes;
  }

  Json scopes_json() {
    Json all = Json::array();
    for (const ScopeId id : profile_.scopes()) {
      const ScopeInfo& info = profile_.scope_info(id);
      const PeakFinder::Scope& sum = profile_.sum(id);
      const std::vector<Contribution> held = profile_.at_peak(id);
      Json scope = object("name, text, device", info.name, profile_.scope_text(id), info.device);
      scope["kind"] = info.kind == 0 ? "" : std::string(kind_name(info.kind));
      extend(scope, "counts, bytes, time_ns, phase", info.kind == 0 || counts_into_sum(info.kind),
             sum.peak, profile_.to_ns(sum.peak_ticks), profile_.phase_at_peak(id));
      if (sum.peak_group != kNoGroup) {
        const Contribution step{sum.peak_group, sum.peak_step_bytes, 1};
        scope["trigger"] = row_json(profile_.sites().holder(step, false));
      }
      Json tables;
      const size_t top = is_main(info) ? kMainRows : kOtherRows;
      for (Attribution& rows : attributions_) {
        const HolderTable table =
            rows.table(held, top, is_main(info) && rows.by() == GroupBy::kSite);
        if (rows.by() == GroupBy::kTag && no_tags(table)) continue;
        tables[std::string(group_by_name(rows.by()))] = table_json(table);
      }
      extend(scope, "tables, lines, flame", std::move(tables), source_.bytes_json(held),
             flame_json(held, is_main(info) ? kMainCalls : kOtherCalls));
      if (is_one_side(info)) scope["temporaries"] = temporaries_json(id);
      all.push_back(std::move(scope));
    }
    return all;
  }

  /// Whether the scope is one device, or the host.
  static bool is_one_side(const ScopeInfo& info) {
    return is_main(info) && (info.device >= 0 || info.name == "host");
  }

  /// A flame graph of who allocated blocks that were freed at once, by their number.
  Json temporaries_json(ScopeId scope) {
    const Replay& replay = profile_.replay();
    std::vector<Contribution> freed;
    for (GroupId id{0}; id < replay.sites().group_count(); ++id) {
      const uint64_t count = replay.peaks().group(id).temporary_count;
      if (count > 0 && profile_.counts_into(id, scope)) freed.push_back({id, count, count});
    }
    return freed.empty() ? Json(nullptr) : flame_json(freed, kOtherCalls);
  }

  static bool no_tags(const HolderTable& table) {
    return std::ranges::all_of(table.rows, [](const Holder& row) { return row.title == kOthers; });
  }

  /// The largest calls, nested: [name, bytes, place, calls…]. A call's own bytes are `bytes` less
  /// the bytes of its calls.
  Json flame_json(const std::vector<Contribution>& held, size_t most) {
    const CallTree tree(profile_, held, CallTree::Order::kFromOutermost);
    std::vector<uint64_t> sizes;
    collect_sizes(tree, tree.root(), sizes);
    uint64_t smallest = 1;
    if (sizes.size() > most) {
      std::nth_element(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(most),
                       sizes.end(), std::greater<>());
      smallest = sizes[most] + 1;
    }
    return call_json(tree, tree.root(), smallest, true);
  }
  static void collect_sizes(const CallTree& tree, const CallTree::Node& node,
                            std::vector<uint64_t>& sizes) {
    for (const uint32_t id : node.children) {
      sizes.push_back(tree.node(id).bytes);
      collect_sizes(tree, tree.node(id), sizes);
    }
  }
  Json call_json(const CallTree& tree, const CallTree::Node& node, uint64_t smallest, bool root) {
    Json json = {strings_.id(root ? "" : CallTree::title(node)), node.bytes,
                 node.frame == nullptr ? strings_.id("") : place_id(*node.frame)};
    for (const uint32_t id : node.children) {
      if (tree.node(id).bytes >= smallest)
        json.push_back(call_json(tree, tree.node(id), smallest, false));
    }
    return json;
  }
  uint32_t place_id(const Frame& frame) {
    const std::optional<uint32_t> file = source_.file_of(frame);
    return file ? strings_.place_id(place(frame), *file, frame.line) : strings_.id(place(frame));
  }
  static std::string place(const Frame& frame) {
    if (frame.file.empty()) return frame.module;
    const std::string file(file_name(frame.file));
    return frame.module + (frame.module.empty() ? "" : " · ") + file +
           (frame.line > 0 ? ":" + std::to_string(frame.line) : "");
  }

  Json phases_json() const {
    Json all = Json::array();
    for (const PhaseBand& band : phase_bands(profile_, kMaxLanes)) {
      Json instances = Json::array();  // begin and length of each instance
      for (const auto& [begin_ns, end_ns] : band.instances)
        instances.insert(instances.end(), {begin_ns, end_ns - begin_ns});
      all.push_back(object("name, label, lane, begin_ns, end_ns, instances", band.name,
                           band.label(), band.lane, band.begin_ns, band.end_ns,
                           std::move(instances)));
    }
    return all;
  }

  /// What each scope consisted of over time: the names of its parts, then for each moment [ns since
  /// the moment before, change of each part's bytes…].
  Json stacked_json() {
    Json all = Json::object();
    for (const Stacked& sum : instants_.stacked) {
      Json ways = Json::object();
      for (const Stacked::By& by : sum.ways) {
        if (by.has_names()) ways[std::string(group_by_name(by.by))] = stacked_by_json(by);
      }
      all[sum.scope] = std::move(ways);
    }
    return all;
  }
  Json stacked_by_json(const Stacked::By& by) {
    Json parts = Json::array(), moments = Json::array();
    for (const std::string& part : by.parts) parts.push_back(strings_.id(part));
    int64_t last_ns = 0;
    std::vector<uint64_t> last(by.parts.size());
    for (const Stacked::Moment& moment : by.moments) {
      moments.push_back(moment.time_ns - last_ns);
      for (size_t i = 0; i < last.size(); ++i)
        moments.push_back(static_cast<int64_t>(moment.bytes[i] - last[i]));
      last_ns = moment.time_ns;
      last = moment.bytes;
    }
    return object("parts, moments", std::move(parts), std::move(moments));
  }

  /// rows: [title, kind, module]. kinds: [device, kind, [row, bytes, count…], other bytes, other
  /// rows]. calls: caller, name and place of each. list: [ns, reason, kinds, [place, bytes…]].
  Json instants_json() {
    Json rows = Json::array();
    for (const Holder& row : instants_.rows)
      rows.push_back({strings_.id(row.title), strings_.id(row.kind), strings_.id(row.module)});
    Json list = Json::array();
    for (const Instant& instant : instants_.instants) {
      Json kinds = Json::array();
      for (const KindHolders& holders : instant.kinds) {
        Json flat = Json::array();
        for (const KindHolders::Row& row : holders.rows)
          flat.insert(flat.end(), {row.row, row.bytes, row.count});
        kinds.push_back({holders.device, std::string(kind_path(holders.kind)), std::move(flat),
                         holders.other_bytes, holders.other_rows});
      }
      Json there = Json::array();
      for (const HeldThere& held : instant.held)
        there.insert(there.end(), {held.place, held.bytes});
      list.push_back({instant.time_ns, instant.reason, std::move(kinds), std::move(there)});
    }
    Json places = Json::array();
    for (const HeldPlace& place : instants_.places)
      places.push_back({place.device, std::string(kind_path(place.kind)), place.row, place.call});
    Json calls = Json::array();
    for (const HeldCalls::Call& call : instants_.calls.calls) {
      calls.insert(calls.end(), {call.caller, strings_.id(call.title),
                                 call.frame == nullptr ? strings_.id("") : place_id(*call.frame)});
    }
    return object("rows, list, places, calls, device, host", std::move(rows), std::move(list),
                  std::move(places), std::move(calls), changes_json(instants_.device_changes),
                  changes_json(instants_.host_changes));
  }
  /// [ns since the step before, place, bytes, count…]; -1 ns: another part of the same step. null:
  /// there are too many changes.
  static Json changes_json(const std::optional<PlaceChanges>& changes) {
    if (!changes) return nullptr;
    Json flat = Json::array();
    int64_t last = 0;
    for (const PlaceChange& change : *changes) {
      // Times in a damaged log may run backwards.
      flat.insert(flat.end(),
                  {change.begins_step ? std::max<int64_t>(0, change.time_ns - last) : -1,
                   change.place, change.bytes, change.count});
      if (change.begins_step) last = std::max(last, change.time_ns);
    }
    return flat;
  }

  Json leaks_json() {
    Json all = Json::array();
    for (const ScopeId id : profile_.scopes()) {
      const ScopeInfo& info = profile_.scope_info(id);
      if (!is_one_side(info)) continue;
      const std::vector<Contribution> live = profile_.live(id);
      uint64_t bytes = 0, count = 0;
      for (const Contribution& part : live) {
        bytes += part.bytes;
        count += part.count;
      }
      Json side = table_json(profile_.sites().table(live, kListRows, true));
      extend(side, "scope, text, bytes, count, flame", info.name, profile_.scope_text(id), bytes,
             count, live.empty() ? Json(nullptr) : flame_json(live, kOtherCalls));
      all.push_back(std::move(side));
    }
    return all;
  }

  Profile& profile_;
  const TimeSeries& times_;
  const Instants& instants_;
  const ArenaHistory& arenas_;
  const std::optional<LastUses>& uses_;
  const std::optional<Summary>& run_;
  const Complete complete_;
  const PageSource source_;
  std::vector<Attribution> attributions_;
  Strings strings_;
};

/// JSON for the inside of a script element: no text in it can end the element or a line.
void write_inside_script(const std::string& json, std::ostream& out) {
  constexpr std::string_view kLineSeparator = "\xe2\x80\xa8", kParagraphSeparator = "\xe2\x80\xa9";
  size_t begin = 0;
  for (size_t i = 0; i < json.size(); ++i) {
    const std::string_view rest = std::string_view(json).substr(i, 3);
    const char* escape = json[i] == '<'                ? "\\u003c"
                         : rest == kLineSeparator      ? "\\u2028"
                         : rest == kParagraphSeparator ? "\\u2029"
                                                       : nullptr;
    if (escape == nullptr) continue;
    out << std::string_view(json).substr(begin, i - begin) << escape;
    if (json[i] != '<') i += 2;
    begin = i + 1;
  }
  out << std::string_view(json).substr(begin);
}

}  // namespace

PageLog read_for_page(Profile& profile, const TimeSeries& times, const Progress& progress) {
  Instants instants = live_at_instants(profile, times, kHoldersOfInstant, progress);
  ArenaHistory arenas = arena_history(profile, times, instants, progress);
  std::optional<LastUses> uses;
  if (has_uses(profile.definitions())) uses = last_uses(profile, progress);
  return {std::move(instants), std::move(arenas), std::move(uses)};
}

std::string page_data(Profile& profile, const TimeSeries& times, const PageLog& log,
                      bool with_source, Complete complete) {
  return PageData(profile, times, log, with_source, complete).make();
}

std::string page_text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool has_page() {
  return !page_template().empty();
}

void require_page() {
  if (has_page()) return;
  throw std::runtime_error(
      "this gpupeak was built without the page: tools/bootstrap.sh fetches what it is made of; "
      "then configure and build again");
}

void write_page(std::string_view list, const std::vector<std::string>& items,
                const std::string& tool_version, std::ostream& out) {
  require_page();
  const std::string_view page = page_template();
  const size_t mark = page.find(kDataMark);
  if (mark == std::string_view::npos)
    throw std::logic_error("write_html: the page has no data mark");
  out << page.substr(0, mark) << "{\"schema\":\"gpupeak.page/1\",\"version\":\"" << tool_version
      << "\",\"" << list << "\":[";
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out << ",\n";
    write_inside_script(items[i], out);
  }
  out << "]}" << page.substr(mark + kDataMark.size());
}

void write_html(const std::vector<std::string>& runs, const std::string& tool_version,
                std::ostream& out) {
  write_page("runs", runs, tool_version, out);
}

}  // namespace gpupeak::collector
