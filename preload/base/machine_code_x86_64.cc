#include <cstring>

#include "base/function_entry.h"
#include "base/syscalls.h"

namespace gpupeak::preload {
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

/// What the bytes behind an opcode are.
struct Operands {
  bool known = false;
  bool has_modrm = false;
  size_t immediate_bytes = 0;
};

/// One-byte opcodes. `word`: bytes of an immediate that depends on the operand's size.
Operands operands_of(uint8_t opcode, uint8_t modrm, bool wide, size_t word) {
  if (opcode < 0x40) {  // add, or, adc, sbb, and, sub, xor, cmp
    const uint8_t form = opcode & 7;
    if (form < 4) return {true, true, 0};
    if (form == 4) return {true, false, 1};
    if (form == 5) return {true, false, word};
    return {};
  }
  if (opcode >= 0x50 && opcode <= 0x5f) return {true, false, 0};  // push, pop
  if (opcode >= 0x84 && opcode <= 0x8d && opcode != 0x8c) return {true, true, 0};
  if ((opcode >= 0x90 && opcode <= 0x99) || (opcode >= 0xa4 && opcode <= 0xa7) ||
      (opcode >= 0xaa && opcode <= 0xaf) || opcode == 0xc9) {
    return {true, false, 0};
  }
  if (opcode >= 0xb0 && opcode <= 0xb7) return {true, false, 1};
  if (opcode >= 0xb8 && opcode <= 0xbf) return {true, false, wide ? 8 : word};
  if (opcode >= 0xd0 && opcode <= 0xd3) return {true, true, 0};
  const bool is_test = (modrm & 0x38) <= 8;
  switch (opcode) {
    case 0x63:
      return {true, true, 0};
    case 0x68:
    case 0xa9:
      return {true, false, word};
    case 0x6a:
    case 0xa8:
      return {true, false, 1};
    case 0x69:
    case 0x81:
    case 0xc7:
      return {true, true, word};
    case 0x6b:
    case 0x80:
    case 0x83:
    case 0xc0:
    case 0xc1:
    case 0xc6:
      return {true, true, 1};
    case 0xf6:
      return {true, true, is_test ? size_t{1} : 0};
    case 0xf7:
      return {true, true, is_test ? word : 0};
    case 0xfe:
    case 0xff:
      return {true, true, 0};
    default:
      return {};
  }
}

/// Opcodes behind 0f.
Operands operands_of_second(uint8_t opcode) {
  if ((opcode >= 0x70 && opcode <= 0x73) || opcode == 0xa4 || opcode == 0xac || opcode == 0xba ||
      opcode == 0xc2 || (opcode >= 0xc4 && opcode <= 0xc6)) {
    return {true, true, 1};
  }
  if ((opcode >= 0x10 && opcode <= 0x1f) || (opcode >= 0x28 && opcode <= 0x2f) ||
      (opcode >= 0x40 && opcode <= 0x6f) || (opcode >= 0x74 && opcode <= 0x76) ||
      (opcode >= 0x90 && opcode <= 0x9f) || (opcode >= 0xa3 && opcode <= 0xa5) ||
      (opcode >= 0xab && opcode <= 0xb1) || opcode == 0x7e || opcode == 0x7f || opcode == 0xb3 ||
      opcode == 0xb6 || opcode == 0xb7 || (opcode >= 0xbb && opcode <= 0xc1) || opcode == 0xc7 ||
      opcode >= 0xd0) {
    return {true, true, 0};
  }
  return {opcode >= 0xc8 && opcode <= 0xcf, false, 0};  // bswap
}

int32_t read_distance(const uint8_t* at) {
  int32_t distance;
  memcpy(&distance, at, sizeof distance);
  return distance;
}

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
      next + (distance_bytes == 1 ? static_cast<int8_t>(opcode[1]) : read_distance(opcode + 1));
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
  const uint8_t opcode = *at++;
  if (opcode == 0xc3 || opcode == 0xcc || opcode == 0xf4) {
    instruction.flow = Flow::kElsewhere;
    instruction.bytes = static_cast<size_t>(at - code);
    return true;
  }
  if (at >= end) {  // a push, for instance, has nothing behind it
    instruction.bytes = static_cast<size_t>(at - code);
    const Operands operands = operands_of(opcode, 0, wide, word);
    return operands.known && !operands.has_modrm && operands.immediate_bytes == 0;
  }
  Operands operands;
  if (opcode == 0x0f) {
    const uint8_t second = *at++;
    if (second == 0x0b) {  // ud2
      instruction.flow = Flow::kElsewhere;
      instruction.bytes = static_cast<size_t>(at - code);
      return true;
    }
    operands = operands_of_second(second);
  } else {
    operands = operands_of(opcode, *at, wide, word);
  }
  if (!operands.known) return false;
  if (operands.has_modrm) {
    if (at >= end) return false;
    const uint8_t modrm = *at++;
    const uint8_t mode = modrm >> 6, base = modrm & 7;
    if (opcode == 0xff && ((modrm >> 3) & 7) >= 4 && ((modrm >> 3) & 7) <= 5)
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
  at += operands.immediate_bytes;
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
  void address(uint64_t value) { bytes(&value, sizeof value); }
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
  const int64_t distance = read_distance(from + instruction.relative_at) + (from - moved);
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
