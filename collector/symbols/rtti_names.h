// Makes the names of virtual functions, as titles show them: `Gemm<float>::PrePack` if a rule names
// the slot, else `Gemm<float>::[virtual 5]`. ModuleSymbols asks for them.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

#include "collector/symbols/name_rules.h"
#include "collector/symbols/rtti_table.h"

namespace gpupeak::collector {

class RttiNames {
 public:
  /// `library`: the file's name without its folder. `version`: of its Python package, if it is in
  /// one, else of its symbols. `table` and `rules` must outlive this.
  RttiNames(const RttiTable& table, std::string_view library, std::string_view version,
            const NameRules* rules);

  /// The name of a function. Empty if even its class is not known: the linker folded functions of
  /// classes that share no base.
  std::string name_of(const RttiTable::Function& function) const;

 private:
  const std::string& class_name(uint32_t index) const;
  const std::string* slot_name(uint32_t layout, uint32_t slot, int* steps) const;

  const RttiTable& table_;
  std::unordered_map<std::string, const ClassRule*> rules_;  // rules that apply, by class
  mutable std::unordered_map<uint32_t, std::string> class_names_;
};

}  // namespace gpupeak::collector
