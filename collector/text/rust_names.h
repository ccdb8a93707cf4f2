// What the names of Rust's methods tell. Titles and the rules about plumbing use it.
#pragma once

#include <optional>
#include <string_view>

namespace gpupeak::collector {

/// `<T as Trait>::f`, or `<T>::f` without a trait.
struct ImplName {
  std::string_view type;   ///< T as it stands there
  std::string_view trait;  ///< empty: the type's own function
  std::string_view rest;   ///< "::f"
};

/// Nothing if it is no such name. C++'s names never begin so.
std::optional<ImplName> impl_name(std::string_view name);

/// What stands before the name of a type: "&mut ", "*const ", "dyn ".
std::string_view type_sigils(std::string_view type);

/// Whether a type without its sigils is named by a path (`a::B<C>`), not built in like `u8`, `[T]`,
/// `(A, B)`, `fn(A)`, nor a parameter's letter.
bool is_type_path(std::string_view type);

/// The path that says whose a type or a trait is, of one inside a method (`<a::B>::f::C`) that of
/// the method's; of those that are built in it is core::primitive.
std::string_view type_path(std::string_view type);

}  // namespace gpupeak::collector
