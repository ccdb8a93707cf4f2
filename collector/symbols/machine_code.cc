#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>

#include "collector/symbols/loaded_image.h"
#include "gpupeak/pages.h"

namespace gpupeak::collector {
namespace {

constexpr uint64_t kInstructionBytes = 4;
constexpr uint32_t kRegisters = 32;

constexpr uint32_t bits(uint32_t word, int low, int count) {
  return word >> low & ((1U << count) - 1);
}
constexpr uint64_t signed_bits(uint64_t value, int count) {
  const uint64_t sign = uint64_t{1} << (count - 1);
  return (value ^ sign) - sign;
}

/// What an instruction does with addresses (Arm Architecture Reference Manual, C4.1).
struct Instruction {
  enum class Kind : uint8_t {
    kOther,
    kWrites,   ///< something into `to`
    kPage,     ///< adrp: `value` into `to`
    kAddress,  ///< adr: `value` into `to`
    kSum,      ///< `from` + `value` into `to`
    kLoad,     ///< loads from `from` + `value` into `to`
    kStore,    ///< stores to `from` + `value`, or accesses it in another way
    kJump,     ///< may jump to `value`
    kLeave,    ///< does not go on to the next instruction
    kJumpAway  ///< both: jumps to `value` and nowhere else
  };
  Kind kind = Kind::kOther;
  uint32_t to = 0, from = 0;  ///< registers
  uint64_t value = 0;
};
using Effect = Instruction::Kind;

std::optional<Instruction> jump_of(uint32_t word, uint64_t at) {
  const auto target = [&](int low, int count) {
    return at + (signed_bits(bits(word, low, count), count) << 2);
  };
  if ((word & 0xff000000) == 0x54000000) return Instruction{Effect::kJump, 0, 0, target(5, 19)};
  if ((word & 0x7e000000) == 0x34000000) return Instruction{Effect::kJump, 0, 0, target(5, 19)};
  if ((word & 0x7e000000) == 0x36000000) return Instruction{Effect::kJump, 0, 0, target(5, 14)};
  if ((word & 0xfc000000) == 0x14000000) return Instruction{Effect::kJumpAway, 0, 0, target(0, 26)};
  const bool call = (word & 0xfe600000) == 0xd6200000;
  if ((word & 0xfe000000) == 0xd6000000 && !call) return Instruction{Effect::kLeave, 0, 0, 0};
  return std::nullopt;
}

/// ldr, str, ldp, stp and similar ones.
std::optional<Instruction> access_of(uint32_t word) {
  const uint32_t to = bits(word, 0, 5), from = bits(word, 5, 5), size = bits(word, 30, 2);
  const bool vector = bits(word, 26, 1) != 0;
  const bool here = (word & 0x3b000000) == 0x18000000;  // loads a constant beside the code
  if (here && !vector) return Instruction{Effect::kWrites, to, 0, 0};
  const auto of = [&](uint64_t distance, bool loads) {
    return Instruction{loads && !vector ? Effect::kLoad : Effect::kStore, to, from, distance};
  };
  const bool fetches_ahead = size == 3 && bits(word, 22, 2) == 2;
  const bool loads = bits(word, 22, 2) != 0 && !fetches_ahead;
  if ((word & 0x3b000000) == 0x39000000) {
    const bool sixteen_bytes = vector && bits(word, 23, 1) != 0;
    return of(uint64_t{bits(word, 10, 12)} << (sixteen_bytes ? 4 : size), loads);
  }
  if ((word & 0x3b200000) == 0x38000000) return of(signed_bits(bits(word, 12, 9), 9), loads);
  if ((word & 0x3b200c00) == 0x38200800) return of(0, loads);  // plus another register's value
  if ((word & 0x3a000000) == 0x28000000) {
    const uint32_t scale = 2 + (vector ? size : size >> 1);
    return of(signed_bits(bits(word, 15, 7), 7) << scale, bits(word, 22, 1) != 0);
  }
  return std::nullopt;
}

Instruction decode(uint32_t word, uint64_t at) {
  const uint32_t to = bits(word, 0, 5), from = bits(word, 5, 5);
  if ((word & 0x1f000000) == 0x10000000) {
    const uint64_t distance = signed_bits(uint64_t{bits(word, 5, 19)} << 2 | bits(word, 29, 2), 21);
    if (bits(word, 31, 1) == 0) return {Effect::kAddress, to, 0, at + distance};
    return {Effect::kPage, to, 0, at / kPageBytes * kPageBytes + distance * kPageBytes};
  }
  if ((word & 0xbf800000) == 0x91000000) {  // add, sub of 64 bits
    const uint64_t distance = uint64_t{bits(word, 10, 12)} << (bits(word, 22, 1) != 0 ? 12 : 0);
    return {Effect::kSum, to, from, bits(word, 30, 1) != 0 ? 0 - distance : distance};
  }
  if ((word & 0xffe0ffe0) == 0xaa0003e0) return {Effect::kSum, to, bits(word, 16, 5), 0};  // mov
  if (const auto found = jump_of(word, at)) return *found;
  if (const auto found = access_of(word)) return *found;
  // Ccmp: has flags where others have a register.
  const bool compares = (word & 0x1fe00000) == 0x1a400000;
  const bool computes = bits(word, 26, 3) == 4 || bits(word, 25, 3) == 5;
  return {computes && !compares ? Effect::kWrites : Effect::kOther, to, 0, 0};
}

/// Goes through code in the order of addresses and follows what registers hold. An address takes
/// two instructions or more: adrp for the page, add or the access itself for the rest, and another
/// add if the compiler addresses several objects together (section anchors). Code behind a jump
/// that always jumps is reached from elsewhere: a jump forward passes on what registers held at the
/// jump.
class Walk {
 public:
  explicit Walk(const Code& code) : code_(code), next_(code.begin) {}

