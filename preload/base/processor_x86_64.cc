#include <cpuid.h>

#include <cstring>
#include <ctime>
#include <string_view>

#include "base/function_entry.h"
#include "base/proc_file.h"
#include "base/syscalls.h"

namespace gpupeak::preload {
namespace {

bool has(unsigned leaf, unsigned bit) {
  unsigned a, b, c, d;
  return __get_cpuid(leaf, &a, &b, &c, &d) && (d & (1u << bit)) != 0;
}

/// Whether the kernel keeps time by this clock. The kernel watches whether the TSCs of all
/// processors are in step, and leaves the TSC if not.
bool kernel_goes_by(std::string_view clock) {
  char name[16];
  const size_t bytes = read_file("/sys/devices/system/clocksource/clocksource0/current_clocksource",
                                 name, sizeof name);
  return bytes == clock.size() + 1 && memcmp(name, clock.data(), clock.size()) == 0;
}

/// Whether clock_gettime answers without the kernel. The shortest time of some tries counts, since
/// disturbances only make a try longer; and if clock_gettime calls the kernel, it is never quicker
/// than a direct call.
bool reads_time_itself() {
  constexpr int kTries = 16;
  uint64_t library = UINT64_MAX, kernel = UINT64_MAX;
  timespec now{};
  const auto time = [](uint64_t& shortest, auto&& read) {
    const uint64_t begin = __builtin_ia32_rdtsc();
    read();
    const uint64_t took = __builtin_ia32_rdtsc() - begin;
    if (took < shortest) shortest = took;
  };
  for (int i = 0; i < kTries; ++i) {
    time(library, [&] { clock_gettime(CLOCK_MONOTONIC, &now); });
    time(kernel, [&] { sys::clock_gettime(CLOCK_MONOTONIC, &now); });
  }
  return library < kernel / 2;
}

/// kvm-clock is a guest's clock for which the hypervisor gives the TSC's parameters. With them it
/// says (PVCLOCK_TSC_STABLE_BIT) whether the TSCs of all virtual processors are in step. Only then
/// does clock_gettime answer by them, by one set for all processors: so what the kernel's clock
/// orders, the TSC orders too.
bool hypervisor_trusts_tsc() {
  return kernel_goes_by("kvm-clock") && reads_time_itself();
}

}  // namespace

bool arch::counter_can_be_trusted() {
  const bool has_rdtscp = has(0x80000001, 27);
  if (!has_rdtscp) return false;
  const bool is_invariant = has(0x80000007, 8);  // it ticks evenly, in sleep states too
  return (is_invariant && kernel_goes_by("tsc")) || hypervisor_trusts_tsc();
}

// Code that is moved.

namespace {

constexpr size_t kJumpBytes = 5;  // e9, distance

enum class Flow : uint8_t {
  kNext,       ///< the next instruction follows
  kCondition,  ///< the next one or another one follows
  kJump,
  kCall,
  kElsewhere  ///< it returns, jumps to the address in a register, or stops
};

struct Instruction {
  size_t bytes = 0;
  size_t relative_at = 0;  ///< where a distance to data is, in bytes from the start; 0: none
  Flow flow = Flow::kNext;
  uint8_t condition = 0;            ///< of kCondition
  const uint8_t* target = nullptr;  ///< of kCondition, kJump and kCall
};

// What stands behind each opcode (the manual's appendix A). '.': not known; '-': nothing; 'x':
// nothing, and the code ends here; 'm': ModRM; '1': a byte; 'w': a word of the operand's size, of
// at most four bytes; 'q': the same, but eight bytes for a wide operand; 'b', 'v': ModRM, then as
// '1', 'w'; 't', 'T': the same for test, while the opcode's other instructions have ModRM alone.
constexpr char kOpcodes[] =
    "mmmm1w..mmmm1w..mmmm1w..mmmm1w.."   // 00: add, or, adc, sbb
    "mmmm1w..mmmm1w..mmmm1w..mmmm1w.."   // 20: and, sub, xor, cmp
    "................----------------"   // 40: push, pop
    "...m....wv1b...................."   // 60
    "bv.bmmmmmmmm.m..----------......"   // 80
    "....----1w------11111111qqqqqqqq"   // a0
    "bb.x..bv.-..x...mmmm............"   // c0
    "....................x.tT......mm";  // e0
/// Behind 0f.
constexpr char kSecondOpcodes[] =
    "...........x....mmmmmmmmmmmmmmmm"   // 00
    "........mmmmmmmm................"   // 20
    "mmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmm"   // 40
    "mmmmmmmmmmmmmmmmbbbbmmm.......mm"   // 60
    "................mmmmmmmmmmmmmmmm"   // 80
    "...mbm.....mbmmmmm.m..mm..bmmmmm"   // a0
    "mmb.bbbm--------mmmmmmmmmmmmmmmm"   // c0
    "mmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmm";  // e0

/// Decodes a branch by a distance. False: it is none.
bool decode_branch(const uint8_t* code, const uint8_t* opcode, const uint8_t* end,
                   Instruction& instruction) {
  const bool is_second = *opcode == 0x0f;
  if (is_second) ++opcode;
  if (opcode >= end) return false;
  size_t distance_bytes = 4;
  if (is_second && (*opcode & 0xf0) == 0x80) {
    instruction.flow = Flow::kCondition;
  } else if (!is_second && (*opcode & 0xf0) == 0x70) {
    instruction.flow = Flow::kCondition;
    distance_bytes = 1;
  } else if (!is_second && (*opcode == 0xe8 || *opcode == 0xe9)) {
    instruction.flow = *opcode == 0xe8 ? Flow::kCall : Flow::kJump;
  } else if (!is_second && *opcode == 0xeb) {
    instruction.flow = Flow::kJump;
    distance_bytes = 1;
  } else {
    return false;
  }
  const uint8_t* const next = opcode + 1 + distance_bytes;
  if (next > end) return false;
  instruction.condition = *opcode & 0xf;
  instruction.bytes = static_cast<size_t>(next - code);
  instruction.target =
      next + (distance_bytes == 1 ? static_cast<int8_t>(opcode[1]) : value_at<int32_t>(opcode + 1));
  return true;
}

/// False: compilers begin no function with this instruction. The words are those of the manual
/// (Intel 64, volume 2, chapter 2): prefixes, opcode, ModRM, SIB, displacement, immediate.
bool decode(const uint8_t* code, const uint8_t* end, Instruction& instruction) {
  constexpr size_t kMostBytes = 15;
  if (static_cast<size_t>(end - code) > kMostBytes) end = code + kMostBytes;
  const uint8_t* at = code;
  size_t word = 4;
  bool wide = false;
  while (at < end && (*at == 0x66 || *at == 0xf2 || *at == 0xf3 || *at == 0x64 || *at == 0x65 ||
                      *at == 0x2e || *at == 0x3e || *at == 0xf0)) {
    if (*at++ == 0x66) word = 2;
  }
  if (at < end && (*at & 0xf0) == 0x40) wide = (*at++ & 8) != 0;
  if (at >= end) return false;
  if (wide) word = 4;
  if (decode_branch(code, at, end, instruction)) return true;
  const bool is_second = *at == 0x0f;
  if (is_second && ++at >= end) return false;
  const uint8_t opcode = *at++;
  char form = (is_second ? kSecondOpcodes : kOpcodes)[opcode];
  if (form == '.') return false;
  if (form == 'x') instruction.flow = Flow::kElsewhere;
  if (strchr("mbvtT", form) != nullptr) {
    if (at >= end) return false;
    const uint8_t modrm = *at++;
    const uint8_t which = (modrm >> 3) & 7;
    if ((form == 't' || form == 'T') && which > 1) form = 'm';  // no test
    const uint8_t mode = modrm >> 6, base = modrm & 7;
    if (!is_second && opcode == 0xff && (which == 4 || which == 5))
      instruction.flow = Flow::kElsewhere;
    size_t displacement = mode == 1 ? 1 : mode == 2 ? 4 : 0;
    if (mode != 3 && base == 4) {
      if (at >= end) return false;
      if (mode == 0 && (*at & 7) == 5) displacement = 4;
      ++at;
    } else if (mode == 0 && base == 5) {
      instruction.relative_at = static_cast<size_t>(at - code);
      displacement = 4;
    }
    at += displacement;
  }
  if (form == 'q') at += wide ? 8 : word;
  if (strchr("wvT", form) != nullptr) at += word;
  if (strchr("1bt", form) != nullptr) ++at;
  instruction.bytes = static_cast<size_t>(at - code);
  return at <= end;
}

/// Whether a branch of the function may lead among the moved instructions. Bytes that cannot be
/// decoded may be branches.
bool leads_among(const uint8_t* code, const uint8_t* end, const uint8_t* moved_end) {
  for (const uint8_t* at = code; at < end;) {
    Instruction instruction;
    if (!decode(at, end, instruction)) {
      // From here on any byte may be a branch.
      for (; at < end; ++at) {
        Instruction branch;
        if (decode_branch(at, at, end, branch) && branch.target > code && branch.target < moved_end)
          return true;
      }
      return false;
    }
    if (instruction.target > code && instruction.target < moved_end) return true;
    at += instruction.bytes;
  }
  return false;
}

class Writer {
 public:
  explicit Writer(uint8_t* at) : begin_(at), at_(at) {}
  void bytes(const void* from, size_t count) {
    memcpy(at_, from, count);
    at_ += count;
  }
  void byte(uint8_t value) { *at_++ = value; }
  uint8_t* at() const { return at_; }
  size_t written() const { return static_cast<size_t>(at_ - begin_); }
  /// jmp *(the next eight bytes)
  void jump(const void* target) { at_ += arch::write_far_jump(at_, target); }
  /// Makes the call return to its old return address: moved code is in no unwind table.
  void call(const uint8_t* target, const uint8_t* back) {
    const auto address = reinterpret_cast<uintptr_t>(back);
    const auto low = static_cast<uint32_t>(address), high = static_cast<uint32_t>(address >> 32);
    byte(0x68);  // push
    bytes(&low, sizeof low);
    constexpr uint8_t kMoveToHigh[] = {0xc7, 0x44, 0x24, 0x04};  // mov $high, 4(%rsp)
    bytes(kMoveToHigh, sizeof kMoveToHigh);
    bytes(&high, sizeof high);
    jump(target);
  }

