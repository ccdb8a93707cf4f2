// pprof's profile.proto, compressed. Field numbers are those of
// https://github.com/google/pprof/blob/main/proto/profile.proto. A sample's locations go from the
// leaf to the root; a location's lines go from the inlined function to the function into which it
// was inlined.
#include <algorithm>
#include <protozero/pbf_builder.hpp>

#include "collector/export/export.h"
#include "collector/log/kinds.h"
#include "collector/summary/site_title.h"
#include "collector/text/function_names.h"
#include "collector/text/lists.h"
#include "collector/text/sanitize.h"
#include "collector/text/text_format.h"
#include "collector/timeline/moment.h"

namespace gpupeak::collector {
namespace {

using Number = protozero::pbf_tag_type;
enum class Field : Number {
  kSampleType = 1,
  kSample = 2,
  kMapping = 3,
  kLocation = 4,
  kFunction = 5,
  kStringTable = 6,
  kDropFrames = 7,
  kTimeNanos = 9,
  kDurationNanos = 10,
  kComment = 13,
  kDefaultSampleType = 14
};
enum class ValueType : Number { kType = 1, kUnit = 2 };
enum class Sample : Number { kLocationId = 1, kValue = 2, kLabel = 3 };
enum class Label : Number { kKey = 1, kStr = 2, kNum = 3 };
enum class MappingField : Number {
  kId = 1,
  kMemoryStart = 2,
  kMemoryLimit = 3,
  kFilename = 5,
  kBuildId = 6,
  kHasFunctions = 7,
  kHasFilenames = 8,
  kHasLineNumbers = 9,
  kHasInlineFrames = 10
};
enum class Location : Number { kId = 1, kMappingId = 2, kAddress = 3, kLine = 4 };
enum class Line : Number { kFunctionId = 1, kLine = 2 };
enum class Function : Number { kId = 1, kName = 2, kSystemName = 3, kFilename = 4 };
template <class Message>
using Writer = protozero::pbf_builder<Message>;

/// Allocation functions (drop_frames). Readers leave these, and what they call, out of their
/// graphs, so that a leaf is the function that asked for the memory.
constexpr std::string_view kDropFrames =
    "(__libc_)?(malloc|calloc|realloc|reallocarray|memalign|valloc|pvalloc|aligned_alloc|posix_"
    "memalign|mmap(64)?)|operator new.*|cu(da)?(Mem|Malloc|HostAlloc|MemAlloc).*";

class Pprof {
 public:
  Pprof(Profile& profile, const Held& held)
      : profile_(profile), scope_(held.scope), what_(held.is_peak() ? "peak" : "live") {
    string("");
    if (!held.is_peak()) comment_ = ", live at " + instant(held.time_ns) + ", " + held.moment;
    for (const Contribution& part : held.takers) held_[part.group] = part;
  }

  std::string write() {
    for (const auto& [type, unit] : {std::pair{what_ + "_space", "bytes"},
                                     {what_ + "_objects", "count"},
                                     {"leaked_space", "bytes"},
                                     {"alloc_space", "bytes"}}) {
      Writer<ValueType> value_type(writer_, Field::kSampleType);
      value_type.add_int64(ValueType::kType, string(type));
      value_type.add_int64(ValueType::kUnit, string(unit));
    }
    for (GroupId group{0}; group < profile_.replay().sites().group_count(); ++group) {
      if (profile_.counts_into(group, scope_)) add_sample(group);
    }
    for (const auto& [module, mapping] : mappings_) add_mapping(module, mapping);
    const auto start = static_cast<int64_t>(profile_.log().header().start_realtime_ns);
    writer_.add_int64(Field::kTimeNanos, start);
    writer_.add_int64(Field::kDurationNanos, profile_.to_ns(profile_.replay().last_ticks()));
    writer_.add_int64(Field::kComment,
                      string("gpupeak, scope " + profile_.scope_info(scope_).name + comment_));
    for (const Warning& warning : profile_.quality().warnings)
      writer_.add_int64(Field::kComment, string(code_text(warning.code) + " " + warning.message));
    writer_.add_int64(Field::kDropFrames, string(std::string(kDropFrames)));
    writer_.add_int64(Field::kDefaultSampleType, string(what_ + "_space"));
    for (const std::string* text : strings_.all()) writer_.add_string(Field::kStringTable, *text);
    return std::move(out_);
  }

 private:
  struct Mapping {
    uint64_t id;
    uint64_t end;  ///< behind the highest address seen
  };

  int64_t string(const std::string& text) { return strings_.of(text); }

