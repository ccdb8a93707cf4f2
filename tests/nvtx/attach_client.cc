// A client of NVTX 3 that runs already when somebody attaches to it. Told by lines of standard input,
// each answered by one.
//   work NAME BYTES      a range around a block that is freed at once
//   domain NAME BYTES    the same in a domain that is made where there is none yet
//   string BYTES         the same there, by a string that is registered once
//   push NAME, pop
// usage: attach_client
#include <nvtx3/nvToolsExt.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

nvtxDomainHandle_t g_domain;
nvtxStringHandle_t g_string;
bool g_has_domain = false, g_has_string = false;

void allocate(size_t bytes) {
  void* volatile block = malloc(bytes);
  free(block);
}

void in_domain(nvtxEventAttributes_t event, size_t bytes) {
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  nvtxDomainRangePushEx(g_domain, &event);
  allocate(bytes);
  nvtxDomainRangePop(g_domain);
}

void make_domain() {
  if (!g_has_domain) g_domain = nvtxDomainCreateA("library");
  g_has_domain = true;
}

}  // namespace

int main() {
  char line[256], name[256];
  size_t bytes = 0;
  setvbuf(stdout, nullptr, _IOLBF, 0);
  puts("ready");
  while (fgets(line, sizeof line, stdin) != nullptr) {
    nvtxEventAttributes_t event{};
    if (sscanf(line, "work %255s %zu", name, &bytes) == 2) {
      nvtxRangePushA(name);
      allocate(bytes);
      nvtxRangePop();
    } else if (sscanf(line, "domain %255s %zu", name, &bytes) == 2) {
      make_domain();
      event.messageType = NVTX_MESSAGE_TYPE_ASCII;
      event.message.ascii = name;
      in_domain(event, bytes);
    } else if (sscanf(line, "string %zu", &bytes) == 1) {
      make_domain();
      if (!g_has_string) g_string = nvtxDomainRegisterStringA(g_domain, "registered");
      g_has_string = true;
      event.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
      event.message.registered = g_string;
      in_domain(event, bytes);
    } else if (sscanf(line, "push %255s", name) == 1) {
      nvtxRangePushA(name);
    } else if (strcmp(line, "pop\n") == 0) {
      nvtxRangePop();
    }
    puts("ok");
  }
  puts("done");
  return 0;
}
