// The classes of a library, read from their type_info: their names, their bases, and with which
// base's vtable each one's own begins. rtti_reader finds vtables with it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "collector/symbols/loaded_image.h"

namespace gpupeak::collector {

class ClassGraph {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  struct Base {
    uint32_t index;
    int64_t offset;  ///< of the base in an object; without meaning for a virtual base
    bool is_virtual;
  };
  struct Class {
    std::string name;  ///< mangled
    std::vector<Base> bases;
    bool polymorphic = false;  ///< known to have a vtable
    uint32_t primary = kNone;
  };

  explicit ClassGraph(const LoadedImage& image);

  const std::vector<Class>& classes() const { return classes_; }
  /// The class whose type_info a word points to; kNone: it points to none.
  uint32_t class_of(const RelocatedWord& word) const;
  /// Whether the address is part of a type_info.
  bool is_type_info(uint64_t address) const;
  /// Call this for each class that has a vtable, then settle().
  void set_polymorphic(uint32_t index) { classes_[index].polymorphic = true; }
  /// Finds the primary bases.
  void settle();
  /// The base whose part of an object begins at `offset`; kNone if that is not certain.
  uint32_t base_at(uint32_t index, int64_t offset) const;
  /// The class, then all its bases, each once.
  std::vector<uint32_t> ancestry(uint32_t index) const;

 private:
  enum class Form { kClass, kSingle, kSeveral };
  struct TypeInfo {
    uint64_t begin, end;
    uint32_t index;
  };

  void find_own_forms();
  std::optional<Form> form_of(const RelocatedWord& word) const;
  void read(const RelocatedWord& word, Form form);
  uint32_t add(std::string_view name, uint64_t address);
  uint32_t class_from(uint64_t word_address);
  void read_bases(uint32_t index, uint64_t address, Form form, uint64_t* end);
  void collect_at(uint32_t index, int64_t offset, int depth, std::vector<uint32_t>* found) const;

  const LoadedImage& image_;
  std::vector<Class> classes_;
  std::unordered_map<uint64_t, Form> own_forms_;  // by the first word of a type_info
  std::unordered_map<uint64_t, uint32_t> by_address_;
  std::unordered_map<std::string_view, uint32_t> by_name_;
  std::vector<TypeInfo> infos_;  // sorted by begin
};

}  // namespace gpupeak::collector
