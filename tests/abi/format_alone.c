/* log_format.h needs nothing but itself, in C11 and in C++20. */
#include "gpupeak/log_format.h"
int main(void) {
  return sizeof(gpupeak_chunk_header) == 64 ? 0 : 1;
}
