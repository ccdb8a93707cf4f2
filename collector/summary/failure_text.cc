#include <fmt/format.h>

#include <algorithm>

#include "collector/summary/run_text.h"
#include "collector/text/scope_key.h"
#include "collector/text/title_text.h"
#include "gpupeak/pages.h"

namespace gpupeak::collector {
namespace {

using Cause = OutOfMemory::Cause;

constexpr uint64_t kWorthSaying = 10;  ///< a tenth of the request

/// What is said of a cause, whatever the figures are. In the order of FailureCause.
struct CauseWords {
  std::string_view name;  ///< in JSON
  std::string_view part;  ///< "… MiB of it are …": of a cause that is not the largest
  std::string_view help;  ///< empty: it depends on the figures, or there is none
};
constexpr CauseWords kCauses[] = {
    {"larger_than_card", "", "ask for less at once: a smaller batch, or the work in parts"},
    {"own_limit", "", ""},
    {"fragmented", "idle in pieces", ""},
    {"graph_pool", "idle that graphs keep",
     "let several graphs share one pool (torch.cuda.graph(g, pool=…)), or delete graphs that are "
     "not replayed any more"},
    {"set_apart", "idle and set apart",
     "work on one stream, or torch.cuda.empty_cache() before the request"},
    {"idle_in_pool", "idle in pools",
     "give it back before (torch.cuda.empty_cache(), cuMemPoolTrimTo), or bound the pool "
     "(torch.cuda.set_per_process_memory_fraction, gpu_mem_limit)"},
    {"pages_of_small_blocks", "in pages of small blocks",
     "take many small blocks as one large one: the driver's pages have 2 MiB"},
    {"other_process", "of other processes",
     "nvidia-smi lists the processes: end the other one, or use another card"},
    {"growth", "", ""},
    {"together", "", ""},
    {"full", "",
     "a smaller batch or model, lower precision, recomputing activations, or a larger card"}};
const CauseWords& words_of(FailureCause cause) {
  return kCauses[static_cast<size_t>(cause)];
}

/// "PyTorch's pool": for arenas of any kind.
std::string arena_name(const auto& arena) {
  return arena.name + "'s pool";
}
bool is_torch(const ArenaSnapshot& arena) {
  return arena.name == "PyTorch";
}

class Teller {
 public:
  Teller(const OutOfMemory& oom, const TextStyle& style) : oom_(oom), style_(style) {}

  std::string why() const { return by_cause() + run_limit(); }

  std::string help() const {
    if (oom_.causes.empty()) return "";
    const FailureCause cause = oom_.causes.front().cause;
    if (cause == FailureCause::kOwnLimit) return own_limit_help();
    if (cause == FailureCause::kFragmented) return fragmented_help();
    if (cause == FailureCause::kGrowth)
      return fmt::format("what is kept from one {} to the next: gpupeak tree, gpupeak timeline",
                         oom_.growth->phase);
    if (cause == FailureCause::kTogether && !oom_.parts.empty()) return "the largest part first";
    return std::string(words_of(cause).help);
  }

 private:
  std::string size(const std::optional<uint64_t>& bytes) const { return size_text(bytes, style_); }

  std::string asked() const { return size(oom_.requested_bytes); }

