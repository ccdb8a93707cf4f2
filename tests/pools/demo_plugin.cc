#include "demo_pool.h"

extern "C" __attribute__((visibility("default"))) void* plugin_alloc(size_t bytes) {
  return demo_alloc(bytes);
}
extern "C" __attribute__((visibility("default"))) void plugin_free(void* at) {
  demo_free(at);
}
