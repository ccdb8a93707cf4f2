// massif.out: a hundred snapshots over the run. The peak and the last one have a tree of their
// callers, innermost call first.
#include <fmt/format.h>

#include <algorithm>

#include "collector/analyze/analyze.h"
#include "collector/analyze/call_tree.h"
#include "collector/export/export.h"
#include "collector/summary/run_text.h"

namespace gpupeak::collector {
namespace {

constexpr size_t kSnapshots = 100;
// massif's own defaults.
constexpr double kThresholdPercent = 1.0;
constexpr uint32_t kTreeDepth = 30;

struct MassifSnapshot {
  uint64_t bytes = 0;
  uint64_t ticks = 0;
};

/// The largest value in each of a hundred equal parts of the run.
class SnapshotTimes : public ReplayObserver {
 public:
  SnapshotTimes(const Profile& profile, ScopeId scope)
      : scope_(scope),
        start_(profile.log().header().start_ticks),
        span_(std::max<uint64_t>(profile.replay().last_ticks(), start_ + 1) - start_) {}

  const std::vector<MassifSnapshot>& snapshots() const { return snapshots_; }

 private:
  void after(const Event& event) override {
    const uint64_t since = std::max(event.ticks, start_) - start_;
    const size_t part = static_cast<size_t>(static_cast<double>(since) /
                                            static_cast<double>(span_) * (kSnapshots - 1));
    const uint64_t bytes = replay().current(scope_);
    if (snapshots_.empty() || part > part_) {
      snapshots_.push_back({bytes, event.ticks});
      part_ = part;
    } else if (bytes > snapshots_.back().bytes) {
      snapshots_.back() = {bytes, event.ticks};
    }
  }

  const ScopeId scope_;
  const uint64_t start_, span_;
  size_t part_ = 0;
  std::vector<MassifSnapshot> snapshots_;
};

class Massif {
 public:
  Massif(Profile& profile, ScopeId scope, std::ostream& out)
      : profile_(profile), scope_(scope), out_(out) {}

  void write_header() {
    out_ << "desc: gpupeak, " << profile_.scope_text(scope_)
         << "\ncmd: " << command_text(run_of(profile_.log())) << "\ntime_unit: ms\n";
  }

  void write(uint64_t ticks, uint64_t bytes) {
    head(ticks, bytes);
    out_ << "heap_tree=empty\n";
  }
  void write(uint64_t ticks, uint64_t bytes, const char* kind,
             const std::vector<Contribution>& held) {
    head(ticks, bytes);
    out_ << "heap_tree=" << kind << '\n';
    const CallTree tree(profile_, held, CallTree::Order::kFromInnermost, kTreeDepth);
    write_node(tree, tree.root(), "(heap allocation functions) malloc/new/new[], --alloc-fns, etc.",
               0);
  }

 private:
  void head(uint64_t ticks, uint64_t bytes) {
    constexpr int64_t kNsPerMs = 1'000'000;
    const int64_t ms = std::max<int64_t>(profile_.to_ns(ticks) / kNsPerMs, 0);
    out_ << fmt::format(
        "#-----------\nsnapshot={}\n#-----------\ntime={}\nmem_heap_B={}\nmem_heap_extra_B=0\n"
        "mem_stacks_B=0\n",
        number_++, ms, bytes);
  }

  static std::string place(const CallTree::Node& node) {
    const Frame* const frame = node.frame;
    if (frame == nullptr) return fmt::format("0x0: {}", node.title);
    const std::string name = frame->function.empty() ? "???" : frame->function;
    const std::string where = frame->file.empty() ? fmt::format("in {}", frame->module)
                                                  : fmt::format("{}:{}", frame->file, frame->line);
    return fmt::format("0x{:X}: {} ({})", frame->address, name, where);
  }

  void write_node(const CallTree& tree, const CallTree::Node& node, const std::string& title,
                  uint32_t depth) {
    // The tree is no deeper than kTreeDepth.
    const auto [shown, rest_bytes, rest_count, rest] =
        tree.below(node, {kThresholdPercent, 0}, depth);
    const std::string indent(depth, ' ');
    out_ << fmt::format("{}n{}: {} {}\n", indent, shown.size() + (rest > 0), node.bytes, title);
    for (const CallTree::Node* child : shown) write_node(tree, *child, place(*child), depth + 1);
    if (rest == 0) return;
    out_ << fmt::format("{} n0: {} in {} place{}, {}below massif's threshold ({:.2f}%)\n", indent,
                        rest_bytes, rest, rest == 1 ? "" : "s", rest == 1 ? "" : "all ",
                        kThresholdPercent);
  }

  Profile& profile_;
  const ScopeId scope_;
  std::ostream& out_;
  uint64_t number_ = 0;
};

}  // namespace

void export_massif(Profile& profile, const ExportOptions& options, std::ostream& out) {
  const ScopeId scope = profile.scope(options.scope);
  const PeakFinder::Scope& sum = profile.sum(scope);
  SnapshotTimes series(profile, scope);
  profile.replay_again(series, options.progress);
  Massif massif(profile, scope, out);
  massif.write_header();
  massif.write(profile.log().header().start_ticks, 0);
  for (const MassifSnapshot& snapshot : series.snapshots()) {
    if (snapshot.ticks == sum.peak_ticks && snapshot.bytes == sum.peak && sum.peak > 0) {
      massif.write(snapshot.ticks, snapshot.bytes, "peak", profile.at_peak(scope));
    } else {
      massif.write(snapshot.ticks, snapshot.bytes);
    }
  }
  massif.write(profile.replay().last_ticks(), sum.current, "detailed", profile.live(scope));
}

}  // namespace gpupeak::collector
