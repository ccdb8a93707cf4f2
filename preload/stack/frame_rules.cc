// A reader of our own, not libdw: it runs inside malloc, so it must neither allocate nor take a
// lock, and the library needs libc alone. It knows what compilers write for nearly all code.
// Everything else goes to libunwind.
//
// Source of the formats: the DWARF 4 standard, section 6.4, and the Linux Standard Base's
// description of .eh_frame and .eh_frame_hdr.

#include "stack/frame_rules.h"

#include <dwarf.h>  // the numbers of DWARF alone

#include <algorithm>
#include <atomic>
#include <optional>

#include "stack/module_map.h"

namespace gpupeak::preload {
namespace {

/// An instruction's two highest bits are its operation and the others its operand; if the two are
/// 0, the whole byte is the operation.
constexpr uint8_t kCfaPrimary = 0xc0, kCfaOperand = 0x3f;
constexpr uint8_t kNegateRaState = 0x2d;  ///< AArch64's; older elfutils lack it

constexpr uint8_t kPcRelativeInt32 = DW_EH_PE_pcrel | DW_EH_PE_sdata4,
                  kTableInt32 = DW_EH_PE_datarel | DW_EH_PE_sdata4, kUint32 = DW_EH_PE_udata4,
                  kAbsolute = DW_EH_PE_absptr, kPcRelativeInt64 = DW_EH_PE_pcrel | DW_EH_PE_sdata8;

/// Reads a table's bytes in order; `ok` turns false at the first read out of bounds.
struct Cursor {
  const uint8_t* at;
  const uint8_t* end;
  bool ok = true;

  template <typename T>
  T fixed() {
    const uint8_t* const from = at;
    return skip(sizeof(T)) ? value_at<T>(from) : T{};
  }
  uint64_t uleb() {
    uint64_t value = 0;
    for (int shift = 0; at < end && shift < 64; shift += 7) {
      const uint8_t byte = *at++;
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if ((byte & 0x80) == 0) return value;
    }
    ok = false;
    return 0;
  }
  int64_t sleb() {
    const uint8_t* const begin = at;
    uint64_t value = uleb();
    const auto shift = 7 * (at - begin);
    if (ok && shift < 64 && (at[-1] & 0x40) != 0) value |= ~UINT64_C(0) << shift;
    return static_cast<int64_t>(value);
  }
  bool skip(uint64_t bytes) {
    const bool fits = bytes <= static_cast<size_t>(end - at);
    ok = ok && fits;
    at = fits ? at + bytes : end;
    return fits;
  }
  /// A code address in one of the encodings in use; others end the reading.
  uintptr_t address(uint8_t encoding) {
    const auto here = reinterpret_cast<uintptr_t>(at);
    switch (encoding) {
      case kPcRelativeInt32:
        return here + static_cast<uintptr_t>(static_cast<intptr_t>(fixed<int32_t>()));
      case kPcRelativeInt64:
        return here + fixed<uint64_t>();
      case kAbsolute:
        return fixed<uint64_t>();
      default:
        ok = false;
        return 0;
    }
  }
};

/// One row of the unwind table, as far as we need it.
struct Row {
  enum Where : uint8_t { kSame, kAtOffset, kUndefined, kOther, kAtFp };
  enum Cfa : uint8_t { kRegister, kWordAtFp, kExpression };
  struct Place {
    Where where;
    int64_t offset;
  };
  int64_t cfa_offset;
  uint32_t cfa_register;
  Cfa cfa;
  Place fp, return_address;

