#include "collector/summary/summary_bytes.h"

#include <map>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "collector/summary/summary_fields.h"
#include "collector/text/byte_pack.h"

namespace gpupeak::collector {
namespace {

class Writer {
 public:
  void operator()(std::string_view, const auto&... values) { (put(values), ...); }
  const std::string& bytes() const { return out_.bytes(); }

 private:
  template <typename T>
  void put(const T& value) {
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>)
      out_.number(value);
    else
      each_field(*this, value);
  }
  void put(const std::string& value) { out_.text(value); }
  template <typename A, typename B>
  void put(const std::pair<A, B>& value) {
    put(value.first);
    put(value.second);
  }
  template <typename T>
  void put(const std::optional<T>& value) {
    put(value.has_value());
    if (value) put(*value);
  }
  template <typename T>
  void put(const std::vector<T>& values) {
    out_.count(values.size());
    for (const T& value : values) put(value);
  }
  template <typename K, typename V>
  void put(const std::map<K, V>& values) {
    out_.count(values.size());
    for (const auto& value : values) put(value);
  }

  BytePacker out_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : in_(bytes) {}
  void operator()(std::string_view, auto&... values) { (get(values), ...); }
  bool at_end() const { return in_.at_end(); }

 private:
  template <typename T>
  void get(T& value) {
    if constexpr (std::is_same_v<T, bool>)
      value = in_.number<uint8_t>() != 0;
    else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>)
      value = in_.number<T>();
    else
      each_field(*this, value);
  }
  void get(std::string& value) { value = in_.text(); }
  template <typename A, typename B>
  void get(std::pair<A, B>& value) {
    get(value.first);
    get(value.second);
  }
  template <typename T>
  void get(std::optional<T>& value) {
    bool has = false;
    get(has);
    value.reset();
    if (has) get(value.emplace(T{}));
  }
  template <typename T>
  void get(std::vector<T>& values) {
    values.clear();
    for (size_t count = in_.count(1); count > 0 && !in_.failed(); --count)
      get(values.emplace_back());
  }
  template <typename K, typename V>
  void get(std::map<K, V>& values) {
    values.clear();
    for (size_t count = in_.count(1); count > 0 && !in_.failed(); --count) {
      std::pair<K, V> value;
      get(value);
      values.insert(std::move(value));
    }
  }

  ByteUnpacker in_;
};

}  // namespace

std::string pack_summary(const Summary& summary) {
  Writer out;
  each_field(out, summary);
  return out.bytes();
}

std::optional<Summary> unpack_summary(std::string_view bytes) {
  Reader in(bytes);
  Summary summary;
  each_field(in, summary);
  if (!in.at_end()) return std::nullopt;
  return summary;
}

}  // namespace gpupeak::collector