  std::string clause(const Cause& cause) const {
    switch (cause.cause) {
      case FailureCause::kLargerThanCard:
        return fmt::format("that is more than the card has, {}{}", size(oom_.driver_total_bytes),
                           holding());
      case FailureCause::kOwnLimit:
        return own_limit();
      case FailureCause::kFragmented:
        return fragmented(cause);
      case FailureCause::kGraphArena:
        return fmt::format(
            "CUDA graphs' memory: {} of {} are idle, kept for graphs that were captured (largest "
            "piece {}){}",
            size(cause.bytes), arena_name(*oom_.refused_by),
            size(oom_.refused_by->largest_graph_idle_bytes), and_free());
      case FailureCause::kSetApart:
        return fmt::format(
            "set apart: {} has {} idle in one piece and did not use it for this request, as it "
            "does with what another stream, a private pool or blocks of another size class had{}",
            arena_name(*oom_.refused_by), size(cause.bytes), and_free());
      case FailureCause::kIdleInArena:
        return fmt::format("idle in pools: {}, and this request went past {} to the driver{}",
                           idle_in_arenas(cause), oom_.arenas.size() > 1 ? "them" : "it",
                           and_free());
      case FailureCause::kPagesOfSmallBlocks:
        return fmt::format("small blocks: they leave {} of the driver's 2 MiB pages unused{}",
                           size(cause.bytes), and_free());
      case FailureCause::kOtherProcess:
        if (oom_.ledger && oom_.ledger->of_process)
          return fmt::format("others hold {} of the card's {}{}; this process holds {}{}",
                             size(cause.bytes), size(oom_.driver_total_bytes),
                             others_list(*oom_.ledger, style_), size(oom_.live_bytes), and_free());
        return fmt::format(
            "another process holds it: {} of the card's {} are not this process's, which holds "
            "{}{}",
            size(cause.bytes), size(oom_.driver_total_bytes), size(oom_.live_bytes), and_free());
      case FailureCause::kGrowth:
        return "it grows: " + growth_text(*oom_.growth, style_) + and_free();
      case FailureCause::kTogether:
        return together();
      case FailureCause::kFull:
        return full();
    }
    return "";
  }

  std::string by_cause() const {
    if (oom_.causes.empty()) return what_is_known();
    std::string text = clause(oom_.causes.front());
    for (size_t i = 1; i < oom_.causes.size(); ++i)
      text += (i == 1 ? "; also enough by itself: " : ", ") + short_clause(oom_.causes[i]);
    return text + room();
  }

  std::string run_limit() const {
    if (!oom_.refused_by_run_limit) return "";
    return fmt::format("; refused by the limit of this run (--limit, {}), not by the card",
                       size(oom_.driver_total_bytes));
  }

  /// Names a cause that is not the largest.
  std::string short_clause(const Cause& cause) const {
    if (cause.cause == FailureCause::kGrowth) return growth_text(*oom_.growth, style_);
    const CauseWords& words = words_of(cause.cause);
    return words.part.empty() ? std::string(words.name)
                              : fmt::format("{} {}", size(cause.bytes), words.part);
  }

  std::string and_free() const {
    return oom_.driver_free_bytes
               ? fmt::format("; {} are free on the card", size(oom_.driver_free_bytes))
               : "";
  }

  /// ", this process holds 58.4 % of the card, 192 MiB of it by …".
  std::string holding() const {
    const std::optional<uint64_t> total = oom_.driver_total_bytes;
    const std::string most = oom_.holders.empty()
                                 ? ""
                                 : fmt::format("{} of it by {}", size(oom_.holders.front().bytes),
                                               spoken_title(oom_.holders.front().title));
    if (total && oom_.live_bytes <= *total) {
      return fmt::format("; this process holds {} % of the card{}",
                         percent(oom_.live_bytes, *total), most.empty() ? "" : ", " + most);
    }
    return most.empty() ? "" : "; " + most;
  }

