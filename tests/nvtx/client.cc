// What programs do with NVTX 3. Nothing that it prints depends on whether a tool is attached.
//   client plain | deep | unbalanced | threads | memory | payload | many_names
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtMem.h>
#include <nvtx3/nvToolsExtPayload.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

nvtxEventAttributes_t attributes(nvtxMessageType_t type, uint32_t category) {
  nvtxEventAttributes_t event{};
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.messageType = type;
  event.category = category;
  return event;
}

void allocate(size_t bytes) {
  void* volatile block = malloc(bytes);
  free(block);
}

void plain() {
  nvtxMarkA("begin");
  const int level = nvtxRangePushA("outer");
  allocate(1'000'000);
  nvtxRangePushW(L"größer – 大");
  allocate(2'000'000);
  nvtxRangePop();
  nvtxDomainHandle_t domain = nvtxDomainCreateA("library");
  nvtxDomainNameCategoryA(domain, 7, "kernels");
  nvtxEventAttributes_t event = attributes(NVTX_MESSAGE_TYPE_REGISTERED, 7);
  event.message.registered = nvtxDomainRegisterStringA(domain, "registered");
  nvtxDomainRangePushEx(domain, &event);
  allocate(3'000'000);
  nvtxRangePop();  // of the default domain: closes "outer", not the library's range
  allocate(4'000'000);
  nvtxDomainMarkEx(domain, &event);
  const int closed = nvtxDomainRangePop(domain);
  nvtxDomainDestroy(domain);
  nvtxEventAttributes_t small{};  // of a client that says nothing
  nvtxMarkEx(&small);
  printf("levels %d %d\n", level, closed);
}

/// As a library of collectives does it: pushed with a message, popped with a payload.
void payload() {
  nvtxDomainHandle_t domain = nvtxDomainCreateA("library");
  nvtxPayloadSchemaAttr_t schema{};
  schema.fieldMask = NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NAME;
  schema.name = "numbered by the tool";
  const uint64_t dynamic = nvtxPayloadSchemaRegister(domain, &schema);
  schema.fieldMask |= NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID;
  schema.schemaId = NVTX_PAYLOAD_SCHEMA_ID_STATIC_START + 5;
  schema.name = "numbered by itself";
  nvtxPayloadSchemaRegister(domain, &schema);
  const uint64_t value = 42;
  nvtxPayloadData_t data{schema.schemaId, sizeof value, &value};
  nvtxEventAttributes_t event = attributes(NVTX_MESSAGE_TYPE_ASCII, 0);
  event.message.ascii = "init";
  nvtxDomainRangePushEx(domain, &event);
  allocate(1'000'000);
  const int closed = nvtxRangePopPayload(domain, &data, 1);
  nvtxRangePushA("after it");  // beside it, not within
  allocate(2'000'000);
  nvtxRangePop();
  nvtxRangePushPayload(domain, &data, 1);
  allocate(3'000'000);
  nvtxDomainRangePop(domain);
  data.schemaId = dynamic;
  const nvtxRangeId_t range = nvtxRangeStartPayload(domain, &data, 1);
  allocate(4'000'000);
  nvtxMarkPayload(domain, &data, 1);
  nvtxRangeEndPayload(domain, range, nullptr, 0);
  nvtxRangePushPayload(domain, nullptr, 0);
  allocate(5'000'000);
  nvtxRangePopPayload(domain, nullptr, 0);
  printf("closed %d\n", closed);
}

void deep() {
  for (int i = 0; i < 5000; ++i) nvtxRangePushA(i % 2 == 0 ? "even" : "odd");
  allocate(1'000'000);
  for (int i = 0; i < 5000; ++i) nvtxRangePop();
}

void unbalanced() {
  for (int i = 0; i < 3; ++i) nvtxRangePop();
  nvtxRangePushA("never closed");
  nvtxRangeEnd(12345);
  nvtxRangeStartA("never ended");
  nvtxRangePushA(nullptr);
  nvtxRangePushEx(nullptr);
}

