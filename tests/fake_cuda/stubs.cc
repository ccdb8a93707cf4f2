// A weak function for each name that libcudart asks for: it counts only if no other file defines
// the name, that is, if the name is not simulated. cuda.h is not included here, since it declares
// the same names.
#pragma GCC visibility push(default)

extern "C" {

int fake_cuda_unsupported();
int fake_cuda_unsupported() {
  return 801;  // CUDA_ERROR_NOT_SUPPORTED
}

#define EXPORT(name)                \
  __attribute__((weak)) int name(); \
  int name() {                      \
    return 801;                     \
  }
#include "exported_names.def"
#undef EXPORT

}  // extern "C"
