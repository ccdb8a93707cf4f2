#include "stack/python_lines.h"

namespace gpupeak::preload {
namespace {

int answer(int64_t line) {
  return line > 0 && line <= INT32_MAX ? static_cast<int>(line) : 0;
}

/// Pairs: bytes to go on, lines to go on. An instruction has the line of the last pair at or before
/// it.
int from_lnotab(const uint8_t* table, size_t bytes, bool is_whole, int64_t line, uint32_t offset,
                size_t& used) {
  uint64_t at = 0;
  for (size_t i = 0; i + 2 <= bytes; i += 2) {
    at += table[i];
    used = i + 2;
    if (at > offset) return answer(line);
    line += static_cast<int8_t>(table[i + 1]);
  }
  return is_whole ? answer(line) : kPythonLineMore;
}

/// Pairs: bytes that have the line, lines to go on from the pair before; -128: they have no line.
int from_line_table(const uint8_t* table, size_t bytes, bool is_whole, int64_t line,
                    uint32_t offset, size_t& used) {
  uint64_t end = 0;
  for (size_t i = 0; i + 2 <= bytes; i += 2) {
    end += table[i];
    used = i + 2;
    const auto delta = static_cast<int8_t>(table[i + 1]);
    if (delta != -128) line += delta;
    if (offset < end) return delta == -128 ? 0 : answer(line);
  }
  return is_whole ? 0 : kPythonLineMore;
}

/// Entries begin with a byte that has the top bit set: it has the kind, and the length in units of
/// two bytes. Their further bytes do not have the top bit set.
int from_locations(const uint8_t* table, size_t bytes, bool is_whole, int64_t line, uint32_t offset,
                   size_t& used) {
  constexpr int kOneLine0 = 10, kOneLine2 = 12, kNoColumns = 13, kLong = 14, kNone = 15;
  uint64_t end = 0;
  for (size_t i = 0; i < bytes;) {
    const int kind = (table[i] >> 3) & 15;
    end += (static_cast<uint64_t>(table[i] & 7) + 1) * 2;
    size_t next = i + 1;
    while (next < bytes && (table[next] & 0x80) == 0) ++next;
    if (next == bytes && !is_whole) return kPythonLineMore;
    used = next < bytes ? next + 1 : bytes;
    if (kind == kNoColumns || kind == kLong) {
      uint64_t value = 0;
      for (size_t k = i + 1, shift = 0; k < next && shift < 32; ++k, shift += 6) {
        value |= static_cast<uint64_t>(table[k] & 63) << shift;
        if ((table[k] & 64) == 0) break;
      }
      const auto magnitude = static_cast<int64_t>(value >> 1);
      line += (value & 1) != 0 ? -magnitude : magnitude;
    } else if (kind >= kOneLine0 && kind <= kOneLine2) {
      line += kind - kOneLine0;
    }
    if (offset < end) return kind == kNone ? 0 : answer(line);
    i = next;
  }
  return is_whole ? 0 : kPythonLineMore;
}

}  // namespace

int python_line(PythonLineTable kind, const uint8_t* table, size_t bytes, bool is_whole,
                int first_line, uint32_t offset, size_t& used) {
  used = 0;
  switch (kind) {
    case PythonLineTable::kLnotab:
      return from_lnotab(table, bytes, is_whole, first_line, offset, used);
    case PythonLineTable::kLineTable:
      return from_line_table(table, bytes, is_whole, first_line, offset, used);
    case PythonLineTable::kLocations:
      return from_locations(table, bytes, is_whole, first_line, offset, used);
  }
  return 0;
}

}  // namespace gpupeak::preload
