#include <map>
#include <tuple>
#include <utility>

#include "collector/analyze/attribution.h"
#include "collector/text/function_names.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {

Tagger::Tagger(const Replay& replay, Symbolizer& symbolizer, std::vector<Rule> rules)
    : replay_(replay),
      rules_(FrameRules(replay.log().definitions(), symbolizer, std::move(rules))) {
  names_.of(std::string(kOthers));
}

/// `named`: the tag that the program set, or 0.
uint32_t Tagger::tag_of(uint32_t named, PhaseId phase, uint32_t stack) {
  if (named != 0) return names_.of(replay_.log().definitions().shown(replay_.name(named)));
  const std::string_view in = phase == 0 ? "" : replay_.name(replay_.phases().phases()[phase].name);
  const uint32_t rule = rules_.rule_of(stack, in);
  if (rule == kNoRule) return 0;
  if (rule >= of_rule_.size()) of_rule_.resize(rule + 1);
  if (!of_rule_[rule])
    of_rule_[rule] = names_.of(replay_.log().definitions().shown(rules_.name(rule)));
  return *of_rule_[rule];
}

uint32_t Tagger::tag(GroupId group) {
  const SiteContext& context = replay_.sites().context_of(group);
  return tag_of(context.tag, context.phase, replay_.sites().info(group).stack);
}

uint32_t Tagger::tag(const ArenaTable::Holder& holder) {
  if (holder.what == ArenaTable::What::kIdle) return names_.of(idle_title(replay_, holder));
  const uint32_t named = holder.cause.tag != 0 ? holder.cause.tag : holder.name;
  return tag_of(named, holder.cause.phase, holder.stack);
}

namespace {

/// Libraries whose kernels are called theirs, by how their files' names begin.
constexpr std::pair<std::string_view, std::string_view> kLibraries[] = {
    {"libcublas", "cuBLAS"},     {"libcudnn", "cuDNN"},       {"libcufft", "cuFFT"},
    {"libcusparse", "cuSPARSE"}, {"libcusolver", "cuSOLVER"}, {"libcurand", "cuRAND"},
    {"libcutensor", "cuTENSOR"}, {"libnccl", "NCCL"},         {"libnvinfer", "TensorRT"},
    {"libnvjpeg", "nvJPEG"},     {"libnpp", "NPP"},
};

/// Whether a launch's frame in this file says nothing of who launched.
bool passes_on(std::string_view file) {
  return file.starts_with("libcudart") || file.starts_with("libcuda.") ||
         file.starts_with("libgpupeak");
}

/// The types of the parameters of a demangled function; nullopt: it has none in its name.
std::optional<std::vector<std::string_view>> parameters_of(std::string_view function) {
  const size_t end = function.rfind(')');
  if (end == std::string_view::npos) return std::nullopt;
  size_t begin = std::string_view::npos;
  for (size_t at = 0; at <= end;) {
    const size_t behind = opens_bracket(function[at]) ? after_bracket(function, at) : at + 1;
    if (function[at] == '(' && behind == end + 1) begin = at;
    at = behind;
  }
  if (begin == std::string_view::npos) return std::nullopt;
  std::vector<std::string_view> types;
  size_t from = begin + 1;
  for (size_t at = from; at <= end;) {
    if (function[at] == ',' || at == end) {
      if (at > from) types.push_back(function.substr(from, at - from));
      from = at + 1;
    }
    at = opens_bracket(function[at]) ? after_bracket(function, at) : at + 1;
  }
  return types;
}

/// Cuts off what qualifies the parameter itself.
std::string_view plain(std::string_view type) {
  constexpr std::string_view kAround[] = {" ", "const", "volatile", "__restrict__", "__restrict"};
  while (type.starts_with(' ')) type.remove_prefix(1);
  for (bool again = true; again;) {
    again = false;
    for (const std::string_view word : kAround) {
      if (!type.ends_with(word) || type.size() == word.size()) continue;
      type.remove_suffix(word.size());
      again = true;
    }
  }
  return type;
}

bool is_number(std::string_view type) {
  constexpr std::string_view kNumbers[] = {
      "bool",           "char",      "signed char",        "unsigned char", "short",
      "unsigned short", "int",       "unsigned int",       "unsigned",      "long",
      "unsigned long",  "long long", "unsigned long long", "float",         "double",
      "long double",    "__int128",  "unsigned __int128"};
  return std::find(std::begin(kNumbers), std::end(kNumbers), type) != std::end(kNumbers);
}

constexpr uint64_t kOneInLarge = 20;  // of a peak: a part of a row that is worth telling

void count(BufferRole& role, const BlockRoles::Role& seen) {
  constexpr std::pair<uint64_t, uint64_t BufferRole::*> kCounts[] = {
      {GPUPEAK_ROLE_COPIED_IN, &BufferRole::copied_in},
      {GPUPEAK_ROLE_COPIED_OUT, &BufferRole::copied_out},
      {GPUPEAK_ROLE_COPIED_TO, &BufferRole::copied_to},
      {GPUPEAK_ROLE_COPIED_FROM, &BufferRole::copied_from},
      {GPUPEAK_ROLE_FILLED, &BufferRole::filled},
      {GPUPEAK_ROLE_TEXTURE, &BufferRole::textures},
      {GPUPEAK_ROLE_ADDRESS_COPIED, &BufferRole::addresses_copied}};
  for (const auto& [place, figure] : kCounts) {
    if (seen.place == place) role.*figure += seen.count;
  }
  role.passed_on |= seen.place == GPUPEAK_ROLE_PASSED_ON;  // other places are a newer gpupeak's
}

}  // namespace

