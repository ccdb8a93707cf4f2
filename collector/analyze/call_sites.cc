#include <array>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "collector/analyze/attribution.h"
#include "collector/analyze/summary_parts.h"

namespace gpupeak::collector {
namespace {

constexpr uint64_t kLargeShare = 20;  // of a peak: 5 %
constexpr uint64_t kLargeOfHeap = UINT64_C(1) << 20;

class CallSites {
 public:
  CallSites(const Replay& replay, SiteTitles& titles) : replay_(replay), titles_(titles) {}

  void tell_apart(bool of_host) {
    const SiteTable& sites = replay_.sites();
    for (ScopeId id{}; id < sites.scopes().size(); ++id) {
      if (of_host || sites.scopes()[id].name.starts_with("device")) look_at(id);
    }
    if (functions_.empty()) return;
    for (GroupId group{0}; group < sites.group_count(); ++group) {
      const uint8_t kind = sites.context_of(group).kind;
      if (kind == GPUPEAK_KIND_HEAP || (is_mapping(kind) && !of_host)) continue;
      note(group, is_mapping(kind) ? mappings_ : buffers_);
    }
    for (const uint32_t stack : in_arenas_) note(stack, 2, buffers_);
    for (const GroupId group : heap_) note(group, heap_calls_);
    for (const Calls* calls : {&buffers_, &mappings_, &heap_calls_}) number(*calls);
    titles_.tell_calls_apart(std::move(functions_), std::move(calls_));
  }

 private:
  using Calls = std::map<std::pair<uint32_t, uint64_t>, uint64_t>;  // to how many blocks they took
  /// By kind and what a row's title has; of calls that are told apart the address.
  using Row = std::array<uint64_t, SiteTitles::kTitleFrames + 1>;
  using Sites = std::map<std::pair<const SiteTitles::Site*, uint8_t>, uint64_t>;  // to their bytes

  /// A program's first call of the driver makes mappings for the context, whatever it asks for.
  static bool is_mapping(uint8_t kind) {
    return kind == GPUPEAK_KIND_MMAP_ANON || kind == GPUPEAK_KIND_MMAP_FILE ||
           kind == GPUPEAK_KIND_BACKING || kind == GPUPEAK_KIND_DRIVER;
  }

  static bool has_no_line(const SiteTitles::TitlePart& part) {
    return part.frame != nullptr && part.place == 0 && part.run == 0 && !part.frame->is_python &&
           part.frame->name_source != NameSource::kPerfMap && !part.frame->function.empty() &&
           part.frame->address != 0;
  }

  void look_at(ScopeId scope) {
    const uint64_t peak = replay_.peaks().scope(scope).peak;
    if (peak == 0) return;
    const PeakParts parts = parts_at_peak(replay_, scope);
    std::vector<uint32_t> stacks;
    for (const Contribution& part : parts.outside)
      stacks.push_back(replay_.sites().info(part.group).stack);
    titles_.prepare(stacks);
    Sites held;
    for (const Contribution& part : parts.outside) {
      const uint32_t stack = replay_.sites().info(part.group).stack;
      const uint8_t kind = replay_.sites().context_of(part.group).kind;
      held[{&titles_.site(stack), kind}] += part.bytes;
      if (kind == GPUPEAK_KIND_HEAP) heap_.insert(part.group);
    }
    for (const ArenaPart& part : parts.in_arenas) {
      if (part.holder->what != ArenaTable::What::kInUse || part.holder->name != 0) continue;
      held[{&titles_.site(part.holder->stack), GPUPEAK_KIND_NONE}] += part.bytes;
      in_arenas_.insert(part.holder->stack);
    }
    for (size_t part = 0; part < SiteTitles::kTitleFrames; ++part) look_at(held, part, peak);
  }

  /// Looks for rows of which this part hides several calls of a function that hold much.
  void look_at(const Sites& held, size_t part, uint64_t peak) {
    std::map<Row, std::map<uint64_t, uint64_t>> rows;  // to bytes by address
    for (const auto& [site, bytes] : held) {
      const auto& [named, kind] = site;
      if (part >= named->frame_count || !has_no_line(named->parts[part])) continue;
      Row row{kind};
      for (size_t i = 0; i < named->frame_count; ++i) {
        const SiteTitles::TitlePart& one = named->parts[i];
        const bool apart = i < part && has_no_line(one) && functions_.contains(one.id);
        row[i + 1] = apart ? one.frame->address : uint64_t{one.place} << 32 | one.id;
      }
      rows[row][named->parts[part].frame->address] += bytes;
      ids_[row] = named->parts[part].id;
    }
    for (const auto& [row, calls] : rows) {
      size_t large = 0;
      for (const auto& [address, bytes] : calls) {
        const bool counts = row[0] != GPUPEAK_KIND_HEAP || bytes >= kLargeOfHeap;
        large += counts && bytes >= peak / kLargeShare;
      }
      if (large > 1) functions_.insert(ids_[row]);
    }
    ids_.clear();
  }

  void note(uint32_t stack, uint64_t blocks, Calls& calls) {
    const SiteTitles::Site& site = titles_.site(stack);
    for (size_t i = 0; i < site.frame_count; ++i) {
      const SiteTitles::TitlePart& part = site.parts[i];
      if (!has_no_line(part) || !functions_.contains(part.id)) continue;
      // Who calls a function that takes the memory is no buffer, however often it calls.
      calls[{part.id, part.frame->address}] += i == 0 ? blocks : 2;
    }
  }

  void note(GroupId group, Calls& calls) {
    note(replay_.sites().info(group).stack, replay_.peaks().group(group).alloc_count, calls);
  }

  void number(const Calls& calls) {
    for (const auto& [call, blocks] : calls) {
      uint32_t& last = last_[call.first];
      if (calls_.try_emplace(call, CallNumber{last + 1, blocks == 1}).second) ++last;
    }
  }

  const Replay& replay_;
  SiteTitles& titles_;
  std::set<uint32_t> functions_;  ///< whose calls are told apart
  std::map<Row, uint32_t> ids_;
  std::set<uint32_t> in_arenas_;  ///< stacks
  std::set<GroupId> heap_;
  Calls buffers_, mappings_, heap_calls_;
  std::map<uint32_t, uint32_t> last_;  ///< numbers by function
  CallNumbers calls_;
};

}  // namespace

void tell_calls_apart(const Replay& replay, SiteTitles& titles, bool of_host) {
  if (!titles.symbolizer().tells_calls_apart()) CallSites(replay, titles).tell_apart(of_host);
}

}  // namespace gpupeak::collector