  void set(uint64_t reg, Place place) {
    if (reg == kFpColumn) fp = place;
    if (reg == kReturnColumn) return_address = place;
  }
  void set(uint64_t reg, Where where, int64_t offset = 0) { set(reg, Place{where, offset}); }
  void restore(uint64_t reg, const Row& initial) {
    set(reg, reg == kFpColumn ? initial.fp : initial.return_address);
  }
};

/// The row before any instruction.
constexpr Row kFirstRow{
    .cfa_offset = 0,
    .cfa_register = kSpColumn,
    .cfa = Row::kRegister,
    .fp = {Row::kSame, 0},
    .return_address = {kCallStoresReturn ? Row::kAtOffset : Row::kSame, ReturnPlace{}.offset}};

struct CommonEntry {
  uint64_t code_alignment = 1;
  int64_t data_alignment = 1;
  uint8_t address_encoding = kAbsolute;
  bool has_augmentation = false;
  Cursor instructions{nullptr, nullptr};
};

/// An entry's contents behind its length; not ok for the 64-bit form, which nobody writes.
Cursor entry_at(const uint8_t* at) {
  const auto bytes = value_at<uint32_t>(at);
  return {at + 4, at + 4 + bytes, bytes != 0 && bytes < 0xfffffff0u};
}

bool read_common_entry(const uint8_t* at, CommonEntry& entry) {
  Cursor cursor = entry_at(at);
  if (!cursor.ok || cursor.fixed<uint32_t>() != 0) return false;
  const auto version = cursor.fixed<uint8_t>();
  const char* augmentation = reinterpret_cast<const char*>(cursor.at);
  while (cursor.ok && cursor.fixed<uint8_t>() != 0) {
  }
  entry.code_alignment = cursor.uleb();
  entry.data_alignment = cursor.sleb();
  const uint64_t return_register = version == 1 ? cursor.fixed<uint8_t>() : cursor.uleb();
  if (!cursor.ok || return_register != kReturnColumn) return false;
  if (*augmentation == 'z') {
    entry.has_augmentation = true;
    const uint64_t bytes = cursor.uleb();
    Cursor data = cursor;
    cursor.skip(bytes);
    for (const char* c = augmentation + 1; *c != 0; ++c) {
      switch (*c) {
        case 'R':
          entry.address_encoding = data.fixed<uint8_t>();
          break;
        case 'L':
          data.fixed<uint8_t>();
          break;
        case 'P': {
          const auto form = data.fixed<uint8_t>() & 0x0f;
          const bool is_long =
              form == DW_EH_PE_absptr || form == DW_EH_PE_udata8 || form == DW_EH_PE_sdata8;
          data.skip(is_long ? 8 : 4);
          break;
        }
        case 'B':  // aarch64: returns are signed by the other key
          break;
        default:
          return false;  // 'S': a signal frame keeps its registers elsewhere
      }
    }
    if (!data.ok) return false;
  } else if (*augmentation != 0) {
    return false;
  }
  entry.instructions = cursor;
  return cursor.ok;
}

/// DWARF's operations: the frame pointer plus an offset, and the word at an address.
constexpr uint8_t kFpPlus = 0x70 + kFpColumn, kDereference = 0x06;

/// The next expression.
Cursor expression_at(Cursor& cursor) {
  const uint64_t bytes = cursor.uleb();
  const uint8_t* const begin = cursor.at;
  cursor.skip(bytes);
  return {begin, cursor.at, cursor.ok};
}

void read_cfa_expression(Cursor& cursor, Row& row) {
  Cursor expression = expression_at(cursor);
  row.cfa = Row::kExpression;
  if (expression.fixed<uint8_t>() != kFpPlus) return;
  row.cfa_offset = expression.sleb();
  const bool is_word = expression.fixed<uint8_t>() == kDereference && expression.ok;
  if (is_word && expression.at == expression.end) row.cfa = Row::kWordAtFp;
}

/// Whether the expression is the place that the frame pointer points to.
bool reads_fp_place(Cursor& cursor) {
  Cursor expression = expression_at(cursor);
  return expression.fixed<uint8_t>() == kFpPlus && expression.sleb() == 0 && expression.ok &&
         expression.at == expression.end;
}

/// Runs unwind instructions up to the row of `pc`. False if a FrameRule cannot express it.
bool run(Cursor cursor, const CommonEntry& common, uintptr_t location, uintptr_t pc,
         const Row& initial, Row& row) {
  Row saved[8];
  int depth = 0;
  while (cursor.ok && cursor.at < cursor.end) {
    const auto byte = cursor.fixed<uint8_t>();
    const uint8_t primary = byte & kCfaPrimary, low = byte & kCfaOperand;
    const auto number = [&] { return static_cast<int64_t>(cursor.uleb()); };
    const auto scaled = [&] { return cursor.sleb() * common.data_alignment; };
    // The first operand. A primary operation has it in its own byte.
    const auto first = [&] { return primary != 0 ? low : cursor.uleb(); };
    uint64_t advance = 0, reg = 0;
    switch (primary != 0 ? primary : byte) {
      case DW_CFA_nop:
      case kNegateRaState:  // code_address() removes a signature from any address
        continue;
      case DW_CFA_advance_loc:
        advance = first();
        break;
      case DW_CFA_advance_loc1:
        advance = cursor.fixed<uint8_t>();
        break;
      case DW_CFA_advance_loc2:
        advance = cursor.fixed<uint16_t>();
        break;
      case DW_CFA_advance_loc4:
        advance = cursor.fixed<uint32_t>();
        break;
      case DW_CFA_offset:
      case DW_CFA_offset_extended:
        reg = first();
        row.set(reg, Row::kAtOffset, number() * common.data_alignment);
        continue;
      case DW_CFA_offset_extended_sf:
        reg = first();
        row.set(reg, Row::kAtOffset, scaled());
        continue;
      case DW_CFA_restore:
      case DW_CFA_restore_extended:
        row.restore(first(), initial);
        continue;
      case DW_CFA_undefined:
        row.set(first(), Row::kUndefined);
        continue;
      case DW_CFA_same_value:
        row.set(first(), Row::kSame);
        continue;
      case DW_CFA_register:
      case DW_CFA_val_offset:
      case DW_CFA_val_offset_sf:
        row.set(first(), Row::kOther);
        cursor.uleb();
        continue;
      case DW_CFA_expression:
        reg = first();
        row.set(reg, reads_fp_place(cursor) ? Row::kAtFp : Row::kOther);
        continue;
      case DW_CFA_val_expression:
        row.set(first(), Row::kOther);
        expression_at(cursor);
        continue;
      case DW_CFA_remember_state:
        if (depth == 8) return false;
        saved[depth++] = row;
        continue;
      case DW_CFA_restore_state:
        if (depth == 0) return false;
        row = saved[--depth];
        continue;
      case DW_CFA_def_cfa:
      case DW_CFA_def_cfa_sf:
        row.cfa_register = static_cast<uint32_t>(first());
        row.cfa_offset = byte == DW_CFA_def_cfa ? number() : scaled();
        row.cfa = Row::kRegister;
        continue;
      case DW_CFA_def_cfa_register:
        row.cfa_register = static_cast<uint32_t>(first());
        continue;
      case DW_CFA_def_cfa_offset:
        row.cfa_offset = number();
        continue;
      case DW_CFA_def_cfa_offset_sf:
        row.cfa_offset = scaled();
        continue;
      case DW_CFA_def_cfa_expression:
        read_cfa_expression(cursor, row);
        continue;
      case DW_CFA_GNU_args_size:
        cursor.uleb();
        continue;
      default:
        return false;
    }
    location += advance * common.code_alignment;
    if (location > pc) return cursor.ok;
  }
  return cursor.ok;
}

/// Whether the table is of the form that linkers write: sorted, of 32 bits a field.
bool is_usual(const uint8_t* header) {
  return header[0] == 1 && header[1] == kPcRelativeInt32 && header[2] == kUint32 &&
         header[3] == kTableInt32;
}

/// The frame description entry that covers `pc`, or the last one before `pc`, by the sorted table
/// of .eh_frame_hdr; nullptr: all entries lie behind it.
const uint8_t* find_entry(const uint8_t* header, uintptr_t pc) {
  const auto count = value_at<uint32_t>(header + 8);
  struct Row32 {
    int32_t begin, entry;  // both relative to the header
  };
  const auto* const table = reinterpret_cast<const Row32*>(header + 12);
  const auto wanted = static_cast<int64_t>(pc - reinterpret_cast<uintptr_t>(header));
  const Row32* const behind = std::upper_bound(
      table, table + count, wanted, [](int64_t at, const Row32& row) { return at < row.begin; });
  return behind == table ? nullptr : header + behind[-1].entry;
}

enum class Found { kRow, kNothing, kUnreadable };

Found find_row(const uint8_t* header, uintptr_t pc, Row& row) {
  if (!is_usual(header)) return Found::kUnreadable;
  const uint8_t* at = find_entry(header, pc);
  if (at == nullptr) return Found::kNothing;
  Cursor cursor = entry_at(at);
  if (!cursor.ok) return Found::kUnreadable;
  const uint8_t* back = cursor.at;
  CommonEntry common;
  if (!read_common_entry(back - cursor.fixed<uint32_t>(), common)) return Found::kUnreadable;
  const uintptr_t begin = cursor.address(common.address_encoding);
  const uint64_t bytes = common.address_encoding == kPcRelativeInt32 ? cursor.fixed<uint32_t>()
                                                                     : cursor.fixed<uint64_t>();
  if (common.has_augmentation) cursor.skip(cursor.uleb());
  if (!cursor.ok) return Found::kUnreadable;
  if (pc - begin >= bytes) return Found::kNothing;
  if (!run(common.instructions, common, 0, UINTPTR_MAX, row, row)) return Found::kUnreadable;
  const Row initial = row;
  return run(cursor, common, begin, pc, initial, row) ? Found::kRow : Found::kUnreadable;
}

bool fits(int64_t offset) {
  return offset > -(1 << 24) && offset < (1 << 24);
}

/// Where a return address can lie.
bool can_be(int64_t return_offset) {
  if constexpr (kCallStoresReturn) return return_offset == ReturnPlace{}.offset;
  return return_offset < 0 && return_offset % 8 == 0 && fits(return_offset);
}

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

FrameRule read_frame_rule(uintptr_t ip) {
  FrameRule rule{};
  rule.ip = ip;
  const UnwindTable table = unwind_table_of(ip);
  Row row = kFirstRow;
  Found found = table.of_module ? Found::kUnreadable : Found::kNothing;
  if (table.header != nullptr) found = find_row(table.header, ip - 1, row);
  if (found == Found::kNothing && kFramePointerEndsFrame) {
    rule.base = FrameRule::kGuessed;
    rule.cfa_offset = 16;
    rule.fp_offset = -16;
  }
  if (found != Found::kRow) return rule;
  const auto& [returned, return_offset] = row.return_address;
  const auto& [fp, fp_offset] = row.fp;
  if (returned == Row::kUndefined) {
    rule.base = FrameRule::kOutermost;
    return rule;
  }
  if (returned != Row::kAtOffset || !can_be(return_offset) || !fits(row.cfa_offset)) return rule;
  rule.cfa_offset = static_cast<int32_t>(row.cfa_offset);
  rule.returns = ReturnPlace::at(static_cast<int32_t>(return_offset));
  if (row.cfa == Row::kWordAtFp && fp == Row::kAtFp) {
    const bool below = row.cfa_offset < 0 && row.cfa_offset % 8 == 0;
    rule.base = below ? FrameRule::kRealigned : FrameRule::kUnsupported;
    return rule;
  }
  const bool plain = row.cfa == Row::kRegister &&
                     (row.cfa_register == kSpColumn || row.cfa_register == kFpColumn) &&
                     (fp == Row::kSame || (fp == Row::kAtOffset && fp_offset != 0)) &&
                     fits(fp_offset);
  if (!plain) return rule;
  rule.base = row.cfa_register == kSpColumn ? FrameRule::kFromSp : FrameRule::kFromFp;
  rule.fp_offset = fp == Row::kSame ? FrameRule::kFpUnchanged : static_cast<int32_t>(fp_offset);
  return rule;
}

FrameRule frame_rule(uintptr_t ip) {
  std::atomic<uint64_t>& known = entry_for(ip);
  const uint64_t entry = known.load(std::memory_order_relaxed);
  if (entry != 0 && (entry & ~kRuleMask) == tag_of(ip) && ip >> kCodeAddressBits == 0)
    return unpacked(ip, entry);
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
