#include <elf.h>

#include <bit>
#include <cstring>

#include "collector/symbols/machine_code.h"

namespace gpupeak::collector {
namespace {

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

const Machine kX86_64{R_X86_64_RELATIVE,  R_X86_64_64,     R_X86_64_GLOB_DAT,
                      referred_by_x86_64, taken_by_x86_64, true};

}  // namespace gpupeak::collector