  std::string own_limit() const {
    if (!oom_.host_limit.empty()) {
      const uint64_t own = oom_.host_limit_own_bytes;
      return fmt::format("{} of {}: {} are in use{}{}", oom_.host_limit,
                         size(oom_.host_limit_bytes), size(oom_.host_limit_used_bytes),
                         own > 0 ? ", of them " + size(own) + " by gpupeak" : "", holding());
    }
    if (!oom_.refused_by) return "";
    const ArenaSnapshot& arena = *oom_.refused_by;
    const std::string whose = oom_.on_host ? "" : ", not the card's";
    std::string text;
    if (oom_.limit_bytes) {
      text = fmt::format("{}'s own limit of {}{}: it has {}", arena.name, size(oom_.limit_bytes),
                         whose, size(arena.reserved_bytes));
    } else {
      text = fmt::format("{}'s own limit{}: it has {} and did not ask the driver for more",
                         arena.name, whose, size(arena.reserved_bytes));
      // The limit is less than what it has and what was asked for together.
      const uint64_t below = arena.reserved_bytes + oom_.requested_bytes;
      if (oom_.driver_total_bytes && below <= *oom_.driver_total_bytes)
        text += fmt::format(", so the limit is below {} ({} % of the card)", size(below),
                            percent(below, *oom_.driver_total_bytes));
    }
    return text + and_free();
  }

  std::string own_limit_help() const {
    if (!oom_.host_limit.empty()) {
      const uint64_t own = oom_.host_limit_own_bytes, others = oom_.host_limit_used_bytes - own;
      return own > 0 && others + oom_.requested_bytes <= oom_.host_limit_bytes
                 ? "a limit that is " + size(own) + " larger: without gpupeak the request fits"
                 : "a larger limit, or less at once";
    }
    if (oom_.refused_by && is_torch(*oom_.refused_by))
      return "a larger torch.cuda.set_per_process_memory_fraction";
    if (oom_.refused_by && oom_.refused_by->name.starts_with("ONNX Runtime"))
      return oom_.on_host ? "a larger limit of the arena (max_mem)"
                          : "a larger gpu_mem_limit of the CUDA provider";
    if (oom_.refused_by && oom_.refused_by->name.starts_with("XLA"))
      return "a larger XLA_PYTHON_CLIENT_MEM_FRACTION";
    return "a larger limit of that pool";
  }

  std::string fragmented(const Cause& cause) const {
    if (!oom_.refused_by)
      return fmt::format(
          "fragmented: the driver's memory pools keep {} that nobody uses, in chunks that others "
          "use in part{}",
          size(cause.bytes), and_free());
    const ArenaSnapshot& arena = *oom_.refused_by;
    return fmt::format("fragmented: {} of {} are idle, but in {} pieces, the largest {}{}",
                       size(cause.bytes), arena_name(arena), grouped(arena.idle_pieces),
                       size(arena.largest_idle_bytes), and_free());
  }

  std::string fragmented_help() const {
    if (!oom_.refused_by)
      return "free what keeps the chunks, or use a pool of its own for short-lived blocks";
    if (is_torch(*oom_.refused_by) && !oom_.refused_by->grows_in_place)
      return "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True";
    if (oom_.refused_by->name.starts_with("ONNX Runtime"))
      return "arena_extend_strategy=kSameAsRequested";
    return "fewer different sizes; free short-lived blocks before long-lived ones are taken";
  }

  std::string idle_in_arenas(const Cause& cause) const {
    std::string text;
    const auto add = [&](const std::string& whose, uint64_t bytes) {
      if (bytes > 0)
        text += fmt::format("{}{} keeps {}", text.empty() ? "" : ", ", whose, size(bytes));
    };
    for (const ArenaSnapshot& arena : oom_.arenas) {
      if (!oom_.refused_by || arena.name != oom_.refused_by->name)
        add(arena_name(arena), arena.idle_bytes() + arena.graph_idle_bytes);
    }
    if (!oom_.of_driver_pool) add("cudaMallocAsync's", oom_.pool_slack_bytes);
    return text.empty() ? size(cause.bytes) : text + " that nobody uses";
  }

  std::string together() const {
    std::string text = "several things together, none of them enough alone: ";
    for (const Cause& part : oom_.parts)
      text += (&part == oom_.parts.data() ? "" : ", ") + short_clause(part);
    return text + and_free();
  }

  std::string full() const {
    return fmt::format("the card is too small for what is in use and {} more{}", asked(),
                       holding());
  }