void threads() {
  std::vector<nvtxRangeId_t> ranges;
  for (int i = 0; i < 4; ++i) ranges.push_back(nvtxRangeStartA("across threads"));
  std::vector<std::thread> workers;
  for (int i = 0; i < 4; ++i) {
    workers.emplace_back([&ranges, i] {
      for (int k = 0; k < 1000; ++k) {
        nvtxRangePushA("work");
        allocate(1000);
        nvtxRangePop();
      }
      nvtxRangePushA("left open by its thread");
      nvtxRangeEnd(ranges[static_cast<size_t>(i)]);
    });
  }
  for (std::thread& worker : workers) worker.join();
}

void memory() {
  std::vector<char> backing(1 << 20);
  nvtxDomainHandle_t domain = nvtxDomainCreateA("allocator");
  nvtxMemVirtualRangeDesc_t range{backing.size(), backing.data()};
  nvtxMemHeapDesc_t description{};
  description.extCompatID = NVTX_EXT_COMPATID_MEM;
  description.structSize = sizeof description;
  description.usage = NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR;
  description.type = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
  description.typeSpecificDescSize = sizeof range;
  description.typeSpecificDesc = &range;
  description.messageType = NVTX_MESSAGE_TYPE_ASCII;
  description.message.ascii = "my pool";
  nvtxMemHeapHandle_t heap = nvtxMemHeapRegister(domain, &description);

  nvtxMemVirtualRangeDesc_t blocks[3];
  for (int i = 0; i < 3; ++i)
    blocks[i] = {size_t{100'000}, &backing[static_cast<size_t>(i) * 200'000]};
  nvtxMemRegionsRegisterBatch_t added{};
  added.extCompatID = NVTX_EXT_COMPATID_MEM;
  added.structSize = sizeof added;
  added.regionType = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
  added.heap = heap;
  added.regionCount = 3;
  added.regionDescElementSize = sizeof blocks[0];
  added.regionDescElements = blocks;
  nvtxMemRegionsRegister(domain, &added);

  nvtxMemRegionNameDesc_t name{};
  name.regionRefType = NVTX_MEM_REGION_REF_TYPE_POINTER;
  name.nameType = NVTX_MESSAGE_TYPE_ASCII;
  name.region.pointer = blocks[1].ptr;
  name.name.ascii = "weights";
  nvtxMemRegionsNameBatch_t names{};
  names.extCompatID = NVTX_EXT_COMPATID_MEM;
  names.structSize = sizeof names;
  names.regionCount = 1;
  names.regionElementSize = sizeof name;
  names.regionElements = &name;
  nvtxMemRegionsName(domain, &names);

  blocks[2].size = 150'000;
  nvtxMemRegionsResizeBatch_t resized{};
  resized.extCompatID = NVTX_EXT_COMPATID_MEM;
  resized.structSize = sizeof resized;
  resized.regionType = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
  resized.regionDescCount = 1;
  resized.regionDescElementSize = sizeof blocks[0];
  resized.regionDescElements = &blocks[2];
  nvtxMemRegionsResize(domain, &resized);

  nvtxMemRegionRef_t first{};
  first.pointer = blocks[0].ptr;
  nvtxMemRegionsUnregisterBatch_t gone{};
  gone.extCompatID = NVTX_EXT_COMPATID_MEM;
  gone.structSize = sizeof gone;
  gone.refType = NVTX_MEM_REGION_REF_TYPE_POINTER;
  gone.refCount = 1;
  gone.refElementSize = sizeof first;
  gone.refElements = &first;
  nvtxMemRegionsUnregister(domain, &gone);
  nvtxMemHeapUnregister(domain, heap);
}

/// More text than the log's string table holds.
void many_names() {
  const std::string tail(300, 'x');
  for (int i = 0; i < 20'000; ++i) {
    nvtxRangePushA((std::to_string(i) + tail).c_str());
    nvtxRangePop();
  }
}

}  // namespace

int main(int, char** argv) {
  const char* what = argv[1];
  if (strcmp(what, "plain") == 0) plain();
  if (strcmp(what, "deep") == 0) deep();
  if (strcmp(what, "unbalanced") == 0) unbalanced();
  if (strcmp(what, "threads") == 0) threads();
  if (strcmp(what, "memory") == 0) memory();
  if (strcmp(what, "payload") == 0) payload();
  if (strcmp(what, "many_names") == 0) many_names();
  extern char** environ;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (strstr(*entry, "NVTX") != nullptr) puts(*entry);
  }
  fflush(stdout);
  return system("env | grep NVTX") == 0 ? 1 : 0;
}
