// The facts of a log that code asks for by name, and which of them --confidential hides. A fact
// that is not in this list cannot be asked for: it does not compile.
#pragma once

#include <algorithm>
#include <iterator>
#include <string_view>

namespace gpupeak::collector {

enum class FactTells {
  kOfTheUser,      ///< says something of the user, the program or the machine: hidden
  kOfPublicThings  ///< gives nothing away, such as the version of Python
};

struct KnownFact {
  std::string_view key;
  FactTells tells;
};

inline constexpr KnownFact kKnownFacts[] = {
    {"exe", FactTells::kOfTheUser},           {"host", FactTells::kOfTheUser},
    {"boot", FactTells::kOfTheUser},          {"python", FactTells::kOfPublicThings},
    {"python.off", FactTells::kOfTheUser},    {"pools.off", FactTells::kOfTheUser},
    {"ort.profile", FactTells::kOfTheUser},   {"ort.profile.off", FactTells::kOfTheUser},
    {"limit", FactTells::kOfTheUser},         {"attach.resident", FactTells::kOfPublicThings},
    {"last_use", FactTells::kOfPublicThings}, {"cwd", FactTells::kOfTheUser},
    {"roles", FactTells::kOfPublicThings},    {"launches", FactTells::kOfPublicThings},
};

/// A name of the list, checked when it is compiled.
class FactName {
 public:
  consteval FactName(const char* key)
      : known_(std::find_if(std::begin(kKnownFacts), std::end(kKnownFacts),
                            [key](const KnownFact& fact) { return fact.key == key; })) {
    if (known_ == std::end(kKnownFacts)) throw "add the fact to kKnownFacts";
  }
  constexpr std::string_view key() const { return known_->key; }
  constexpr FactTells tells() const { return known_->tells; }

 private:
  const KnownFact* known_;
};

}  // namespace gpupeak::collector