  /// The largest request that would have fitted.
  std::string room() const {
    const bool told = oom_.causes.front().cause == FailureCause::kLargerThanCard ||
                      oom_.causes.front().cause == FailureCause::kFull;
    if (!oom_.largest_fit_bytes || !told) return "";
    return fmt::format("; {} would have fitted", size(oom_.largest_fit_bytes));
  }

  std::string what_is_known() const {
    if (oom_.only_addresses)
      return "addresses were asked for, not memory: the process has no room for them in one piece";
    if (oom_.result == kNoHostMemory) {
      constexpr uint64_t kMostAddresses = uint64_t{1} << 47;
      if (oom_.requested_bytes >= kMostAddresses) return "no process can have so much";
      return "the machine refused it, and no limit is known that it would have passed" + holding();
    }
    if (oom_.on_host)
      return "the host's memory was asked for, not the card's; the cause is not known";
    std::string text = "the cause is not known";
    if (!oom_.figures_are_whole) {
      text += ": of so many failures not all figures are kept";
    } else if (oom_.for_driver) {
      text += ": the driver does not say how much it needs for itself";
    } else if (oom_.refused_by && oom_.driver_refusals == 0) {
      text += fmt::format(": {} refused without asking the driver", arena_name(*oom_.refused_by));
    } else if (oom_.driver_free_bytes && needed_of_driver(oom_) <= *oom_.driver_free_bytes) {
      text += ": as much was free, but not for this request";
    } else if (!oom_.driver_free_bytes) {
      text += ": the driver did not say how much was free";
    } else {
      text +=
          ": what neither this process holds nor is free is the driver's and other processes', and "
          "was not told apart";
    }
    return text + and_free() + holding();
  }