  /// Goes to the next instruction. False: there is none.
  bool step() {
    if (code_.end - next_ < kInstructionBytes) return false;
    at_ = next_;
    next_ += kInstructionBytes;
    memcpy(&word_, code_.bytes + (at_ - code_.begin), sizeof word_);
    arrive();
    instruction_ = decode(word_, at_);
    apply();
    return true;
  }
  /// A function begins here: nothing is known of registers.
  void forget() {
    held_ = {};
    waiting_.clear();
  }
  uint64_t next() const { return next_; }
  const Instruction& instruction() const { return instruction_; }
  /// The address that the instruction makes or accesses; 0: none, or not known.
  uint64_t target() const { return target_; }
  /// Whether the instruction may read or write that register: looks at all places where
  /// instructions name one.
  bool mentions(uint32_t number) const {
    const bool has_constant = bits(word_, 26, 3) == 4;  // has a constant in the other places
    const bool is_constant = has_constant && bits(word_, 23, 3) == 5;
    const std::array<int, 4> places{0, 5, 10, 16};
    const int count = is_constant ? 1 : has_constant ? 2 : 4;
    return std::any_of(places.begin(), places.begin() + count,
                       [&](int low) { return bits(word_, low, 5) == number; });
  }

 private:
  using Registers = std::array<uint64_t, kRegisters>;  // 0: unknown

  void arrive() {
    if (waiting_.empty() || waiting_.begin()->first > at_) return;
    const auto here = waiting_.begin();
    if (here->first == at_) {
      for (uint32_t i = 0; i < kRegisters; ++i) {
        if (left_ || held_[i] == 0) held_[i] = here->second[i];
      }
    }
    waiting_.erase(here);
  }
  void pass_on(uint64_t to) {
    if (to > at_ && to < code_.end) waiting_.try_emplace(to, held_);
  }
  void apply() {
    const Instruction& now = instruction_;
    const uint64_t reached = held_[now.from] == 0 ? 0 : held_[now.from] + now.value;
    left_ = now.kind == Effect::kLeave || now.kind == Effect::kJumpAway;
    target_ = 0;
    switch (now.kind) {
      case Effect::kPage:
        held_[now.to] = now.value;
        break;
      case Effect::kAddress:
        held_[now.to] = target_ = now.value;
        break;
      case Effect::kSum:
        held_[now.to] = target_ = reached;
        break;
      case Effect::kLoad:
        target_ = reached;
        held_[now.to] = 0;
        break;
      case Effect::kStore:
        target_ = reached;
        break;
      case Effect::kWrites:
        held_[now.to] = 0;
        break;
      case Effect::kJump:
      case Effect::kJumpAway:
        pass_on(now.value);
        break;
      case Effect::kLeave:
      case Effect::kOther:
        break;
    }
  }

