#include "stack/python_places.h"

#include "base/memory.h"
#include "log/log.h"
#include "stack/python_sites.h"
#include "stack/python_stack.h"

namespace gpupeak::preload {
namespace {

constexpr uint32_t kRemembered = 4096;
constexpr uint32_t kMostChains = 4;  // of one stack

/// The interpreter whose code is on a native stack.
struct RunningPython {
  uint32_t node;
  bool evaluates;          ///< it runs Python code
  PythonRuntime* runtime;  ///< nullptr: none

  bool is_used() const { return node != 0; }
  void meet(uintptr_t ip) {
    if (runtime == nullptr) runtime = python_runtime_at(ip);
    if (runtime != nullptr && runtime->evaluates(ip)) evaluates = true;
  }
};

/// A native stack with the Python frames that are placed in it. Their places follow from the return
/// addresses, for which the native node stands, and from the anchors: an anchor lies at a fixed
/// place of its native frame.
struct MergedStack {
  uint32_t native, node;
  PythonStack::Signature python;
  uint32_t chain;    ///< the last chain of this stack; 0: none yet
  uint32_t learned;  ///< how often one more chain was learned, or tried

  bool is_used() const { return node != 0; }
};

}  // namespace

/// What a thread needs to read Python frames and to find their places.
struct PythonScratch {
  PythonStack stack;
  uint32_t native_count;
  struct {
    uintptr_t ip;
    uintptr_t sp;                               ///< 0: not known
  } native[GPUPEAK_MAX_FRAMES];                 ///< innermost first
  uint16_t native_of[PythonStack::kMaxFrames];  ///< by Python frame: which one runs it
  uint64_t trie_generation;                     ///< of the nodes below
  KnownTable<RunningPython, kRemembered> running;
  KnownTable<MergedStack, kRemembered> merged;
  PythonChains chains;

  const RunningPython* running_in(uint32_t captured) {
    return running.find(captured,
                        [captured](const RunningPython& it) { return it.node == captured; });
  }
  /// The stack with the Python frames that were read last.
  MergedStack* merged_with(uint32_t captured) {
    const PythonStack::Signature& now = stack.signature();
    return merged.find(now.a ^ captured, [captured, &now](const MergedStack& it) {
      return it.native == captured && it.python == now;
    });
  }

