// Reads line tables with what Python itself says of each instruction (line_tables.py) from standard
// input, and compares.
#include <cstdint>
#include <cstdio>
#include <vector>

#include "stack/python_lines.h"

using gpupeak::preload::kPythonLineMore;
using gpupeak::preload::python_line;
using gpupeak::preload::PythonLineTable;

namespace {

template <typename T>
bool read(T& value) {
  return fread(&value, sizeof value, 1, stdin) == 1;
}

}  // namespace

int main() {
  uint8_t kind;
  uint64_t tables = 0, instructions = 0, wrong = 0;
  while (read(kind)) {
    int32_t first_line;
    uint32_t bytes, count;
    if (!read(first_line) || !read(bytes)) return 2;
    std::vector<uint8_t> table(bytes);
    if (fread(table.data(), 1, bytes, stdin) != bytes || !read(count)) return 2;
    ++tables;
    for (uint32_t i = 0; i < count; ++i) {
      uint32_t offset;
      int32_t line;
      if (!read(offset) || !read(line)) return 2;
      ++instructions;
      size_t needed = 0;
      const auto of = [&](size_t used) {
        // A copy of its own, so that a checker of memory sees each byte read beyond.
        const std::vector<uint8_t> part(table.begin(),
                                        table.begin() + static_cast<ptrdiff_t>(used));
        return python_line(static_cast<PythonLineTable>(kind), part.data(), used, used == bytes,
                           first_line, offset, needed);
      };
      bool right = of(bytes) == line;
      // What it says that it needed is enough.
      if (needed < bytes) right = right && of(needed) == line;
      for (size_t used = 0; used < bytes && i % 16 == 0; used += 1 + bytes / 8) {
        const int part = of(used);
        right = right && (part == line || part == kPythonLineMore);
      }
      if (!right && ++wrong < 10) {
        fprintf(stderr, "table %llu, instruction at %u: Python says %d, we %d\n",
                static_cast<unsigned long long>(tables), offset, line, of(bytes));
      }
    }
  }
  printf("%llu instructions in %llu tables, %llu wrong\n",
         static_cast<unsigned long long>(instructions), static_cast<unsigned long long>(tables),
         static_cast<unsigned long long>(wrong));
  return wrong == 0 && instructions > 100000 ? 0 : 1;
}
