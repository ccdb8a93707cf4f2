// Writes Python's pickle format, protocol 2, for plain data, with only those instructions that
// PyTorch's memory_viz page knows. Made for torch_snapshot.cc.
#pragma once

#include <cstdint>
#include <ostream>
#include <string_view>

namespace gpupeak::collector {

class Pickle {
 public:
  explicit Pickle(std::ostream& out) : out_(out) { out_ << '\x80' << '\x02'; }

  // A container's items come between its begin and its end; in a dict, keys and values alternate.
  void begin_dict() { out_ << "}("; }
  void end_dict() { out_ << 'u'; }
  void begin_list() { out_ << "]("; }
  void end_list() { out_ << 'e'; }
  void pair_end() { out_ << '\x86'; }  ///< makes a tuple of the two values before it

  void text(std::string_view value) {
    out_ << 'X';
    little_endian(value.size(), 4);
    out_ << value;
  }
  void integer(int64_t value) {
    if (value == static_cast<int32_t>(value)) {
      out_ << 'J';
      little_endian(static_cast<uint64_t>(value), 4);
    } else {
      out_ << "\x8a\x08";
      little_endian(static_cast<uint64_t>(value), 8);
    }
  }
  void boolean(bool value) { out_ << (value ? '\x88' : '\x89'); }
  void key(std::string_view name) { text(name); }
  void item(std::string_view name, std::string_view value) {
    key(name);
    text(value);
  }
  void item(std::string_view name, int64_t value) {
    key(name);
    integer(value);
  }

  /// remember() keeps the value before it under this number, recall() writes it again.
  void remember(uint32_t number) {
    out_ << 'r';
    little_endian(number, 4);
  }
  void recall(uint32_t number) {
    out_ << 'j';
    little_endian(number, 4);
  }
  void end() { out_ << '.'; }

 private:
  void little_endian(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) out_ << static_cast<char>(value >> (8 * i) & 0xff);
  }

  std::ostream& out_;
};

}  // namespace gpupeak::collector
