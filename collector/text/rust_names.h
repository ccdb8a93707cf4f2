// Takes names of Rust methods apart. Titles and the rules about plumbing use it.
#pragma once

#include <optional>
#include <string_view>

namespace gpupeak::collector {

/// `<T as Trait>::f`, or `<T>::f` without a trait.
struct ImplName {
  std::string_view type;   ///< T as the name has it
  std::string_view trait;  ///< empty: it is the type's own function
  std::string_view rest;   ///< "::f"
};

/// nullopt if it is no such name. C++ names never begin like this.
std::optional<ImplName> impl_name(std::string_view name);

/// The marks in front of a type's name: "&mut ", "*const ", "dyn ".
std::string_view type_sigils(std::string_view type);

/// Whether a type without its marks is a path (`a::B<C>`): not built in like `u8`, `[T]`, `(A, B)`,
/// `fn(A)`, and not a parameter's letter.
bool is_type_path(std::string_view type);

/// The path that tells which crate a type or a trait is from. For a type within a method
/// (`<a::B>::f::C`) it is the path of the method's type; for built-in types core::primitive.
std::string_view type_path(std::string_view type);

}  // namespace gpupeak::collector