  const OutOfMemory& oom_;
  const TextStyle& style_;
};

constexpr size_t kMaxParts = 1;

/// ", 300 MiB by forward net.py:12 (conv)": the largest parts.
std::string parts_text(const std::vector<ArenaSummary::Part>& parts, const TextStyle& style) {
  std::string text;
  for (size_t i = 0; i < std::min(parts.size(), kMaxParts); ++i) {
    text += fmt::format("{}{} of it by {}", text.empty() ? ", " : " and ",
                        size_text(parts[i].bytes, style), spoken_title(parts[i].title));
  }
  return text;
}

const ArenaSummary::Growth& largest_growth(const ArenaSummary& arena) {
  return *std::ranges::max_element(arena.growths, {}, &ArenaSummary::Growth::bytes);
}

/// The cause whose largest segment exceeds most what was asked for, if that is a good part of what
/// is idle; else nullptr.
const ArenaSummary::Cause* most_ahead(const ArenaSummary& arena) {
  const auto ahead = [](const ArenaSummary::Cause& cause) {
    return cause.largest_bytes - std::min(cause.largest_bytes, cause.largest_asked_bytes);
  };
  const auto most = std::ranges::max_element(arena.causes, {}, ahead);
  const uint64_t idle = arena.at_device_peak->idle_bytes();
  return most != arena.causes.end() && ahead(*most) > idle / 4 ? &*most : nullptr;
}

std::string advance_text(const ArenaSummary& arena, const ArenaSummary::Growth& growth,
                         const TextStyle& style) {
  return fmt::format("{} took {} in advance at {}; at most {} of it was in use, at {}{}",
                     arena_name(arena), size_text(growth.bytes, style), instant(growth.time_ns),
                     size_text(arena.peak_bytes, style), instant(arena.peak_time_ns),
                     parts_text(arena.parts, style));
}

/// How much of it was idle at the device's peak, and why.
std::string idle_text(const ArenaSummary& arena, const TextStyle& style) {
  const uint64_t idle = arena.at_device_peak->idle_bytes();
  const uint64_t never_used = std::min(idle, arena.never_used_bytes);
  std::string text = fmt::format("; at the peak {} of it was idle: ", size_text(idle, style));
  if (idle > never_used)
    text += fmt::format("{} used and freed", size_text(idle - never_used, style));
  if (never_used > 0)
    text +=
        fmt::format("{}{} never used", idle > never_used ? ", " : "", size_text(never_used, style));
  if (const ArenaSummary::Cause* cause = most_ahead(arena))
    return text + fmt::format(" (a request of {} had it take {} at {})",
                              size_text(cause->largest_asked_bytes, style),
                              size_text(cause->largest_bytes, style), instant(cause->time_ns));
  // Said only if it is a good part of what is idle.
  if (arena.idle_in_holes_bytes > idle / 4)
    text += fmt::format("; {} of it in holes beside blocks in use",
                        size_text(arena.idle_in_holes_bytes, style));
  if (arena.idle_for_graphs_bytes > idle / 4)
    text += fmt::format("; {} of it kept for CUDA graphs",
                        size_text(arena.idle_for_graphs_bytes, style));
  return text;
}

std::string growth_text(const ArenaSummary& arena, const TextStyle& style) {
  const ArenaSummary::Largest& largest = arena.largest;
  std::string text =
      fmt::format("{} grew to {} at {}, with {} in use{}", arena_name(arena),
                  size_text(arena.reserved_peak_bytes, style), instant(largest.time_ns),
                  size_text(largest.in_use_bytes, style), parts_text(largest.parts, style));
  if (arena.at_device_peak && arena.at_device_peak->idle_bytes() > 0)
    text += idle_text(arena, style);
  return text;
}

}  // namespace

std::string_view cause_name(FailureCause cause) {
  return words_of(cause).name;
}

std::string why_text(const OutOfMemory& oom, const TextStyle& style) {
  return found_no_memory(oom) ? Teller(oom, style).why() : "";
}

std::string help_text(const OutOfMemory& oom, const TextStyle& style) {
  return Teller(oom, style).help();
}

std::string growth_text(const GrowthSummary& growth, const TextStyle& style) {
  const std::string error =
      growth.error_bytes ? " " + error_percent(*growth.error_bytes, growth.grown_bytes) : "";
  return fmt::format("{}{} at each {}, {} times, {} in all{}: {}{}",
                     growth.same_each_time ? "+" : "about +", size_text(growth.bytes_each(), style),
                     growth.phase, grouped(growth.steps()), size_text(growth.grown_bytes, style),
                     error, spoken_title(growth.title),
                     growth.blocks_each > 0 ? ", none freed" : "");
}

std::string steps_text(const std::vector<GrowthSummary>& growths, std::optional<int32_t> device,
                       uint64_t total, uint64_t held, const TextStyle& style) {
  constexpr size_t kMostNamed = 2;
  constexpr uint64_t kWorthWords = 10;  // a tenth of what is held
  std::vector<const GrowthSummary*> parts;
  uint64_t each = 0, grown = 0;
  bool same = true;
  for (const GrowthSummary& growth : growths) {
    if (growth.device != device) continue;
    if (!parts.empty() && growth.phase != parts[0]->phase) continue;  // within it or around it
    parts.push_back(&growth);
    each += growth.bytes_each();
    grown += growth.grown_bytes;
    same = same && growth.same_each_time;
  }
  if (each == 0 || grown < held / kWorthWords) return "";
  const GrowthSummary& first = *parts[0];
  const bool has_phase = first.blocks_each == 0;
  std::string text = fmt::format("it grows by {}{} {} {}, {} {}: ", same ? "" : "about ",
                                 size_text(each, style), has_phase ? "at each" : "a", first.phase,
                                 grouped(first.steps()), has_phase ? "times" : "steps");
  for (size_t i = 0; i < std::min(parts.size(), kMostNamed); ++i) {
    if (i > 0) text += ", ";
    if (parts.size() > 1) {
      text += size_text(parts[i]->bytes_each(), style) + " ";
    } else if (!has_phase && same) {
      text += fmt::format("{} block{} each ", grouped(first.blocks_each),
                          first.blocks_each == 1 ? "" : "s");
    }
    text += "by " + spoken_title(parts[i]->title);
  }
  if (parts.size() > kMostNamed) text += fmt::format(" and {} more", parts.size() - kMostNamed);
  if (!has_phase) text += ", none freed";
  const uint64_t room = total > held ? (total - held) / each : 0;
  if (room > 0) text += fmt::format("; the card has room for {} more at most", grouped(room));
  return text;
}

bool was_taken_in_advance(const ArenaSummary& arena) {
  if (arena.growths.empty()) return false;
  const ArenaSummary::Growth& most = largest_growth(arena);
  return most.bytes > arena.reserved_peak_bytes / 10 * 9 && most.asked_bytes < most.bytes / 10;
}

std::string arena_growth_text(const ArenaSummary& arena, const TextStyle& style) {
  if (arena.growths.empty()) return "";
  if (!was_taken_in_advance(arena)) return growth_text(arena, style);
  return advance_text(arena, largest_growth(arena), style);
}

std::string arena_peak_text(const ArenaSummary& arena, const TextStyle& style) {
  const std::string in_use = size_text(arena.at_peak.in_use_bytes, style);
  const std::string when = instant(arena.peak_time_ns);
  if (arena.older)
    return fmt::format("{} in use at its peak of what it has handed out since the attach, {}",
                       in_use, when);
  return fmt::format("{} in use of {} reserved at its peak, {} idle (largest {}), {}", in_use,
                     size_text(arena.at_peak.reserved_bytes, style),
                     size_text(arena.at_peak.idle_bytes(), style),
                     size_text(arena.largest_idle_bytes, style), when);
}

std::string arena_end_text(const ArenaSummary& arena, const TextStyle& style) {
  std::string text = fmt::format("at the end {} in use", size_text(arena.live_bytes, style));
  if (!arena.older) {
    text += " of " + size_text(arena.reserved_bytes, style);
  } else if (arena.older->in_use_bytes) {
    text += fmt::format(", and {} from before, by its own account",
                        size_text(*arena.older->in_use_bytes, style));
  } else {
    text += "; how much from before it does not say";
  }
  text += fmt::format("; {} allocations", grouped(arena.alloc_count));
  if (arena.failed_count > 0) text += fmt::format(", {} refused", grouped(arena.failed_count));
  return text;
}

const ArenaSummary* idlest_arena(const Summary& summary, int32_t device) {
  const ArenaSummary* idlest = nullptr;
  for (const ArenaSummary& arena : summary.arenas) {
    if (arena.device != device || !arena.at_device_peak || arena.at_device_peak->idle_bytes() == 0)
      continue;
    if (idlest == nullptr ||
        arena.at_device_peak->idle_bytes() > idlest->at_device_peak->idle_bytes())
      idlest = &arena;
  }
  return idlest;
}

const ArenaSummary* arena_behind_peak(const Summary& summary, int32_t device) {
  constexpr uint64_t kWorthRows = 5;
  const Peak* peak = summary.find_peak(ScopeKey::device(device).text());
  const ArenaSummary* arena = idlest_arena(summary, device);
  if (peak == nullptr || arena == nullptr || arena->largest.parts.empty()) return nullptr;
  const uint64_t used = arena->at_device_peak->in_use_bytes, then = arena->largest.in_use_bytes;
  const bool has_gone = then > used && then - used > peak->bytes / kWorthRows;
  return has_gone && !was_taken_in_advance(*arena) ? arena : nullptr;
}

std::string grown_arena_text(const ArenaSummary& arena, const TextStyle& style) {
  return fmt::format("{} as it grew to {} at {}, {} of it in use", arena_name(arena),
                     size_text(arena.reserved_peak_bytes, style), instant(arena.largest.time_ns),
                     size_text(arena.largest.in_use_bytes, style));
}

namespace {

/// Rounded up to driver pages. A program may ask for nearly 2^64 bytes, which rounding overflows.
uint64_t in_pages(uint64_t bytes) {
  return std::max(bytes, whole_driver_pages(bytes));
}

class Finder {
 public:
  explicit Finder(OutOfMemory& oom) : oom_(oom) {}

