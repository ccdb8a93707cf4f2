// Tells what names of functions mean, and shortens them. Symbolizer and attribution use it.
#pragma once

#include <string>
#include <string_view>

namespace gpupeak::collector {

/// The demangled form, or the name itself if it is no mangled name of C++ or Rust.
std::string demangle(const std::string& name);

/// "int f<int>(char)" → "f<int>": without parameters and return type.
std::string_view without_signature(std::string_view function);

/// For titles: without parameters, return type and anonymous namespaces, with long template
/// arguments as <…>, and at most the last three names of a qualified one. Rust's `<a::T as
/// b::Trait>::f` becomes `<T as Trait>::f`.
std::string short_function_name(std::string_view function);

/// Whether it is an allocator's own code, or code that only passes an allocation on: malloc and its
/// family, operator new, the standard library, the CUDA runtime, Python's object allocators. A site
/// is named after the first frame that is none of these.
bool is_plumbing(std::string_view module, std::string_view function);

/// Whether it is the Python interpreter's own native code, the code by which it calls C functions,
/// NumPy's core, or a Python module without names. Where a stack has Python frames, those say more.
bool is_python_interpreter(std::string_view module, std::string_view function);

/// Whether a Python file is part of an installed package or of Python itself, by its path.
bool is_installed_python(std::string_view file);

/// Whether it runs before main or before a thread's function: a title does not need it.
bool is_start_code(std::string_view function);

}  // namespace gpupeak::collector
