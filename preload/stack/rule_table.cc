#include "stack/rule_table.h"

#include <atomic>
#include <optional>

namespace gpupeak::preload {
namespace {

// An entry: the address above kIndexBits, the base, and both offsets in words. 0: none.
constexpr unsigned kIndexBits = 15, kAddressBits = 47, kBaseBits = 3, kOffsetBits = 14;
static_assert(kAddressBits - kIndexBits + kBaseBits + 2 * kOffsetBits < 64);
constexpr uint64_t kOffsetMask = (1u << kOffsetBits) - 1;
constexpr int32_t kWord = 8;
constexpr int32_t kLargestOffset = static_cast<int32_t>(kOffsetMask) * kWord;

constinit std::atomic<uint64_t> g_entries[1u << kIndexBits];
constinit std::atomic<bool> g_used{false};  ///< has an entry

std::atomic<uint64_t>& entry_for(uintptr_t ip) {
  return g_entries[ip & ((1u << kIndexBits) - 1)];
}
uint64_t tag_of(uintptr_t ip) {
  return (ip >> kIndexBits) << (kBaseBits + 2 * kOffsetBits);
}
constexpr uint64_t kRuleMask = (uint64_t{1} << (kBaseBits + 2 * kOffsetBits)) - 1;

/// Of a usual frame; that of code without a table is quick to find, and may be of code that
/// changes.
std::optional<uint64_t> packed(const FrameRule& rule) {
  const bool usual = rule.base == FrameRule::kFromSp || rule.base == FrameRule::kFromFp ||
                     rule.base == FrameRule::kOutermost;
  const int32_t cfa = rule.cfa_offset, fp = -rule.fp_offset;
  const bool fits = cfa >= 0 && cfa <= kLargestOffset && cfa % kWord == 0 && fp >= 0 &&
                    fp <= kLargestOffset && fp % kWord == 0 && rule.ip >> kAddressBits == 0;
  if (!usual || !fits) return std::nullopt;
  return tag_of(rule.ip) | uint64_t{rule.base} << (2 * kOffsetBits) |
         static_cast<uint64_t>(cfa / kWord) << kOffsetBits | static_cast<uint64_t>(fp / kWord);
}

FrameRule unpacked(uintptr_t ip, uint64_t entry) {
  FrameRule rule{};
  rule.ip = ip;
  rule.base = static_cast<uint32_t>(entry >> (2 * kOffsetBits)) & ((1u << kBaseBits) - 1);
  rule.cfa_offset = static_cast<int32_t>(entry >> kOffsetBits & kOffsetMask) * kWord;
  rule.fp_offset = -static_cast<int32_t>(entry & kOffsetMask) * kWord;
  return rule;
}

}  // namespace

FrameRule frame_rule(uintptr_t ip) {
  std::atomic<uint64_t>& known = entry_for(ip);
  const uint64_t entry = known.load(std::memory_order_relaxed);
  if (entry != 0 && (entry & ~kRuleMask) == tag_of(ip) && ip >> kAddressBits == 0) {
    return unpacked(ip, entry);
  }
  const FrameRule rule = read_frame_rule(ip);
  if (const std::optional<uint64_t> word = packed(rule)) {
    known.store(*word, std::memory_order_relaxed);
    g_used.store(true, std::memory_order_release);
  }
  return rule;
}

void forget_frame_rules() {
  if (!g_used.exchange(false, std::memory_order_acquire)) return;
  for (std::atomic<uint64_t>& entry : g_entries) entry.store(0, std::memory_order_relaxed);
}

}  // namespace gpupeak::preload