  void find() {
    if (!found_no_memory(oom_) || oom_.only_addresses) return;
    if (oom_.on_host) return own_limit_of_host();
    const std::optional<uint64_t> total = oom_.driver_total_bytes;
    if (total && oom_.requested_bytes > *total) return only(FailureCause::kLargerThanCard, 0);
    if (!oom_.figures_are_whole) return;
    if (oom_.for_driver) return without_amount();
    gather();
    if (!oom_.driver_free_bytes) return without_driver();
    const uint64_t needed = needed_of_driver(oom_), free = *oom_.driver_free_bytes;
    if (refused_alone()) {
      // Its own limit is the cause only if the card had room.
      if (needed <= free && is_beyond_limit()) name(FailureCause::kOwnLimit, free);
    } else if (needed <= free) {
      return;  // as much was free, and yet the driver refused: nothing here says why
    }
    for (const Cause& one : gathered_) {
      if (enough(one.bytes)) oom_.causes.push_back(one);
    }
    largest_first(oom_.causes);
    if (!oom_.causes.empty() || refused_alone()) return;
    uint64_t sum = 0;
    largest_first(gathered_);
    for (const Cause& one : gathered_) {
      oom_.parts.push_back(one);
      sum += one.bytes;
      if (enough(sum)) return only(FailureCause::kTogether, sum);
    }
    oom_.parts.clear();
    // The rest of the card is other processes' and the driver's own: without a ledger, all of it
    // may be other processes'.
    if (!enough(sum + (others_bytes(oom_) ? 0 : beside()))) only(FailureCause::kFull, 0);
  }

