// Our description of NVTX's protocol against NVIDIA's: a test that is the build itself.
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtMem.h>
#include <nvtx3/nvToolsExtPayload.h>

#include <cstddef>

#include "hooks/nvtx_types.h"

namespace ours = gpupeak::preload::nvtx;

#define SAME_PLACE(own, member, theirs, their_member) \
  static_assert(offsetof(own, member) == offsetof(theirs, their_member), #their_member)

static_assert(sizeof(ours::EventAttributes) == sizeof(nvtxEventAttributes_t));
SAME_PLACE(ours::EventAttributes, bytes, nvtxEventAttributes_t, size);
SAME_PLACE(ours::EventAttributes, category, nvtxEventAttributes_t, category);
SAME_PLACE(ours::EventAttributes, message_type, nvtxEventAttributes_t, messageType);
SAME_PLACE(ours::EventAttributes, message, nvtxEventAttributes_t, message);
static_assert(int{ours::kAscii} == NVTX_MESSAGE_TYPE_ASCII);
static_assert(int{ours::kUnicode} == NVTX_MESSAGE_TYPE_UNICODE);
static_assert(int{ours::kRegistered} == NVTX_MESSAGE_TYPE_REGISTERED);

static_assert(uint32_t{ours::kCallbacks} == NVTX_ETID_CALLBACKS);
static_assert(int{ours::kCore} == NVTX_CB_MODULE_CORE);
static_assert(int{ours::kCore2} == NVTX_CB_MODULE_CORE2);
static_assert(sizeof(ours::Callbacks) == sizeof(NvtxExportTableCallbacks));
SAME_PLACE(ours::Callbacks, get_module_table, NvtxExportTableCallbacks, GetModuleFunctionTable);
static_assert(unsigned{ours::kMarkEx} == NVTX_CBID_CORE_MarkEx);
static_assert(unsigned{ours::kRangeStartEx} == NVTX_CBID_CORE_RangeStartEx);
static_assert(unsigned{ours::kRangeEnd} == NVTX_CBID_CORE_RangeEnd);
static_assert(unsigned{ours::kRangePop} == NVTX_CBID_CORE_RangePop);
static_assert(unsigned{ours::kNameCategoryW} == NVTX_CBID_CORE_NameCategoryW);
static_assert(unsigned{ours::kDomainMarkEx} == NVTX_CBID_CORE2_DomainMarkEx);
static_assert(unsigned{ours::kDomainRangePop} == NVTX_CBID_CORE2_DomainRangePop);
static_assert(unsigned{ours::kDomainNameCategoryA} == NVTX_CBID_CORE2_DomainNameCategoryA);
static_assert(unsigned{ours::kDomainRegisterStringA} == NVTX_CBID_CORE2_DomainRegisterStringA);
static_assert(unsigned{ours::kDomainCreateA} == NVTX_CBID_CORE2_DomainCreateA);
static_assert(unsigned{ours::kDomainCreateW} == NVTX_CBID_CORE2_DomainCreateW);

static_assert(sizeof(ours::ExtensionModule) == sizeof(nvtxExtModuleInfo_t));
SAME_PLACE(ours::ExtensionModule, module, nvtxExtModuleInfo_t, moduleId);
SAME_PLACE(ours::ExtensionModule, segments, nvtxExtModuleInfo_t, segments);
static_assert(sizeof(ours::Segment) == sizeof(nvtxExtModuleSegment_t));
SAME_PLACE(ours::Segment, slots, nvtxExtModuleSegment_t, functionSlots);
static_assert(ours::kMemoryModule == NVTX_EXT_MODULEID_MEM);
static_assert(size_t{ours::kHeapRegister} == NVTX3EXT_CBID_nvtxMemHeapRegister);
static_assert(size_t{ours::kHeapReset} == NVTX3EXT_CBID_nvtxMemHeapReset);
static_assert(size_t{ours::kRegionsName} == NVTX3EXT_CBID_nvtxMemRegionsName);
static_assert(ours::kVirtualAddresses == NVTX_MEM_TYPE_VIRTUAL_ADDRESS);
static_assert(sizeof(ours::VirtualRange) == sizeof(nvtxMemVirtualRangeDesc_t));
SAME_PLACE(ours::VirtualRange, at, nvtxMemVirtualRangeDesc_t, ptr);
static_assert(sizeof(ours::HeapDescription) == sizeof(nvtxMemHeapDesc_t));
SAME_PLACE(ours::HeapDescription, type, nvtxMemHeapDesc_t, type);
SAME_PLACE(ours::HeapDescription, range, nvtxMemHeapDesc_t, typeSpecificDesc);
SAME_PLACE(ours::HeapDescription, message, nvtxMemHeapDesc_t, message);
static_assert(sizeof(ours::RegionsRegister) == sizeof(nvtxMemRegionsRegisterBatch_t));
SAME_PLACE(ours::RegionsRegister, type, nvtxMemRegionsRegisterBatch_t, regionType);
SAME_PLACE(ours::RegionsRegister, heap, nvtxMemRegionsRegisterBatch_t, heap);
SAME_PLACE(ours::RegionsRegister, handles, nvtxMemRegionsRegisterBatch_t, regionHandleElementsOut);
static_assert(sizeof(ours::RegionsResize) == sizeof(nvtxMemRegionsResizeBatch_t));
SAME_PLACE(ours::RegionsResize, elements, nvtxMemRegionsResizeBatch_t, regionDescElements);
static_assert(sizeof(ours::RegionsUnregister) == sizeof(nvtxMemRegionsUnregisterBatch_t));
SAME_PLACE(ours::RegionsUnregister, elements, nvtxMemRegionsUnregisterBatch_t, refElements);
static_assert(sizeof(ours::RegionName) == sizeof(nvtxMemRegionNameDesc_t));
SAME_PLACE(ours::RegionName, name, nvtxMemRegionNameDesc_t, name);
static_assert(sizeof(ours::RegionsName) == sizeof(nvtxMemRegionsNameBatch_t));
SAME_PLACE(ours::RegionsName, elements, nvtxMemRegionsNameBatch_t, regionElements);

static_assert(ours::kPayloadModule == NVTX_EXT_PAYLOAD_MODULEID);
static_assert(size_t{ours::kSchemaRegister} == NVTX3EXT_CBID_nvtxPayloadSchemaRegister);
static_assert(size_t{ours::kMarkPayload} == NVTX3EXT_CBID_nvtxMarkPayload);
static_assert(size_t{ours::kRangePushPayload} == NVTX3EXT_CBID_nvtxRangePushPayload);
static_assert(size_t{ours::kRangePopPayload} == NVTX3EXT_CBID_nvtxRangePopPayload);
static_assert(size_t{ours::kRangeStartPayload} == NVTX3EXT_CBID_nvtxRangeStartPayload);
static_assert(size_t{ours::kRangeEndPayload} == NVTX3EXT_CBID_nvtxRangeEndPayload);
static_assert(sizeof(ours::PayloadData) == sizeof(nvtxPayloadData_t));
SAME_PLACE(ours::PayloadData, schema, nvtxPayloadData_t, schemaId);
SAME_PLACE(ours::SchemaAttributes, fields, nvtxPayloadSchemaAttr_t, fieldMask);
SAME_PLACE(ours::SchemaAttributes, name, nvtxPayloadSchemaAttr_t, name);
SAME_PLACE(ours::SchemaAttributes, schema, nvtxPayloadSchemaAttr_t, schemaId);
static_assert(ours::kSchemaHasName == NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NAME);
static_assert(ours::kSchemaHasId == NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID);
static_assert(ours::kDynamicSchemas == NVTX_PAYLOAD_SCHEMA_ID_DYNAMIC_START);
