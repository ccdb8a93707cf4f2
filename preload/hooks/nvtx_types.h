// NVTX's injection protocol: what clients hand to an injected library, and what they call there.
// These types are our own, so that the build needs no NVTX. tests/nvtx compares them with NVIDIA's
// headers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpupeak::preload::nvtx {

using Function = void (*)();
/// For each callback, the place in the client that holds its address.
using FunctionTable = Function**;

enum ExportTable : uint32_t { kCallbacks = 1 };
enum Module : int { kCore = 1, kCore2 = 5 };
struct Callbacks {
  size_t struct_bytes;
  int (*get_module_table)(int module, FunctionTable* table, unsigned* count);
};
using GetExportTable = const void* (*)(uint32_t table);

enum CoreCallback : unsigned {
  kMarkEx = 1,
  kMarkA,
  kMarkW,
  kRangeStartEx,
  kRangeStartA,
  kRangeStartW,
  kRangeEnd,
  kRangePushEx,
  kRangePushA,
  kRangePushW,
  kRangePop,
  kNameCategoryA,
  kNameCategoryW
};
enum Core2Callback : unsigned {
  kDomainMarkEx = 1,
  kDomainRangeStartEx,
  kDomainRangeEnd,
  kDomainRangePushEx,
  kDomainRangePop,
  kDomainNameCategoryA = 8,
  kDomainNameCategoryW,
  kDomainRegisterStringA,
  kDomainRegisterStringW,
  kDomainCreateA,
  kDomainCreateW
};

enum MessageType : int32_t { kNoMessage = 0, kAscii = 1, kUnicode = 2, kRegistered = 3 };
union Message {
  const char* ascii;
  const wchar_t* unicode;
  uintptr_t registered;  ///< the handle that we gave for a registered string
};
struct EventAttributes {
  uint16_t version, bytes;
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  int32_t payload_type;
  int32_t reserved;
  uint64_t payload;
  int32_t message_type;
  Message message;
};

// Each extension is a module, with slots for the addresses of its functions.
struct Segment {
  size_t id, slot_count;
  intptr_t* slots;
};
struct ExtensionModule {
  uint16_t nvtx_version, struct_bytes;
  uint16_t module, compatibility;
  size_t segment_count;
  Segment* segments;
  const void* get_export_function;
  const void* info;
};
constexpr uint16_t kMemoryModule = 1;
enum MemorySlot : size_t {
  kHeapRegister = 0,
  kHeapUnregister,
  kHeapReset,
  kRegionsRegister,
  kRegionsResize,
  kRegionsUnregister,
  kRegionsName
};

constexpr uint16_t kPayloadModule = 2;
enum PayloadSlot : size_t {
  kSchemaRegister = 0,
  kMarkPayload = 2,
  kRangePushPayload,
  kRangePopPayload,
  kRangeStartPayload,
  kRangeEndPayload
};
struct PayloadData {
  uint64_t schema;
  size_t bytes;
  const void* data;
};
struct SchemaAttributes {
  uint64_t fields;  ///< a bit for each of the following that is given
  const char* name;
  uint64_t type, flags;
  const void* entries;
  size_t entry_count, static_bytes, alignment;
  uint64_t schema;
};
constexpr uint64_t kSchemaHasName = 1 << 1, kSchemaHasId = 1 << 8;
constexpr uint64_t kDynamicSchemas = uint64_t{1} << 32;  ///< the tool's own numbers begin here

constexpr uint32_t kVirtualAddresses = 1;  ///< the only memory type so far
struct VirtualRange {
  size_t bytes;
  const void* at;
};
struct HeapDescription {
  uint16_t compatibility, struct_bytes;
  uint32_t reserved;
  uint32_t usage, type;
  size_t range_bytes;
  const VirtualRange* range;
  uint32_t category, message_type;
  Message message;
};
struct RegionsRegister {
  uint16_t compatibility, struct_bytes;
  uint32_t type;
  uintptr_t heap;
  size_t count, element_bytes;
  const void* elements;  ///< VirtualRange
  uintptr_t* handles;    ///< output; may be nullptr
};
struct RegionsResize {
  uint16_t compatibility, struct_bytes;
  uint32_t type;
  size_t count, element_bytes;
  const void* elements;  ///< VirtualRange
};
struct RegionsUnregister {
  uint16_t compatibility, struct_bytes;
  uint32_t reference_type;
  size_t count, element_bytes;
  const void* elements;  ///< addresses or handles; our handles are the addresses
};
struct RegionName {
  uint32_t reference_type, name_type;
  uintptr_t region;
  Message name;
  uint32_t category, reserved;
};
struct RegionsName {
  uint16_t compatibility, struct_bytes;
  uint32_t reserved;
  size_t count, element_bytes;
  const void* elements;  ///< RegionName
  size_t reserved1;
};

}  // namespace gpupeak::preload::nvtx
