#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include "collector/log/log_reader.h"
#include "collector/log/onnx_runtime.h"
#include "collector/log/slot_decoder.h"

namespace gpupeak::collector {
namespace {

constexpr std::string_view kRunPhase = "run";
constexpr std::string_view kPlanned = "planned activation",
                           kBetween = "between planned activations",
                           kBeyond = "given beyond planned activations";
constexpr uint64_t kToTheEnd = UINT64_MAX;
/// First runs to remember of a session and arena: as many shapes as its inputs may have. With more,
/// the arena is left alone.
constexpr size_t kMostFirstRuns = 64;
/// How many parts of pieces are looked at, in all. Real logs take a few thousand.
constexpr uint64_t kMostLooks = UINT64_C(1) << 28;
/// The most requests of a run. A run with more is no model's.
constexpr size_t kMostRequests = 1 << 17;

/// The instruction of the framework that asked for a block. Activations are all asked for by the
/// same.
using Door = uint64_t;

struct Request {
  uint32_t stack = 0;
  uint64_t asked = 0;
  Door door = 0;
  bool ends = false;  ///< within the run
  bool operator==(const Request&) const = default;
};

/// What a run asked one arena for.
struct RunOfArena {
  struct Step {
    size_t request;
    bool frees;
    bool operator==(const Step&) const = default;
  };
  std::vector<Request> requests;
  std::vector<Step> steps;
  std::unordered_map<uint64_t, size_t> live;  // by address: index of the request

  void add(uint64_t address, const Request& request) {
    live[address] = requests.size();
    steps.push_back({requests.size(), false});
    requests.push_back(request);
  }
  void end(uint64_t address) {
    const auto ended = live.find(address);
    if (ended == live.end()) return;
    requests[ended->second].ends = true;
    steps.push_back({ended->second, true});
    live.erase(ended);
  }
};

using Parts = std::vector<BlockPart>;

/// A run that may have been the first of its shapes.
class FirstRun {
 public:
  explicit FirstRun(RunOfArena run) : run_(std::move(run)) {
    for (const Request& request : run_.requests) doors_.insert(request.door);
  }

  bool is_as(const RunOfArena& other) const {
    return run_.requests == other.requests && run_.steps == other.steps;
  }

  /// The plans that may lie in a piece that `later` asked for. More than one: it is not known
  /// which.
  std::vector<Parts> parts_of(const Request& piece, const RunOfArena& later,
                              uint64_t& looks) const {
    std::vector<Parts> found;
    if (doors_.contains(piece.door)) return found;
    for (const Door door : doors_) {
      std::multiset<uint64_t> again;  // asked for by the later run, too: so no activations
      for (const Request& request : later.requests) {
        if (request.door == door) again.insert(request.asked);
      }
      for (const bool last : {true, false}) {
        const std::optional<Parts> parts = plan(door, again, last, piece.asked, looks);
        if (parts && std::ranges::find(found, *parts) == found.end()) found.push_back(*parts);
        if (again.empty()) break;
      }
    }
    return found;
  }

 private:
  /// The plan of all that came through this door, without what the later run asked for again. Of
  /// several requests of such a size, `last` takes the last ones as asked for again, else the first
  /// ones. None: the plan has another size than `wanted`.
  std::optional<Parts> plan(Door door, std::multiset<uint64_t> again, bool last, uint64_t wanted,
                            uint64_t& looks) const {
    std::vector<bool> is_planned(run_.requests.size());
    for (size_t i = 0; i < run_.requests.size(); ++i) {
      const size_t at = last ? run_.requests.size() - 1 - i : i;
      const Request& request = run_.requests[at];
      if (request.door != door) continue;
      const auto same = again.find(request.asked);
      if (same != again.end()) {
        again.erase(same);
      } else {
        is_planned[at] = request.ends;
      }
    }
    if (!again.empty()) return std::nullopt;
    MemoryPattern pattern;
    for (const RunOfArena::Step& step : run_.steps) {
      if (!is_planned[step.request]) continue;
      if (step.frees) {
        pattern.free(step.request);
      } else {
        pattern.allocate(step.request, run_.requests[step.request].asked);
      }
      if (looks + pattern.looks() > kMostLooks) break;
    }
    looks += pattern.looks();
    if (pattern.bytes() != wanted || looks > kMostLooks) return std::nullopt;
    Parts parts;
    for (const MemoryPattern::Part& part : pattern.highest())
      parts.push_back({part.offset, part.bytes, run_.requests[part.request].stack});
    return parts;
  }

  RunOfArena run_;
  std::set<Door> doors_;
};

/// Goes through the runs of all sessions.
class Runs {
 public:
  using Pieces = std::map<std::tuple<uint64_t, uint32_t, uint64_t>, Parts>;

  explicit Runs(const LogReader& log) : definitions_(log.definitions()) {
    for_each_slot_event(
        log, [this] { session_.reset(); }, [this](const Event& event) { add(event); });
  }
  /// By arena, stack and size. No parts: there are several plans, and it is not known which is
  /// true.
  const Pieces& pieces() const { return pieces_; }