  Code code_;
  uint64_t at_ = 0, next_;
  uint32_t word_ = 0;
  Instruction instruction_;
  uint64_t target_ = 0;
  bool left_ = false;
  Registers held_{};
  std::map<uint64_t, Registers> waiting_;  // by the target of earlier jumps
};

std::vector<uint64_t> referred_by_aarch64(const Code& code, uint64_t begin, uint64_t end,
                                          const std::vector<uint64_t>& starts) {
  std::vector<uint64_t> found;
  auto start = std::lower_bound(starts.begin(), starts.end(), code.begin);
  for (Walk walk(code);;) {
    for (; start != starts.end() && *start <= walk.next(); ++start) walk.forget();
    if (!walk.step()) return found;
    if (walk.target() - begin < end - begin) found.push_back(walk.target());
  }
}

/// An address that is only made to make another one from it, in the same register, is not taken.
std::vector<uint64_t> taken_by_aarch64(const Code& function) {
  std::vector<uint64_t> found;
  std::array<bool, kRegisters> unused{};  // since the register's address was made
  std::array<size_t, kRegisters> last{};  // the place of that address in `found`
  for (Walk walk(function); walk.step();) {
    const Instruction& now = walk.instruction();
    const bool takes = now.kind == Effect::kAddress || now.kind == Effect::kSum;
    const bool on_the_way = takes && now.to == now.from && unused[now.to];
    for (uint32_t i = 0; i < kRegisters; ++i) unused[i] = unused[i] && !walk.mentions(i);
    if (!takes || walk.target() == 0) continue;
    if (on_the_way) {
      found[last[now.to]] = walk.target();
    } else {
      last[now.to] = found.size();
      found.push_back(walk.target());
    }
    unused[now.to] = true;
  }
  return found;
}

/// Code refers to data relative to the end of an instruction: a byte that says so, four bytes of
/// distance, and sometimes one more byte of a constant. Bytes that only look so do no harm: then a
/// word too many is marked.
std::vector<uint64_t> referred_by_x86_64(const Code& code, uint64_t begin, uint64_t end,
                                         const std::vector<uint64_t>& /*starts*/) {
  constexpr uint64_t kBytes = UINT64_C(0x0101010101010101);
  constexpr uint64_t kStep = sizeof kBytes;
  constexpr uint64_t kDistance = 4;
  std::vector<uint64_t> found;
  for (uint64_t i = 0; i + kStep + kDistance <= code.end - code.begin; i += kStep) {
    uint64_t eight;
    memcpy(&eight, code.bytes + i, sizeof eight);
    // Has the highest bit of each byte that fits, and sometimes of one behind such a byte.
    const uint64_t odd = (eight & kBytes * 0xc7) ^ kBytes * 0x05;
    for (uint64_t hits = (odd - kBytes) & ~odd & kBytes * 0x80; hits != 0; hits &= hits - 1) {
      const uint64_t at = i + static_cast<uint64_t>(std::countr_zero(hits)) / 8;
      int32_t distance;
      memcpy(&distance, code.bytes + at + 1, sizeof distance);
      const uint64_t target =
          code.begin + at + 1 + kDistance + static_cast<uint64_t>(int64_t{distance});
      if (target - begin >= end - begin) continue;
      found.push_back(target);
      found.push_back(target + 1);
    }
  }
  return found;
}

/// lea register, [rip + distance]. The caller has to sort out bytes that only look so.
std::vector<uint64_t> taken_by_x86_64(const Code& function) {
  constexpr uint64_t kInstruction = 7;
  std::vector<uint64_t> found;
  for (uint64_t at = 0; at + kInstruction <= function.end - function.begin; ++at) {
    const uint8_t* bytes = function.bytes + at;
    const bool wide = (bytes[0] & 0xfb) == 0x48;  // any of the sixteen registers
    if (!wide || bytes[1] != 0x8d || (bytes[2] & 0xc7) != 0x05) continue;
    int32_t distance;
    memcpy(&distance, bytes + 3, sizeof distance);
    found.push_back(function.begin + at + kInstruction + static_cast<uint64_t>(int64_t{distance}));
  }
  return found;
}

}  // namespace

const Machine kAarch64{R_AARCH64_RELATIVE,  R_AARCH64_ABS64,  R_AARCH64_GLOB_DAT,
                       referred_by_aarch64, taken_by_aarch64, false};

const Machine kX86_64{R_X86_64_RELATIVE,  R_X86_64_64,     R_X86_64_GLOB_DAT,
                      referred_by_x86_64, taken_by_x86_64, true};

}  // namespace gpupeak::collector