  void add_sample(GroupId group) {
    const PeakFinder::Group& sums = profile_.replay().peaks().group(group);
    const Contribution peak = value_or(held_, group, {group, 0, 0});
    const SiteContext& context = profile_.replay().sites().context_of(group);
    if (sums.alloc_bytes == 0) return;
    const std::vector<uint64_t> locations =
        locations_of(profile_.replay().sites().info(group).stack);
    const std::array<int64_t, 4> values{
        static_cast<int64_t>(peak.bytes), static_cast<int64_t>(peak.count),
        static_cast<int64_t>(sums.live_bytes), static_cast<int64_t>(sums.alloc_bytes)};
    Writer<Sample> sample(writer_, Field::kSample);
    sample.add_packed_uint64(Sample::kLocationId, locations.begin(), locations.end());
    sample.add_packed_int64(Sample::kValue, values.begin(), values.end());
    add_label(sample, "kind", std::string(kind_path(context.kind)));
    add_label(sample, "phase", profile_.sites().phase_name(context.phase).value_or(""));
    add_label(sample, "api", profile_.definitions().shown_string(context.api));
    Writer<Label> thread(sample, Sample::kLabel);
    thread.add_int64(Label::kKey, string("thread"));
    thread.add_int64(Label::kNum, context.tid);
  }

  void add_label(Writer<Sample>& sample, const std::string& key, const std::string& value) {
    if (value.empty()) return;
    Writer<Label> label(sample, Sample::kLabel);
    label.add_int64(Label::kKey, string(key));
    label.add_int64(Label::kStr, string(value));
  }

  std::vector<uint64_t> locations_of(uint32_t stack) {
    const std::vector<StackNode>& nodes = profile_.definitions().nodes();
    const bool python = profile_.has_python(stack);
    std::vector<uint64_t> locations;
    for (uint32_t node = stack; node != 0 && locations.size() < 2 * GPUPEAK_MAX_FRAMES;
         node = nodes[node].parent) {
      const ResolvedAddress& resolved = profile_.symbolizer().resolve(node);
      if (resolved.frames.front().module.starts_with(kOwnModule)) continue;
      if (python && resolved.is_interpreter()) continue;
      locations.push_back(location(nodes[node], resolved));
    }
    return locations;
  }

  uint64_t location(const StackNode& node, const ResolvedAddress& resolved) {
    const auto [entry, added] = locations_.try_emplace(&resolved, locations_.size() + 1);
    if (!added) return entry->second;
    std::vector<std::pair<uint64_t, int64_t>> lines;
    for (const Frame& frame : resolved.frames) lines.emplace_back(function(frame), frame.line);
    uint64_t mapping_id = 0;
    if (node.module != 0) {
      Mapping& mapping =
          mappings_.try_emplace(node.module, Mapping{mappings_.size() + 1, 0}).first->second;
      mapping.end = std::max(mapping.end, node.ip + 1);
      mapping_id = mapping.id;
    }
    Writer<Location> location(writer_, Field::kLocation);
    location.add_uint64(Location::kId, entry->second);
    location.add_uint64(Location::kMappingId, mapping_id);
    location.add_uint64(Location::kAddress, node.ip);
    for (const auto& [function_id, number] : lines) {
      Writer<Line> line(location, Location::kLine);
      line.add_uint64(Line::kFunctionId, function_id);
      line.add_int64(Line::kLine, number);
    }
    return entry->second;
  }

  uint64_t function(const Frame& frame) {
    const std::string name = frame_name(frame);
    const auto [entry, added] = functions_.try_emplace({name, frame.file}, functions_.size() + 1);
    if (!added) return entry->second;
    Writer<Function> function(writer_, Field::kFunction);
    function.add_uint64(Function::kId, entry->second);
    function.add_int64(Function::kName, string(name));
    function.add_int64(Function::kSystemName, string(name));
    function.add_int64(Function::kFilename, string(frame.file));
    return entry->second;
  }

  void add_mapping(uint32_t id, const Mapping& from) {
    const Module& module = profile_.definitions().modules()[id];
    Writer<MappingField> mapping(writer_, Field::kMapping);
    mapping.add_uint64(MappingField::kId, from.id);
    mapping.add_uint64(MappingField::kMemoryStart, module.bias);
    mapping.add_uint64(MappingField::kMemoryLimit, from.end);
    mapping.add_int64(MappingField::kFilename, string(profile_.definitions().shown(module.path)));
    mapping.add_int64(MappingField::kBuildId,
                      string(profile_.definitions().sanitizer().id(module.build_id)));
    // The profile has all names and lines, so readers need not look for the files.
    mapping.add_bool(MappingField::kHasFunctions, true);
    mapping.add_bool(MappingField::kHasFilenames, true);
    mapping.add_bool(MappingField::kHasLineNumbers, true);
    mapping.add_bool(MappingField::kHasInlineFrames, true);
  }

  Profile& profile_;
  const ScopeId scope_;
  const std::string what_;
  std::string comment_;
  std::unordered_map<GroupId, Contribution> held_;
  std::string out_;
  Writer<Field> writer_{out_};
  Numbers<std::string> strings_;
  std::unordered_map<const ResolvedAddress*, uint64_t> locations_;
  std::map<std::pair<std::string, std::string>, uint64_t> functions_;
  std::map<uint32_t, Mapping> mappings_;
};

}  // namespace

void export_pprof(Profile& profile, const ExportOptions& options, std::ostream& out) {
  const Held held = held_at(profile, profile.scope(options.scope), options.at, options.progress);
  const std::string plain = Pprof(profile, held).write();
  write_packed(OutputPacking::kGzip, out, [&](std::ostream& packed) { packed << plain; });
}

}  // namespace gpupeak::collector
