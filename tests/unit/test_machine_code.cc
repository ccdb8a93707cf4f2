// What machine code refers to: the part of reading a stripped library that differs between
// processors.
#include "catch.h"
#include "collector/symbols/loaded_image.h"

using namespace gpupeak::collector;

namespace {

using Addresses = std::vector<uint64_t>;
constexpr uint64_t kData = 0x20000, kDataEnd = 0x30000;  // the code begins at 0

template <typename T>
Code code_of(const std::vector<T>& units) {
  return {reinterpret_cast<const uint8_t*>(units.data()), 0, units.size() * sizeof(T)};
}
Addresses referred(const std::vector<uint32_t>& words, const Addresses& starts = {}) {
  return kAarch64.referred(code_of(words), kData, kDataEnd, starts);
}
Addresses taken(const std::vector<uint32_t>& words) {
  return kAarch64.taken(code_of(words));
}

// Words as an assembler made them; the distances of adrp and adr are from address 0 to kData.
constexpr uint32_t kPageInX0 = 0x90000100;  // adrp x0, kData
constexpr uint32_t kPageInX1 = 0x90000101;
constexpr uint32_t kSumInX0 = 0x91048000;  // add x0, x0, #0x120
constexpr uint32_t kReturn = 0xd65f03c0;
constexpr uint32_t kNothing = 0xd503201f;

}  // namespace

TEST_CASE("machine_code: aarch64 makes an address of a page and a distance", "[collector]") {
  CHECK(referred({kPageInX0, kSumInX0}) == Addresses{0x20120});
  CHECK(referred({kPageInX1, 0xf9410422}) == Addresses{0x20208});        // ldr x2, [x1, #520]
  CHECK(referred({kPageInX0, 0x3d801000}) == Addresses{0x20040});        // str q0, [x0, #64]
  CHECK(referred({kPageInX0, kSumInX0, 0xad410400}).back() == 0x20140);  // ldp q0, q1, [x0, #32]
  CHECK(referred({0x10100003}) == Addresses{0x20000});                   // adr x3
  CHECK(referred({kPageInX0, kSumInX0, 0x39400c09}).back() == 0x20123);  // ldrb w9, [x0, #3]
  CHECK(referred({kPageInX0}).empty());
  CHECK(referred({kSumInX0}).empty());
  CHECK(referred({0x90000000, kSumInX0}).empty());  // of another page
}

TEST_CASE("machine_code: aarch64 goes on from an address to others", "[collector]") {
  const std::vector<uint32_t> words{
      kPageInX0,  kSumInX0,   0x91014000,  // add x0, x0, #0x50
      0xd1002005, 0xaa0503e6, 0xf85f00c7,  // sub x5, x0, #8; mov x6, x5; ldur x7, [x6, #-16]
      0xf8217809};                         // str x9, [x0, x1, lsl #3]
  CHECK(referred(words) == Addresses{0x20120, 0x20170, 0x20168, 0x20168, 0x20158, 0x20170});
  CHECK(taken({kPageInX0, kSumInX0, 0x91014000}) == Addresses{0x20170});
  CHECK(taken({kPageInX0, kSumInX0, 0x52800022, 0x91014000}) == Addresses{0x20170});  // mov w2, #1
  // Used in between: str x0, [x2].
  CHECK(taken({kPageInX0, kSumInX0, 0xf9000040, 0x91014000}) == Addresses{0x20120, 0x20170});
  CHECK(taken({kPageInX0, kSumInX0, 0xd1002005}) == Addresses{0x20120, 0x20118});
}

TEST_CASE("machine_code: aarch64 does not believe a register that was overwritten", "[collector]") {
  constexpr uint32_t kLoad = 0xf9402001;  // ldr x1, [x0, #64]
  CHECK(referred({kPageInX0, kLoad}) == Addresses{0x20040});
  for (const uint32_t overwrites : {0xf9400000U,     // ldr x0, [x0]
                                    0xd2800000U,     // mov x0, #0
                                    0x8b020020U}) {  // add x0, x1, x2
    const Addresses found = referred({kPageInX0, overwrites, kLoad});
    CHECK(std::find(found.begin(), found.end(), 0x20040) == found.end());
  }
  for (const uint32_t does_not : {0xfa430820U,     // ccmp x1, #3, #0, eq
                                  0xf9802000U,     // prfm pldl1keep, [x0, #64]
                                  0x3d801000U,     // str q0, [x0, #64]
                                  0x3dc01000U,     // ldr q0, [x0, #64]
                                  0x94000100U}) {  // bl
    CHECK(referred({kPageInX0, does_not, kLoad}).back() == 0x20040);
  }
}

TEST_CASE("machine_code: aarch64 knows registers where a jump leads to", "[collector]") {
  constexpr uint32_t kJump = 0xb4000061;      // cbz x1, three words on
  constexpr uint32_t kJumpAway = 0x14000003;  // b, likewise
  constexpr uint32_t kClear = 0xd2800000;     // mov x0, #0
  const Addresses found{0x20120};
  CHECK(referred({kPageInX0, kJump, kClear, kReturn, kSumInX0}) == found);
  CHECK(referred({kPageInX0, kJumpAway, kClear, kReturn, kSumInX0}) == found);
  CHECK(referred({kPageInX0, kJump, kClear, kNothing, kSumInX0}) == found);
  CHECK(referred({kPageInX0, kNothing, kClear, kReturn, kSumInX0}).empty());
  CHECK(referred({kClear, kJump, kPageInX0, kReturn, kSumInX0}).empty());
  CHECK(referred({kPageInX0, kJump, kClear, kReturn, kNothing, kSumInX0}) == found);
  // Another function begins there: nothing is known.
  CHECK(referred({kPageInX0, kSumInX0}, {0, 4}).empty());
  CHECK(referred({kPageInX0, kSumInX0}, {0}) == Addresses{0x20120});
}

TEST_CASE("machine_code: x86-64 refers to data relative to the next instruction", "[collector]") {
  const std::vector<uint8_t> lea{0x48, 0x8d, 0x05, 0xf9, 0xff, 0x01, 0x00,
                                 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90};
  CHECK(kX86_64.taken(code_of(lea)) == Addresses{0x20000});
  CHECK(kX86_64.referred(code_of(lea), kData, kDataEnd, {}) == Addresses{0x20000, 0x20001});
  CHECK(kX86_64.referred(code_of(lea), kDataEnd, kDataEnd + 8, {}).empty());
}

TEST_CASE("machine_code: code that ends early is read to its end", "[collector]") {
  for (size_t bytes = 0; bytes < 12; ++bytes) {
    const std::vector<uint8_t> some(bytes, 0x05);
    for (const Machine* machine : {&kX86_64, &kAarch64}) {
      CHECK(machine->taken(code_of(some)).empty());
      CHECK(machine->referred(code_of(some), kData, kDataEnd, {}).empty());
    }
  }
}