 private:
  void name(FailureCause cause, uint64_t bytes) { oom_.causes.push_back({cause, bytes}); }
  void only(FailureCause cause, uint64_t bytes) { oom_.causes = {{cause, bytes}}; }
  static void largest_first(std::vector<Cause>& causes) {
    // An arena's own limit stays in front: the driver was not even asked.
    std::ranges::stable_sort(causes, std::greater(), [](const Cause& of) {
      return std::pair(of.cause == FailureCause::kOwnLimit, of.bytes);
    });
  }
  /// An arena that tells its limit is compared with it. For others, the proof is that the driver
  /// was not asked, unless the arena may lack addresses.
  bool is_beyond_limit() const {
    if (!oom_.limit_bytes)
      return !oom_.refused_by->grows_in_place ||
             oom_.unmapped_address_bytes >= in_pages(oom_.requested_bytes);
    return oom_.refused_by->reserved_bytes + oom_.requested_bytes > *oom_.limit_bytes;
  }
  bool refused_alone() const { return oom_.refused_by && oom_.driver_refusals == 0; }

  /// Whether the request would have been served if so many more bytes were free in one piece.
  bool enough(uint64_t more) const {
    if (!refused_alone() && *oom_.driver_free_bytes + more >= needed_of_driver(oom_)) return true;
    return oom_.refused_by && idle_serves_ && more >= oom_.requested_bytes;
  }

  /// Bytes that nobody seen uses: the driver's own, and other processes'.
  uint64_t beside() const {
    const uint64_t total = oom_.driver_total_bytes.value_or(0);
    const uint64_t known = *oom_.driver_free_bytes + oom_.live_bytes;
    return total > known ? total - known : 0;
  }