std::optional<KernelAccess> access_of(std::string_view function, size_t parameter) {
  const auto types = parameters_of(function);
  if (!types || parameter >= types->size()) return KernelAccess::kGiven;
  std::string_view type = plain((*types)[parameter]);
  if (is_number(type)) return std::nullopt;
  if (!type.ends_with('*')) return KernelAccess::kGiven;
  type.remove_suffix(1);
  while (type.ends_with(' ')) type.remove_suffix(1);
  return type.ends_with("const") || type.starts_with("const ") ? KernelAccess::kRead
                                                               : KernelAccess::kWritten;
}

RowRoles::RowRoles(const Replay& replay, ScopeId scope)
    : replay_(replay), peak_bytes_(replay.peaks().scope(scope).peak) {
  const BlockRoles& roles = replay.device().roles();
  const ScopeInfo& info = replay.sites().scopes()[scope];
  are_recorded_ = roles.are_recorded() && info.kind == 0 && info.device >= 0;
  if (!are_recorded_) return;
  roles.visit_at_peak(
      info.device, replay.peaks().scope(scope).peak_ticks,
      [this](const BlockRoles::Block& block) { blocks_[block.group].push_back(&block); });
}

RowRoles::Kernel RowRoles::named(uint64_t number) const {
  const Definitions& definitions = replay_.log().definitions();
  const BlockRoles::Kernel known = replay_.device().roles().kernel(number);
  Kernel kernel{demangle(std::string(definitions.string(known.name))), ""};
  for (uint32_t at = known.stack; at != 0; at = definitions.nodes()[at].parent) {
    const StackNode& node = definitions.nodes()[at];
    if (node.module == 0) break;
    const std::string_view file = file_name(definitions.modules()[node.module].path);
    if (passes_on(file)) continue;
    for (const auto& [begin, name] : kLibraries) {
      if (file.starts_with(begin)) kernel.library = name;
    }
    break;
  }
  return kernel;
}

const RowRoles::Kernel& RowRoles::kernel(uint64_t number) const {
  const auto [kernel, is_new] = kernels_.try_emplace(number);
  if (is_new) kernel->second = named(number);
  return kernel->second;
}

