#include "stack/rule_table.h"

#include <atomic>
#include <optional>

namespace gpupeak::preload {
namespace {

// An entry: the address above its index, the base, the form and both offsets in words. 0: none.
constexpr unsigned kIndexBits = 15, kBaseBits = 3, kOffsetBits = 14;
constexpr unsigned kRuleBits = kBaseBits + kFrameFormBits + 2 * kOffsetBits;
static_assert(kCodeAddressBits - kCodeAlignmentBits - kIndexBits + kRuleBits < 64);
constexpr uint64_t kOffsetMask = (1u << kOffsetBits) - 1;
constexpr int32_t kWord = 8;
constexpr int32_t kLargestOffset = static_cast<int32_t>(kOffsetMask) * kWord;

constinit std::atomic<uint64_t> g_entries[1u << kIndexBits];
constinit std::atomic<bool> g_used{false};  ///< there is an entry

std::atomic<uint64_t>& entry_for(uintptr_t ip) {
  return g_entries[ip >> kCodeAlignmentBits & ((1u << kIndexBits) - 1)];
}
uint64_t tag_of(uintptr_t ip) {
  return (ip >> (kCodeAlignmentBits + kIndexBits)) << kRuleBits;
}
constexpr uint64_t kRuleMask = (uint64_t{1} << kRuleBits) - 1;

/// Of cfa_offset: kRealigned has a word below the frame pointer, others are above a register.
int32_t sign_of_cfa(uint32_t base) {
  return base == FrameRule::kRealigned ? -1 : 1;
}

/// The rule as an entry, if it is of a usual frame. The rule of code without a table is quick to
/// find, and that code may change.
std::optional<uint64_t> packed(const FrameRule& rule) {
  const bool usual = rule.base == FrameRule::kFromSp || rule.base == FrameRule::kFromFp ||
                     rule.base == FrameRule::kOutermost || rule.base == FrameRule::kRealigned;
  int32_t folded;
  uint64_t form;
  if (!usual || !fold(rule.fp_offset, rule.returns, folded, form)) return std::nullopt;
  const int32_t cfa = rule.cfa_offset * sign_of_cfa(rule.base), below = -folded;
  const bool fits = cfa >= 0 && cfa <= kLargestOffset && cfa % kWord == 0 && below >= 0 &&
                    below <= kLargestOffset && below % kWord == 0 &&
                    rule.ip >> kCodeAddressBits == 0 && rule.ip % (1u << kCodeAlignmentBits) == 0;
  if (!fits) return std::nullopt;
  return tag_of(rule.ip) | (form << kBaseBits | rule.base) << (2 * kOffsetBits) |
         static_cast<uint64_t>(cfa / kWord) << kOffsetBits | static_cast<uint64_t>(below / kWord);
}

FrameRule unpacked(uintptr_t ip, uint64_t entry) {
  FrameRule rule{};
  rule.ip = ip;
  rule.base = static_cast<uint32_t>(entry >> (2 * kOffsetBits)) & ((1u << kBaseBits) - 1);
  rule.cfa_offset =
      static_cast<int32_t>(entry >> kOffsetBits & kOffsetMask) * kWord * sign_of_cfa(rule.base);
  const uint64_t form = entry >> (2 * kOffsetBits + kBaseBits) & ((1u << kFrameFormBits) - 1);
  rule.returns = unfold(-static_cast<int32_t>(entry & kOffsetMask) * kWord, form, rule.fp_offset);
  return rule;
}

}  // namespace

FrameRule frame_rule(uintptr_t ip) {
  std::atomic<uint64_t>& known = entry_for(ip);
  const uint64_t entry = known.load(std::memory_order_relaxed);
  if (entry != 0 && (entry & ~kRuleMask) == tag_of(ip) && ip >> kCodeAddressBits == 0) {
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