  void gather() {
    const auto add = [&](FailureCause cause, uint64_t bytes) {
      if (bytes > 0) gathered_.push_back({cause, bytes});
    };
    if (oom_.refused_by) {
      const ArenaSnapshot& arena = *oom_.refused_by;
      idle_serves_ = true;
      const bool whole = arena.largest_idle_bytes >= oom_.requested_bytes;
      add(whole ? FailureCause::kSetApart : FailureCause::kFragmented,
          whole ? arena.largest_idle_bytes : arena.idle_bytes());
      add(FailureCause::kGraphArena, arena.graph_idle_bytes);
    }
    uint64_t idle = 0;
    for (const ArenaSnapshot& arena : oom_.arenas) {
      if (!oom_.refused_by || arena.name != oom_.refused_by->name)
        idle += arena.idle_bytes() + arena.graph_idle_bytes;
    }
    // A memory pool gives back whole pieces of its own reserve before it refuses: the rest has
    // holes.
    if (oom_.of_driver_pool) add(FailureCause::kFragmented, oom_.pool_slack_bytes);
    add(FailureCause::kIdleInArena, idle + (oom_.of_driver_pool ? 0 : oom_.pool_slack_bytes));
    add(FailureCause::kPagesOfSmallBlocks, oom_.page_slack_bytes);
    add(FailureCause::kOtherProcess, others_bytes(oom_).value_or(0));
    if (oom_.growth) add(FailureCause::kGrowth, oom_.growth->grown_bytes);
  }

  /// Without the driver's figures only causes within the arena can be proved: its memory would have
  /// been enough by itself, or the driver was not asked.
  void without_driver() {
    if (refused_alone() && is_beyond_limit()) name(FailureCause::kOwnLimit, 0);
    for (const Cause& one : gathered_) {
      const bool inside =
          one.cause == FailureCause::kFragmented || one.cause == FailureCause::kGraphArena ||
          one.cause == FailureCause::kSetApart || one.cause == FailureCause::kGrowth;
      if (oom_.refused_by && inside && one.bytes >= oom_.requested_bytes)
        oom_.causes.push_back(one);
    }
    largest_first(oom_.causes);
  }

  /// For a context or code the driver does not say how much it needs. If this process holds
  /// nothing, it is not in the way.
  void without_amount() {
    const uint64_t others = others_bytes(oom_).value_or(0);
    if (oom_.live_bytes == 0 && others > 0) name(FailureCause::kOtherProcess, others);
  }

  void own_limit_of_host() {
    if (!oom_.host_limit.empty()) name(FailureCause::kOwnLimit, 0);
    if (oom_.refused_by && oom_.limit_bytes && is_beyond_limit()) name(FailureCause::kOwnLimit, 0);
  }

  OutOfMemory& oom_;
  std::vector<Cause> gathered_;
  bool idle_serves_ = false;
};

}  // namespace

void find_causes(OutOfMemory& oom) {
  oom.causes.clear();
  oom.parts.clear();
  Finder(oom).find();
}

std::optional<uint64_t> others_bytes(const OutOfMemory& oom) {
  if (!oom.ledger) return std::nullopt;
  if (oom.ledger->of_process) return oom.ledger->others_bytes;
  std::optional<int64_t> bytes;
  for (const LedgerRow& row : oom.ledger->rows) {
    if (row.cause == "start") bytes = bytes.value_or(0) + row.bytes;
  }
  // Without a reading from before the first context, one row has both what was in use before and
  // the context.
  const bool apart = std::ranges::none_of(
      oom.ledger->rows, [](const LedgerRow& row) { return row.cause.ends_with("_and_context"); });
  if (!bytes) return apart ? std::optional<uint64_t>(0) : std::nullopt;
  return static_cast<uint64_t>(std::max<int64_t>(0, *bytes));
}

uint64_t needed_of_driver(const OutOfMemory& oom) {
  // An arena that maps page by page has asked for one page only.
  const bool by_pages = oom.refused_by && oom.refused_by->grows_in_place;
  const uint64_t asked =
      by_pages ? oom.requested_bytes : std::max(oom.requested_bytes, oom.driver_asked_bytes);
  return in_pages(asked);
}

}  // namespace gpupeak::collector