  /// The node of the stack that is expected next, if its Python frames lie where they did; else 0.
  uint32_t standing_chain(uint32_t captured) {
    const PythonChain* const chain = chains.expected(
        captured, [this](const PythonChain& expected) { return stack.stands(expected); });
    return chain != nullptr ? chain->node : 0;
  }
  /// Learns the chain of the frames that were read last; they are those of `met`, which was known
  /// before.
  void keep_chain(MergedStack& met) {
    if (chains.rests()) return;
    const auto stands = [this](const PythonChain& known) { return stack.stands(known); };
    if (chains.is_among(met.chain, stands) || met.learned == kMostChains) return;
    ++met.learned;
    const auto describe = [this](PythonChain& chain, size_t room) {
      return stack.describe(chain, room);
    };
    const uint32_t chain = chains.learn(met.native, met.node, met.chain, describe);
    if (chain != 0) {
      met.chain = chain;
    } else if (chains.is_worn()) {
      forget_merged();
    }
  }
  void forget_merged() {
    merged.forget();
    in_order();
    chains.forget();
  }
};

namespace {

/// The native frames of the captured stack.
void list_native_frames(const StackCache& cache, const Captured& captured, PythonScratch& python) {
  uint32_t n = 0;
  if (captured.is_walked) {
    for (uint32_t i = cache.depth; i-- > 0;) {
      python.native[n++] = {cache.last[i].ip, cache.last[i].sp};
    }
  } else {
    // The walk knows where the inner frames lie, as far as the walk came.
    bool same = true;
    for (int i = captured.unwound.first; i < captured.unwound.count; ++i, ++n) {
      const auto ip = reinterpret_cast<uintptr_t>(cache.unwound[i]);
      same = same && n < captured.walked.count && cache.fresh[n].ip == ip;
      python.native[n] = {ip, same ? cache.fresh[n].sp : 0};
    }
  }
  python.native_count = n;
}

/// The native frame that runs a Python frame, from `begin` on outwards: the one that holds its
/// anchor, or else the next one in the evaluation function. native_count: none of the known frames.
uint32_t native_frame_of(const PythonRuntime& runtime, const PythonScratch& python,
                         uintptr_t anchor, uint32_t begin) {
  const uint32_t count = python.native_count;
  const auto& native = python.native;
  uint32_t at = begin;
  if (anchor != 0 && anchor != PythonStack::kFarAnchor) {
    while (at + 1 < count && native[at + 1].sp != 0 && native[at + 1].sp <= anchor) ++at;
    if (at + 1 < count && native[at].sp != 0 && native[at].sp <= anchor &&
        anchor < native[at + 1].sp) {
      return at;
    }
  }
  while (at < count && !runtime.evaluates(native[at].ip)) ++at;
  return at;
}

void place_python_frames(const PythonRuntime& runtime, PythonScratch& python) {
  uint32_t at = 0;
  for (uint32_t i = 0; i < python.stack.frame_count(); ++i) {
    const uintptr_t anchor = python.stack.anchor(i);
    const bool same_call = i > 0 && anchor != 0 && anchor == python.stack.anchor(i - 1);
    if (!same_call) {
      const uint32_t begin = i > 0 && at < python.native_count ? at + 1 : at;
      at = native_frame_of(runtime, python, anchor, begin);
    }
    python.native_of[i] = static_cast<uint16_t>(at);
  }
}

/// The node of the stack with its Python frames; 0: the trie is full.
uint32_t merged_node(StackCache& cache, const PythonScratch& python) {
  TriePath path;
  uint32_t left = python.stack.frame_count();
  for (uint32_t i = python.native_count + 1; i-- > 0;) {
    if (i < python.native_count && !path.enter(cache, python.native[i].ip)) return 0;
    for (; left > 0 && python.native_of[left - 1] == i; --left) {
      const uint32_t number = python.stack.number(left - 1);
      // This stands for a return address, and no address can be this.
      if (number != 0 && !path.enter(cache, GPUPEAK_PYTHON_IP | number)) return 0;
    }
  }
  return path.node;
}

const RunningPython& find_python(const StackCache& cache, const Captured& captured, uint32_t node,
                                 PythonScratch& python) {
  RunningPython found{node, false, nullptr};
  if (captured.is_walked) {
    for (uint32_t i = cache.depth; i-- > 0 && !found.evaluates;) found.meet(cache.last[i].ip);
  } else {
    for (int i = captured.unwound.first; i < captured.unwound.count && !found.evaluates; ++i)
      found.meet(reinterpret_cast<uintptr_t>(cache.unwound[i]));
  }
  RunningPython& running = python.running.add(node);
  running.runtime = found.runtime;
  running.evaluates = found.evaluates;
  in_order();
  running.node = node;
  return running;
}

void know_merged(PythonScratch& python, uint32_t native, uint32_t node) {
  const PythonStack::Signature& now = python.stack.signature();
  MergedStack& merged = python.merged.add(now.a ^ native);
  merged.native = native;
  merged.python = now;
  merged.chain = merged.learned = 0;
  in_order();
  merged.node = node;
}

/// The thread's tables. nullptr: no interpreter is loaded, or there is no memory.
PythonScratch* scratch_of(StackCache& cache) {
  if (cache.python == nullptr) {
    if (!python_is_met()) return nullptr;
    cache.python = static_cast<PythonScratch*>(reserve_pages(sizeof(PythonScratch)));
    if (cache.python == nullptr) return nullptr;
  }
  PythonScratch& python = *cache.python;
  if (python.trie_generation != cache.trie_generation) {
    python.running.forget();
    python.forget_merged();
    python.trie_generation = cache.trie_generation;
  }
  return &python;
}

}  // namespace

uint32_t known_call_site(StackCache& cache, uint32_t node) {
  PythonScratch* const python = scratch_of(cache);
  if (python == nullptr) return node;
  if (const uint32_t site = python->standing_chain(node)) return site;
  const RunningPython* const running = python->running_in(node);
  if (running == nullptr) return 0;
  if (running->runtime == nullptr) return node;
  python->stack.read(*running->runtime, running->evaluates, false);
  if (python->stack.frame_count() == 0) return node;
  MergedStack* const merged = python->merged_with(node);
  if (merged == nullptr) return 0;
  const uint32_t site = merged->node;
  python->keep_chain(*merged);
  return site;
}

uint32_t with_python_frames(StackCache& cache, const Captured& captured, uint32_t node) {
  PythonScratch* const scratch = scratch_of(cache);
  if (scratch == nullptr) return node;
  PythonScratch& python = *scratch;
  const RunningPython* running = python.running_in(node);
  if (running == nullptr) running = &find_python(cache, captured, node, python);
  if (running->runtime == nullptr) return node;
  const uint32_t standing = captured.is_walked && cache.verify ? python.standing_chain(node) : 0;
  python.stack.read(*running->runtime, running->evaluates, cache.verify);
  if (python.stack.frame_count() == 0) return node;
  MergedStack* const known = captured.is_walked ? python.merged_with(node) : nullptr;
  if (known != nullptr && !cache.verify) return known->node;
  list_native_frames(cache, captured, python);
  place_python_frames(*running->runtime, python);
  const uint32_t merged = merged_node(cache, python);
  if (known != nullptr || standing != 0) {
    const bool right =
        (known == nullptr || known->node == merged) && (standing == 0 || standing == merged);
    count(right ? &gpupeak_counters_page::verified_stacks : &gpupeak_counters_page::wrong_stacks);
  }
  if (known != nullptr && standing == 0) python.keep_chain(*known);
  if (merged == 0) return node;
  if (captured.is_walked && known == nullptr) know_merged(python, node, merged);
  return merged;
}

}  // namespace gpupeak::preload