 private:
  uint8_t *begin_, *at_;
};

/// If the processor also keeps return addresses in a shadow stack, the one that a moved call pushes
/// would not be in it.
bool has_shadow_stack() {
  uint64_t features = 0;
  return !sys::failed(sys::arch_prctl(ARCH_SHSTK_STATUS, &features)) && (features & 1) != 0;
}

bool move(const uint8_t* from, const Instruction& instruction, Writer& to) {
  const uint8_t* const next = from + instruction.bytes;
  switch (instruction.flow) {
    case Flow::kElsewhere:
      return false;
    case Flow::kJump:
      to.jump(instruction.target);
      return true;
    case Flow::kCall:
      if (has_shadow_stack()) return false;
      to.call(instruction.target, next);
      return true;
    case Flow::kCondition: {
      constexpr uint8_t kFarJumpBytes = 14;
      to.byte(static_cast<uint8_t>(0x70 | (instruction.condition ^ 1)));  // if not, past the jump
      to.byte(kFarJumpBytes);
      to.jump(instruction.target);
      return true;
    }
    case Flow::kNext:
      break;
  }
  uint8_t* const moved = to.at();
  to.bytes(from, instruction.bytes);
  if (instruction.relative_at == 0) return true;
  const int64_t distance = value_at<int32_t>(from + instruction.relative_at) + (from - moved);
  const auto fitting = static_cast<int32_t>(distance);
  memcpy(moved + instruction.relative_at, &fitting, sizeof fitting);
  return fitting == distance;
}

}  // namespace

namespace arch {

const uintptr_t kCodeReach = uintptr_t{1} << 30;

size_t landing_bytes(const uint8_t* code, size_t bytes) {
  constexpr uint8_t kEndbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
  const bool marked = bytes >= sizeof kEndbr64 && memcmp(code, kEndbr64, sizeof kEndbr64) == 0;
  return marked ? sizeof kEndbr64 : 0;
}

bool move_code(const uint8_t* code, const uint8_t* end, uint8_t* to, MovedCode& moved) {
  Writer writer(to);
  const uint8_t* at = code;
  bool goes_on = true;
  while (at < code + kJumpBytes) {
    Instruction instruction;
    if (!goes_on || at >= end || !decode(at, end, instruction)) return false;
    // A moved call returns into the function, so not into bytes that the jump has replaced.
    if (instruction.flow == Flow::kCall && at + instruction.bytes < code + kJumpBytes) return false;
    if (!move(at, instruction, writer)) return false;
    goes_on = instruction.flow != Flow::kJump;
    at += instruction.bytes;
  }
  if (leads_among(code, end, at)) return false;
  if (goes_on) writer.jump(at);
  moved.moved_bytes = static_cast<size_t>(at - code);
  moved.written_bytes = writer.written();
  return true;
}

size_t write_far_jump(uint8_t* to, const void* target) {
  constexpr uint8_t kJump[] = {0xff, 0x25, 0, 0, 0, 0};
  memcpy(to, kJump, sizeof kJump);
  memcpy(to + sizeof kJump, &target, sizeof target);
  return sizeof kJump + sizeof target;
}

size_t write_near_jump(uint8_t* bytes, const uint8_t* at, const uint8_t* target) {
  const int64_t distance = target - (at + kJumpBytes);
  const auto fitting = static_cast<int32_t>(distance);
  if (fitting != distance) return 0;
  bytes[0] = 0xe9;
  memcpy(bytes + 1, &fitting, sizeof fitting);
  return kJumpBytes;
}

void code_was_written(uint8_t*, uint8_t*) {}

}  // namespace arch
}  // namespace gpupeak::preload