 private:
  void add(const Event& event) {
    if (event.tag == GPUPEAK_REC_PHASE_PUSH) {
      const auto phase = parse_phase_push(event);
      if (phase.malformed || phase.source != GPUPEAK_PHASE_ORT) return;
      session_.reset();
      run_.clear();
      if (definitions_.string(phase.name) == kRunPhase) session_ = phase.instance;
    } else if (event.tag == GPUPEAK_REC_PHASE_POP) {
      const auto phase = parse_phase_pop(event);
      if (phase.malformed || phase.source != GPUPEAK_PHASE_ORT || !session_) return;
      if (*session_ == phase.instance) end_run(*session_);
      session_.reset();
    } else if (session_ && event.tag == GPUPEAK_REC_ARENA_ALLOC) {
      const auto alloc = parse_arena_alloc(event);
      if (alloc.malformed || alloc.asked == 0 || alloc.stack == 0) return;
      if (alloc.stack >= definitions_.logged_node_count()) return;
      RunOfArena& run = run_[alloc.arena];
      if (run.requests.size() > kMostRequests) return;
      run.add(alloc.address, {alloc.stack, alloc.asked, definitions_.nodes()[alloc.stack].ip});
    } else if (session_ && event.tag == GPUPEAK_REC_ARENA_FREE) {
      const auto free = parse_arena_free(event);
      if (free.malformed) return;
      if (RunOfArena* const run = value_in(run_, free.arena)) run->end(free.address);
    }
  }

  void end_run(uint64_t session) {
    for (auto& [arena, run] : run_) {
      std::vector<FirstRun>& known = first_runs_[{session, arena}];
      if (left_alone_.contains(arena) || run.requests.size() > kMostRequests ||
          std::ranges::any_of(known,
                              [&run = run](const FirstRun& first) { return first.is_as(run); }))
        continue;
      for (const Request& request : run.requests) {
        if (request.ends) look_up(arena, request, run, known);
      }
      if (known.size() < kMostFirstRuns) {
        known.emplace_back(std::move(run));
      } else {
        leave_alone(arena);
      }
    }
    run_.clear();
  }

  /// A piece could belong to a first run that is not remembered, so none of this arena's can be
  /// told.
  void leave_alone(uint64_t arena) {
    left_alone_.insert(arena);
    std::erase_if(pieces_,
                  [arena](const auto& piece) { return std::get<0>(piece.first) == arena; });
  }

  void look_up(uint64_t arena, const Request& request, const RunOfArena& run,
               const std::vector<FirstRun>& known) {
    for (const FirstRun& first : known) {
      for (Parts& parts : first.parts_of(request, run, looks_)) {
        const auto [piece, added] =
            pieces_.try_emplace({arena, request.stack, request.asked}, std::move(parts));
        if (!added && piece->second != parts) piece->second.clear();
      }
    }
  }

  const Definitions& definitions_;
  std::optional<uint64_t> session_;
  std::map<uint64_t, RunOfArena> run_;  // of `session_`, by arena
  std::map<std::pair<uint64_t, uint64_t>, std::vector<FirstRun>> first_runs_;  // session, arena
  std::set<uint64_t> left_alone_;                                              // arenas
  Pieces pieces_;
  uint64_t looks_ = 0;
};

}  // namespace

ActivationPlans::ActivationPlans(const LogReader& log, Definitions& definitions) {
  const auto& strings = definitions.strings();
  if (std::ranges::find(strings, kRunPhase) == strings.end()) return;
  const Runs runs(log);
  std::map<std::pair<std::string_view, uint32_t>, uint32_t> named;
  const auto name = [&](std::string_view text, uint32_t caller) {
    const auto [node, added] = named.try_emplace({text, caller}, 0);
    if (added)
      node->second =
          definitions.add_model_frame(caller, {std::string(text), "", NameSource::kPlan});
    return node->second;
  };
  for (const auto& [key, planned] : runs.pieces()) {
    if (planned.empty()) continue;
    const auto [arena, stack, asked] = key;
    Parts& parts = pieces_[key];
    uint64_t at = 0;
    for (const BlockPart& part : planned) {
      if (part.offset > at) parts.push_back({at, part.offset - at, name(kBetween, stack)});
      parts.push_back({part.offset, part.bytes, name(kPlanned, part.stack)});
      at = part.offset + part.bytes;
    }
    parts.push_back({asked, kToTheEnd, name(kBeyond, stack)});
  }
}

void MemoryPattern::allocate(size_t request, uint64_t asked_bytes) {
  constexpr uint64_t kStep = 256, kMost = UINT64_C(1) << 48;
  if (asked_bytes == 0 || asked_bytes > kMost || bytes_ > kMost) return;
  const uint64_t bytes = (asked_bytes + kStep - 1) / kStep * kStep;
  looks_ += live_.size() + 1;
  uint64_t offset = live_.empty() ? 0 : live_.back().offset + live_.back().bytes;
  uint64_t least_left = UINT64_MAX, gap_begin = 0;
  auto place = live_.end();
  for (auto part = live_.begin(); part != live_.end(); ++part) {
    if (part->offset >= gap_begin + bytes && part->offset - gap_begin - bytes < least_left) {
      least_left = part->offset - gap_begin - bytes;
      offset = gap_begin;
      place = part;
    }
    gap_begin = part->offset + part->bytes;
  }
  live_.insert(place, {offset, bytes, request});
  if (offset + bytes <= bytes_) return;
  bytes_ = offset + bytes;
  highest_ = live_;
}

void MemoryPattern::free(size_t request) {
  looks_ += live_.size();
  std::erase_if(live_, [request](const Part& part) { return part.request == request; });
}

}  // namespace gpupeak::collector