std::optional<BufferRole> RowRoles::role_of(std::span<const GroupId> groups) const {
  if (!are_recorded_) return std::nullopt;
  Blocks all;
  for (const GroupId group : groups) {
    if (const auto* const blocks = value_in(blocks_, group))
      all.insert(all.end(), blocks->begin(), blocks->end());
  }
  BufferRole role = role_of_blocks(all);
  if (role.launches_sampled) return role;
  using Signature = std::pair<uint64_t, std::set<std::pair<uint64_t, uint64_t>>>;
  std::map<Signature, Blocks> alike;  // by size, kernels and places
  for (const BlockRoles::Block* block : all) {
    Signature signature{block->bytes, {}};
    for (const BlockRoles::Role& seen : block->roles)
      signature.second.emplace(seen.kernel, seen.place);
    alike[std::move(signature)].push_back(block);
  }
  if (alike.size() == 1) return role;
  for (const auto& [signature, blocks] : alike) {
    const uint64_t held = signature.first * blocks.size();
    if (held * kOneInLarge >= peak_bytes_)
      role.alike.push_back({held, blocks.size(), role_of_blocks(blocks)});
  }
  std::ranges::stable_sort(role.alike, std::ranges::greater(), &BlocksAlike::bytes);
  return role;
}

BufferRole RowRoles::role_of_blocks(const Blocks& blocks) const {
  const Definitions& definitions = replay_.log().definitions();
  BufferRole role;
  role.launches_sampled = !replay_.device().roles().have_all_launches();
  bool is_timed = !role.launches_sampled;
  uint64_t first = UINT64_MAX, last = 0, allocated = UINT64_MAX;
  std::optional<uint64_t> freed = 0;
  struct Launches {
    std::set<uint32_t> arguments;
    uint64_t count = 0;
  };
  std::map<std::tuple<std::string, std::string, KernelAccess>, Launches> kernels;
  const auto add = [&](const BlockRoles::Block& block) {
    allocated = std::min(allocated, block.ticks);
    freed = freed && block.freed ? std::optional(std::max(*freed, *block.freed)) : std::nullopt;
    std::map<uint64_t, uint64_t> launches;  // by kernel
    bool was_used = block.uses.count > 0;
    for (const BlockRoles::Role& seen : block.roles) {
      was_used |= seen.kernel != 0 || seen.place != GPUPEAK_ROLE_PASSED_ON;
      if (seen.kernel == 0)
        count(role, seen);
      else
        launches[seen.kernel] += seen.count;
    }
    for (const auto& [number, count] : launches) {
      const Kernel& of = kernel(number);
      if (of.function.empty()) continue;
      std::set<KernelAccess> accesses;
      for (const BlockRoles::Role& seen : block.roles) {
        if (seen.kernel != number) continue;
        const bool has_parameter = seen.place != GPUPEAK_NO_PARAMETER;
        const auto parameter = static_cast<uint32_t>(seen.place / 2);
        const auto access = has_parameter && seen.place % 2 == 0 ? access_of(of.function, parameter)
                                                                 : KernelAccess::kGiven;
        if (!access) continue;
        Launches& entry = kernels[{definitions.shown(of.function), of.library, *access}];
        if (has_parameter) entry.arguments.insert(parameter);
        if (accesses.insert(*access).second) entry.count += count;
      }
    }
    if (!was_used) {
      role.unused_bytes += block.bytes;
    } else if (block.uses.count > 0) {
      first = std::min(first, block.uses.first);
      last = std::max(last, block.uses.last);
    } else {
      is_timed = false;  // the log ends before it says when
    }
  };
  for (const BlockRoles::Block* block : blocks) add(*block);
  for (const auto& [key, launches] : kernels) {
    const auto& [name, library, access] = key;
    role.kernels.push_back({name,
                            library,
                            access,
                            {launches.arguments.begin(), launches.arguments.end()},
                            launches.count});
  }
  std::ranges::stable_sort(role.kernels, std::greater(), &BufferRole::Kernel::launches);
  const ClockMap& clock = replay_.log().clock();
  if (is_timed && first <= last) {
    role.first_use_ns = clock.to_ns(first);
    role.last_use_ns = clock.to_ns(last);
  }
  if (allocated != UINT64_MAX) {
    role.allocated_ns = clock.to_ns(allocated);
    if (freed) role.freed_ns = clock.to_ns(*freed);
  }
  return role;
}

}  // namespace gpupeak::collector
