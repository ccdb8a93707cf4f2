"""Compares each row of cuda_table.def with the toolkit's own typedef of that function and ABI version.

The rows spell their parameters out, since cuda.h renames functions and drops old ABIs. cudaTypedefs.h has a
PFN_<name>_v<version> for each: here the compiler checks that both have as many parameters, of the same sizes,
pointers where the other has pointers. Rows that this toolkit is too old for are listed and passed over.
"""
import pathlib
import re
import subprocess
import sys

PRELUDE = """#define __CUDA_API_VERSION_INTERNAL  // the old ABIs too
#include <cuda.h>
#include <cudaTypedefs.h>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>
struct ArrayDescriptor32;
struct Array3dDescriptor32;
namespace calls { struct AnyNode; }
template <typename Function> struct Parts;
template <typename... A> struct Parts<CUresult (*)(A...)> {
  static constexpr size_t count = sizeof...(A);
  using Parameters = std::tuple<A...>;
};
template <typename A, typename B>
constexpr bool alike = sizeof(A) == sizeof(B) && std::is_pointer<A>::value == std::is_pointer<B>::value;
template <typename A, typename B, size_t... i>
constexpr bool all_alike(std::index_sequence<i...>) {
  return (alike<std::tuple_element_t<i, A>, std::tuple_element_t<i, B>> && ... && true);
}
template <typename A, typename B>
constexpr bool agree() {
  if constexpr (Parts<A>::count != Parts<B>::count) return false;
  else return all_alike<typename Parts<A>::Parameters, typename Parts<B>::Parameters>(
      std::make_index_sequence<Parts<A>::count>());
}
"""


def main():
    path, compiler, include = sys.argv[1:]
    table = subprocess.run([compiler, "-E", "-P", "-x", "c++", "-I", pathlib.Path(path).parent.parent, path],
                           stdout=subprocess.PIPE, text=True, check=True).stdout
    typedefs = (pathlib.Path(include) / "cudaTypedefs.h").read_text()
    rows = re.findall(r'ROW\(\s*(\w+),\s*"(\w+)",\s*(\d+),\s*(\d),\s*[\w<>: ]+,\s*\(([^()]*)\),', table)
    if len(rows) != table.count("ROW(") or not rows:
        sys.exit(f"{len(rows)} of {table.count('ROW(')} rows were understood")
    program, passed_over = [PRELUDE], []
    for name, base, version, flags, parameters in rows:
        wanted = f"PFN_{base}_v{version}"
        if flags == "2":
            wanted += "_ptsz" if f"{wanted}_ptsz)" in typedefs else "_ptds"
        if f"{wanted})" not in typedefs:
            passed_over.append(name)
            continue
        program.append(f'static_assert(agree<CUresult (*)({parameters}), {wanted}>(), "{name} is not {wanted}");')
    result = subprocess.run([compiler, "-std=c++20", "-fsyntax-only", "-isystem", include, "-x", "c++", "-"],
                            input="\n".join(program), text=True, check=False)
    print(f"{len(rows) - len(passed_over)} rows compared, unknown to this toolkit: {passed_over or 'none'}")
    return result.returncode


if __name__ == "__main__":
    sys.exit(main())
