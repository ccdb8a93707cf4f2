#include "stack/stack.h"

#include "base/environment.h"
#include "base/hook_scope.h"
#include "base/kept_errno.h"
#include "base/process_state.h"
#include "log/log.h"
#include "stack/frame_rules.h"
#include "stack/module_map.h"
#include "stack/python_places.h"
#include "stack/stack_cache.h"
#include "stack/unwinder.h"

namespace gpupeak::preload {
namespace {

constexpr uintptr_t kLargestFrameBytes = 16 << 20;
constexpr uintptr_t kLargestGuessedBytes = 16 + (16 << 10);  // as in libunwind

__attribute__((noinline)) void forget_code(StackCache& cache, uint64_t generation) {
  static constexpr uintptr_t kNever = 0;
  const bool fresh = cache.trie_generation == 0;
  cache.words[0] = {&kNever, 1};
  cache.trie_generation = generation;
  cache.verify = environment().verify_stacks;
  cache.depth = 0;
  cache.guessed = false;
  cache.readable.forget();
  if (fresh) return;  // all zeros, and not yet in memory
  for (StackCache::Edge& edge : cache.edges) edge = {};
  for (FrameRule& rule : cache.rules) rule = {};
  cache.traces.forget();
}

/// Drops what the cache knows of code that was unloaded since.
inline void refresh(StackCache& cache) {
  const uint64_t generation = trie_generation();
  if (__builtin_expect(cache.trie_generation != generation, 0)) forget_code(cache, generation);
}

/// A signal handler that leaves by a jump leaves no half rule.
void replace_rule(FrameRule& old, const FrameRule& rule) {
  old.ip = 0;
  in_order();
  old.fp_offset = rule.fp_offset;
  old.cfa_offset = rule.cfa_offset;
  old.base = rule.base;
  old.returns = rule.returns;
  in_order();
  old.ip = rule.ip;
}

/// A rule lies in one of two places side by side.
const FrameRule& rule_for(StackCache& cache, uintptr_t ip) {
  FrameRule* rules = &cache.rules[(ip * 0x9e3779b97f4a7c15u >> 40) & (StackCache::kRules - 2)];
  if (rules[0].ip == ip) return rules[0];
  if (rules[1].ip != ip) {
    replace_rule(rules[1], rules[0]);
    replace_rule(rules[0], frame_rule(ip));
    return rules[0];
  }
  return rules[1];
}

const uintptr_t* pointer_to(uintptr_t address) {
  return reinterpret_cast<const uintptr_t*>(address);
}
uintptr_t word_at(uintptr_t address) {
  return *pointer_to(address);
}
uintptr_t moved(uintptr_t address, int32_t offset) {
  return address + static_cast<uintptr_t>(static_cast<intptr_t>(offset));
}

/// The frame that the word leads from; at most `index`.
uint32_t frame_of(const StackCache& cache, const StackWord* word, uint32_t index) {
  const auto changed = static_cast<uint32_t>(word - cache.words);
  while (index > 0 && cache.last[index - 1].words >= changed) --index;
  return index;
}

void begin_guessing(StackCache& cache) {
  if (cache.guessed) return;
  cache.guessed = true;
  g_guessing.store(true, std::memory_order_relaxed);
}

/// Whether a frame keeps its caller's frame pointer within itself.
bool keeps_fp_inside(uintptr_t sp, uintptr_t cfa, int32_t fp_offset) {
  return fp_offset == FrameRule::kFpUnchanged ||
         (fp_offset <= -8 && moved(cfa, fp_offset) - sp < cfa - sp);
}

/// For a stack that is not the thread's own, or is the thread's own and in use deeper than before.
/// What is known of another stack is valid until that is unmapped.
__attribute__((noinline)) bool is_readable_elsewhere(StackCache& cache, uintptr_t sp,
                                                     uintptr_t end) {
  const bool watched = host_recording();  // else unmaps are not seen
  if (watched && cache.readable.has(sp, end)) return true;
  if (cache.own.reaches(sp, end)) return true;
  if (watched)
    begin_guessing(cache);
  else
    cache.readable.forget();
  return cache.readable.reaches(sp, end);
}

/// Whether all from `sp` up to `end` can be read.
bool is_readable(StackCache& cache, uintptr_t sp, uintptr_t end) {
  return __builtin_expect(cache.own.has(sp, end), 1) || is_readable_elsewhere(cache, sp, end);
}

Walk walk(StackCache& cache, const CallerFrame& caller) {
  Walk result;
  uintptr_t ip = caller.ip, sp = caller.sp, fp = caller.fp;
  bool guessed = false;              // from there on registers may have any values
  uint32_t candidate = cache.depth;  // last[candidate - 1] is the next frame at which we can be
  while (result.count < GPUPEAK_MAX_FRAMES) {
    while (candidate > 0 && cache.last[candidate - 1].sp < sp) --candidate;
    if (candidate > 0) {
      const CachedFrame& known = cache.last[candidate - 1];
      if (known.is_at(ip, sp, fp)) {
        const StackWord* changed =
            StackCache::changed_word(cache.words + cache.last[candidate - 1].words);
        if (changed == cache.words) {
          result.kept = candidate;
          result.complete = true;
          return result;
        }
        candidate = frame_of(cache, changed, candidate - 1);  // frames inside of it have changed
      }
    }
    const FrameRule& rule = rule_for(cache, ip);
    const bool guess = rule.base == FrameRule::kGuessed;
    FreshFrame& fresh = cache.fresh[result.count++];
    fresh = {ip, sp, fp, rule.fp_offset, guess || rule.base == FrameRule::kFromFp, 0, rule.returns};
    if (rule.base == FrameRule::kOutermost) {
      result.complete = true;
      return result;
    }
    if (rule.base == FrameRule::kUnsupported) return result;
    if (guess && !guessed) {
      // A guess leads to memory that may be unmapped later: mappings must be watched.
      if (!host_recording()) return result;
      guessed = true;
      begin_guessing(cache);
    }
    uintptr_t cfa = moved(rule.base == FrameRule::kFromSp ? sp : fp, rule.cfa_offset);
    if (__builtin_expect(rule.base == FrameRule::kRealigned, 0)) {
      const bool inside = sp <= cfa && cfa < fp && fp - sp <= kLargestFrameBytes && fp % 8 == 0;
      if (guessed || !inside || cfa % 8 != 0) return result;
      if (!is_readable(cache, sp, cfa + 8)) {
        result.complete = true;
        return result;
      }
      cfa = word_at(cfa);
      if (cfa <= fp) return result;
      fresh.uses_fp = true;
      fresh.cfa_word = rule.cfa_offset;
      fresh.fp_offset = static_cast<int32_t>(fp - cfa);
    }
    const uintptr_t largest = guess ? kLargestGuessedBytes : kLargestFrameBytes;
    const bool plain = sp < cfa && cfa - sp <= largest && (cfa & 7) == 0;
    const bool fits = plain && keeps_fp_inside(sp, cfa, fresh.fp_offset);
    if (!fits && !guessed) return result;
    if (!fits || !(guessed ? cache.readable.reaches(sp, cfa) : is_readable(cache, sp, cfa))) {
      result.complete = true;  // nothing leads on from here
      return result;
    }
    const uintptr_t returns = moved(cfa, rule.returns.offset);
    ip = code_address(word_at(returns));
    // No branch, since that would be as good as random: the return address can always be read.
    const bool fp_unchanged = fresh.fp_offset == FrameRule::kFpUnchanged;
    const uintptr_t saved_fp = word_at(fp_unchanged ? returns : moved(cfa, fresh.fp_offset));
    fp = fp_unchanged ? fp : saved_fp;
    sp = cfa;
    if (ip == 0) {
      result.end = pointer_to(returns);
      result.complete = fresh.cfa_word == 0;  // else no caller to check that word with
      return result;
    }
  }
  return result;
}

/// The frame as last[depth]. The words that lead from it to last[depth - 1] are added to the words:
/// the return address last, so that it is compared first; behind it only the word that tells where
/// it lies.
CachedFrame join(StackCache& cache, uint32_t depth, const FreshFrame& fresh, uint32_t node,
                 const uintptr_t* end) {
  CachedFrame frame{fresh.ip, fresh.sp,      fresh.fp,      node,
                    0,        fresh.uses_fp, fresh.uses_fp, fresh.cfa_word != 0};
  if (depth == 0) {
    if (end != nullptr) cache.words[++frame.words] = {end, 0};
    return frame;
  }
  const CachedFrame& caller = cache.last[depth - 1];
  const bool kept_fp = fresh.fp_offset != FrameRule::kFpUnchanged;
  uint32_t words = caller.words;
  cache.words[words + 1] = {pointer_to(moved(caller.sp, fresh.fp_offset)), caller.fp};
  words += kept_fp && caller.needs_fp;
  const uintptr_t* returns = pointer_to(moved(caller.sp, fresh.returns.offset));
  cache.words[++words] = {returns, kSignsReturns ? *returns : caller.ip};
  cache.words[words + 1] = {pointer_to(moved(fresh.fp, fresh.cfa_word)), caller.sp};
  words += frame.realigned;
  frame.words = words;
  frame.needs_fp |= !kept_fp && caller.needs_fp;
  return frame;
}

/// Hashes of the walk's frames, from cache.paths[depth] on.
void hash_paths(StackCache& cache, const Walk& found, uint32_t depth) {
  uint64_t path = depth > 0 ? cache.paths[depth - 1] : 0;
  for (uint32_t i = 0; i < found.count; ++i) {
    path = path_hash(path, cache.fresh[found.count - 1 - i].ip);
    cache.paths[depth + i] = path;
  }
  prefetch_trie(cache.paths + depth, found.count);
}

/// Makes the walk the thread's last stack, with its nodes. 0 if the trie is full.
uint32_t adopt(StackCache& cache, const Walk& found) {
  uint32_t depth = found.kept;
  uint32_t node = depth > 0 ? cache.last[depth - 1].node : 0;
  cache.depth = depth;
  const uint32_t kept_tails = depth / StackSteps::kTailFrames;
  if (kept_tails < cache.steps.kept_tails) cache.steps.kept_tails = kept_tails;
  if (found.count == 0) return node;
  if (depth + found.count > GPUPEAK_MAX_FRAMES) {
    cache.depth = 0;
    return 0;
  }
  hash_paths(cache, found, depth);
  const auto enter = [&](const FreshFrame& fresh, uint32_t id) {
    node = id;
    cache.last[depth] = join(cache, depth, fresh, id, found.end);
    ++depth;
  };
  uint32_t left = found.count;  // of cache.fresh, whose last one is the outermost
  for (; left > 0; --left) {
    const FreshFrame& fresh = cache.fresh[left - 1];
    const uint32_t known = known_child(cache, node, fresh.ip, cache.paths[depth]);
    if (known == 0) break;
    enter(fresh, known);
  }
  if (left > 0) {  // nothing is known below a new node
    for (uint32_t i = left; i-- > 0;) cover_node(cache.fresh[i].ip);
    NodeMaker maker;
    for (; left > 0; --left) {
      const FreshFrame& fresh = cache.fresh[left - 1];
      const uint32_t made = maker.node(node, fresh.ip, cache.paths[depth]);
      if (made == 0) {
        cache.depth = 0;
        return 0;
      }
      enter(fresh, keep_edge(cache, node, fresh.ip, cache.paths[depth], made));
    }
  }
  cache.depth = depth;
  return node;
}

/// The words of the thread's last stack in the order in which a walk depends on them. The word by
/// which a frame's fp was restored comes when a frame uses fp, since until then it makes no
/// difference.
void list_steps(StackCache& cache, const CallerFrame& caller) {
  StackSteps& stack = cache.steps;
  stack.count = stack.tail_count = 0;
  StackWord fp{nullptr, caller.fp};
  bool fp_is_listed = false;
  for (uint32_t i = cache.depth; i-- > 0;) {
    const CachedFrame& frame = cache.last[i];
    const uint32_t outer_words = i > 0 ? cache.last[i - 1].words : 0;
    if ((i + 1) % StackSteps::kTailFrames == 0) {
      const bool uses_fp = frame.needs_fp != 0 && !fp_is_listed;
      stack.begin_tail(i / StackSteps::kTailFrames, uses_fp ? fp : StackSteps::kNoFp);
    }
    if (frame.uses_fp && !fp_is_listed) {
      stack.steps[stack.count++] = fp;
      fp_is_listed = true;
    }
    uint32_t word = frame.words;
    if (frame.realigned != 0) stack.steps[stack.count++] = cache.words[word--];
    if (word > outer_words) stack.steps[stack.count++] = cache.words[word];
    if (word > outer_words + 1) {
      fp = cache.words[word - 1];
      fp_is_listed = false;
    }
  }
  stack.kept_tails = cache.depth / StackSteps::kTailFrames;
}

/// Remembers the thread's last stack if it was met before: many stacks are met only once.
void remember(StackCache& cache, const CallerFrame& caller) {
  const uint32_t node = cache.last[cache.depth - 1].node, bit = node % StackCache::kSeen;
  const auto mask = static_cast<uint8_t>(1u << bit % 8);
  if ((cache.seen[bit / 8] & mask) == 0) {
    cache.seen[bit / 8] |= mask;
    return;
  }
  if (cache.traces.find(caller) != 0) return;
  list_steps(cache, caller);
  cache.traces.learn(caller, cache.steps, node);
}

/// The node of frames[first … count), innermost first. 0: the trie is full.
uint32_t node_of(StackCache& cache, void* const* frames, int first, int count) {
  TriePath path;
  for (int i = count; i-- > first;) {
    if (!path.enter(cache, reinterpret_cast<uintptr_t>(frames[i]))) return 0;
  }
  return path.node;
}

/// Unwinds from here, by libunwind. `caller` stands for the whole stack if there is no unwinder, or
/// no room for it on the stack.
uint32_t unwound_node(StackCache& cache, const void* caller, Unwound& unwound) {
  const KeptErrno program_errno;
  constexpr int kCapacity = sizeof cache.unwound / sizeof cache.unwound[0];
  int count = 0;
  if (!is_short_of_stack()) {
    const LibraryScope inside;
    count = unwind(cache.unwind_scratch, cache.unwound, kCapacity);
  }
  int first = 0;
  while (first < count && is_own_code(reinterpret_cast<uintptr_t>(cache.unwound[first]))) ++first;
  const bool is_real = first < count;
  if (!is_real) {
    cache.unwound[0] = const_cast<void*>(caller);
    first = 0;
    count = 1;
  } else if (count == kCapacity) {
    gpupeak::preload::count(&gpupeak_counters_page::truncated_stacks);
  }
  // libunwind 1.3's fast way gives the byte before each return address. Below a signal's frame it
  // gives the address itself: adding one is then one byte too far.
  if (reinterpret_cast<uintptr_t>(cache.unwound[first]) + 1 ==
      reinterpret_cast<uintptr_t>(caller)) {
    for (int i = first; i < count; ++i) cache.unwound[i] = static_cast<char*>(cache.unwound[i]) + 1;
  }
  if (count - first > static_cast<int>(GPUPEAK_MAX_FRAMES)) count = first + GPUPEAK_MAX_FRAMES;
  unwound = {first, count, is_real};
  return node_of(cache, cache.unwound, first, count);
}

uint32_t capture(StackCache& cache, const CallerFrame& caller, Captured& captured) {
  if (__builtin_expect(!g_hears_loader.load(std::memory_order_relaxed), 0)) drop_unloaded_modules();
  refresh(cache);
  const uint32_t known = cache.verify ? cache.known_stack(caller) : 0;
  captured.walked = walk(cache, caller);
  const uint32_t node = captured.walked.complete ? adopt(cache, captured.walked) : 0;
  captured.is_walked = node != 0;
  if (node != 0) remember(cache, caller);
  if (__builtin_expect(node == 0 || cache.verify, 0)) {
    const uint32_t unwound =
        unwound_node(cache, reinterpret_cast<const void*>(caller.ip), captured.unwound);
    if (node == 0) return unwound;
    if (!captured.unwound.is_real) return node;
    const bool right = node == unwound && (known == 0 || known == unwound);
    count(right ? &gpupeak_counters_page::verified_stacks : &gpupeak_counters_page::wrong_stacks);
  }
  return node;
}

}  // namespace

uint32_t capture_stack(StackCache& cache, const CallerFrame& caller) {
  Captured captured;
  return capture(cache, caller, captured);
}

/// A function of its own, so that a known stack need not make room for what is captured.
static __attribute__((noinline)) uint32_t captured_call_site(StackCache& cache,
                                                             const CallerFrame& caller,
                                                             bool python) {
  Captured captured;
  const uint32_t node = capture(cache, caller, captured);
  return node != 0 && python ? with_python_frames(cache, captured, node) : node;
}

GPUPEAK_HOT uint32_t capture_call_site(StackCache& cache, const CallerFrame& caller) {
  const bool python = environment().python;
  if (const uint32_t known = standing_stack(cache, caller)) {
    const uint32_t site = python ? known_call_site(cache, known) : known;
    if (site != 0) return site;
  }
  return captured_call_site(cache, caller, python);
}

}  // namespace gpupeak::preload
