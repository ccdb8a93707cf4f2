// NVTX as an adapter. Our library is the injection library that NVTX's clients look for, unless the
// program or the user names another one. Clients are the v2 library and each module that was built
// with v3.
#include "hooks/nvtx.h"

#include <cstdint>
#include <cstring>
#include <cwchar>
#include <string_view>

#include "base/elf_lookup.h"
#include "base/environment.h"
#include "base/text.h"
#include "hooks/export.h"
#include "hooks/nvtx_types.h"
#include "life/process.h"
#include "track/nvtx.h"
#include "track/phases.h"

namespace gpupeak::preload {
namespace nvtx {
namespace {

/// What push and pop return in clients without a tool. Programs may print it, so we return it, too.
constexpr int kNoTracking = -2;

using Utf8 = Text<1024>;

/// Adds the text as UTF-8. A text that is too long is cut, never inside a character.
void add_utf8(Utf8& out, const wchar_t* text) {
  for (; *text != 0 && out.view().size() < 1000; ++text) {
    char bytes[4];
    size_t count = 0;
    put_utf8(bytes, sizeof bytes, count, static_cast<uint32_t>(*text));
    out.add(std::string_view(bytes, count));
  }
}

/// A message as a name. The name's text is the client's, or lies in `buffer`.
Name name_of(const char* text) {
  return text != nullptr ? text : "";
}
Name name_of(const wchar_t* text, Utf8& buffer) {
  if (text != nullptr) add_utf8(buffer, text);
  return buffer.view();
}
Name name_of(int32_t type, const Message& message, Utf8& buffer) {
  switch (type) {
    case kAscii:
      return name_of(message.ascii);
    case kUnicode:
      return name_of(message.unicode, buffer);
    case kRegistered:
      if (message.registered == 0 && came_late()) return Name("(registered before the attach)");
      return Name(static_cast<uint32_t>(message.registered));
    default:
      return {};
  }
}

Label label_of(uint64_t domain, const EventAttributes* event, Utf8& buffer) {
  if (event == nullptr || event->bytes < sizeof(EventAttributes)) {
    return {GPUPEAK_PHASE_NVTX, {}, domain};
  }
  return {GPUPEAK_PHASE_NVTX, name_of(event->message_type, event->message, buffer), domain,
          Name(nvtx_category(domain, event->category))};
}
Label label_of(const char* text) {
  return {GPUPEAK_PHASE_NVTX, name_of(text)};
}
Label label_of(const wchar_t* text, Utf8& buffer) {
  return {GPUPEAK_PHASE_NVTX, name_of(text, buffer)};
}

#define GPUPEAK_FRAME __builtin_frame_address(0)

// The callbacks of module core.
void mark_ex(const EventAttributes* event) {
  Utf8 buffer;
  mark(label_of(0, event, buffer));
}
void mark_a(const char* text) {
  mark(label_of(text));
}
void mark_w(const wchar_t* text) {
  Utf8 buffer;
  mark(label_of(text, buffer));
}
uint64_t range_start_ex(const EventAttributes* event) {
  Utf8 buffer;
  return range_begin(label_of(0, event, buffer));
}
uint64_t range_start_a(const char* text) {
  return range_begin(label_of(text));
}
uint64_t range_start_w(const wchar_t* text) {
  Utf8 buffer;
  return range_begin(label_of(text, buffer));
}
void end_range(uint64_t id) {
  range_end(id);
}
int range_push_ex(const EventAttributes* event) {
  Utf8 buffer;
  phase_push(label_of(0, event, buffer), GPUPEAK_FRAME);
  return kNoTracking;
}
int range_push_a(const char* text) {
  phase_push(label_of(text), GPUPEAK_FRAME);
  return kNoTracking;
}
int range_push_w(const wchar_t* text) {
  Utf8 buffer;
  phase_push(label_of(text, buffer), GPUPEAK_FRAME);
  return kNoTracking;
}
int range_pop() {
  phase_pop(GPUPEAK_PHASE_NVTX, 0, GPUPEAK_FRAME);
  return kNoTracking;
}
void name_category_a(uint32_t category, const char* name) {
  nvtx_name_category(0, category, name_of(name).text);
}
void name_category_w(uint32_t category, const wchar_t* name) {
  Utf8 buffer;
  nvtx_name_category(0, category, name_of(name, buffer).text);
}

// The callbacks of module core2, with a domain: the string id of the domain's name.
void domain_mark_ex(uint64_t domain, const EventAttributes* event) {
  Utf8 buffer;
  mark(label_of(domain, event, buffer));
}
uint64_t domain_range_start_ex(uint64_t domain, const EventAttributes* event) {
  Utf8 buffer;
  return range_begin(label_of(domain, event, buffer));
}
void domain_range_end(uint64_t, uint64_t id) {
  range_end(id);
}
int domain_range_push_ex(uint64_t domain, const EventAttributes* event) {
  Utf8 buffer;
  phase_push(label_of(domain, event, buffer), GPUPEAK_FRAME);
  return kNoTracking;
}
int domain_range_pop(uint64_t domain) {
  phase_pop(GPUPEAK_PHASE_NVTX, domain, GPUPEAK_FRAME);
  return kNoTracking;
}
void domain_name_category_a(uint64_t domain, uint32_t category, const char* name) {
  nvtx_name_category(domain, category, name_of(name).text);
}
void domain_name_category_w(uint64_t domain, uint32_t category, const wchar_t* name) {
  Utf8 buffer;
  nvtx_name_category(domain, category, name_of(name, buffer).text);
}
uint64_t string_a(uint64_t, const char* text) {
  return nvtx_string(name_of(text).text);
}
uint64_t string_w(uint64_t, const wchar_t* text) {
  Utf8 buffer;
  return nvtx_string(name_of(text, buffer).text);
}
uint64_t domain_create_a(const char* name) {
  return string_a(0, name);
}
uint64_t domain_create_w(const wchar_t* name) {
  return string_w(0, name);
}

// The memory extension.
/// Calls `visit(i, element)` for the elements of a batch. Elements of newer clients may be larger.
template <typename Element, typename Batch, typename Visit>
void for_each_element(const Batch* batch, Visit visit) {
  if (batch == nullptr || batch->elements == nullptr || batch->element_bytes < sizeof(Element))
    return;
  const auto* at = static_cast<const char*>(batch->elements);
  for (size_t i = 0; i < batch->count; ++i, at += batch->element_bytes) {
    Element element;
    memcpy(&element, at, sizeof element);
    visit(i, element);
  }
}
uint64_t address_of(const void* at) {
  return reinterpret_cast<uint64_t>(at);
}

uint64_t heap_register(uint64_t, const HeapDescription* heap) {
  if (heap == nullptr || heap->struct_bytes < sizeof *heap) return 0;
  const bool has_range = heap->type == kVirtualAddresses && heap->range != nullptr &&
                         heap->range_bytes >= sizeof *heap->range;
  const VirtualRange range = has_range ? *heap->range : VirtualRange{};
  // NVTX says that the handle of a heap in virtual memory is its address.
  const uint64_t handle = range.at != nullptr ? address_of(range.at) : address_of(heap);
  Utf8 buffer;
  const Name name = name_of(static_cast<int32_t>(heap->message_type), heap->message, buffer);
  nvtx_heap_registered(handle, name, address_of(range.at), range.bytes);
  return handle;
}
void heap_unregister(uint64_t, uint64_t heap) {
  nvtx_heap_unregistered(heap);
}
void heap_reset(uint64_t, uint64_t heap) {
  nvtx_heap_reset(heap);
}
void regions_register(uint64_t, const RegionsRegister* batch) {
  const CallerFrame caller = GPUPEAK_CALLER;
  for_each_element<VirtualRange>(batch, [&](size_t i, const VirtualRange& range) {
    if (batch->handles != nullptr) batch->handles[i] = address_of(range.at);
    if (batch->type == kVirtualAddresses) {
      nvtx_region_registered(batch->heap, address_of(range.at), range.bytes, caller);
    }
  });
}
void regions_resize(uint64_t, const RegionsResize* batch) {
  const CallerFrame caller = GPUPEAK_CALLER;
  for_each_element<VirtualRange>(batch, [&](size_t, const VirtualRange& range) {
    nvtx_region_resized(address_of(range.at), range.bytes, caller);
  });
}
void regions_unregister(uint64_t, const RegionsUnregister* batch) {
  for_each_element<uint64_t>(batch,
                             [&](size_t, uint64_t region) { nvtx_region_unregistered(region); });
}
void regions_name(uint64_t, const RegionsName* batch) {
  const CallerFrame caller = GPUPEAK_CALLER;
  for_each_element<RegionName>(batch, [&](size_t, const RegionName& region) {
    Utf8 buffer;
    const Name name = name_of(static_cast<int32_t>(region.name_type), region.name, buffer);
    nvtx_region_named(region.region, name, caller);
  });
}

// The payload extension: events that have data, and no message of their own. A range that was
// pushed with a message may be popped with a payload.

/// A schema without a number of the client's is numbered by the string id of its name.
uint64_t schema_register(uint64_t domain, const SchemaAttributes* schema) {
  if (schema == nullptr) return 0;
  const bool has_name = (schema->fields & kSchemaHasName) != 0 && schema->name != nullptr;
  const uint32_t name = has_name ? nvtx_string(schema->name) : 0;
  if ((schema->fields & kSchemaHasId) == 0) return kDynamicSchemas + name;
  nvtx_name_schema(domain, schema->schema, name);
  return schema->schema;
}
/// An event with a payload is named after the payload's schema.
Label label_of(uint64_t domain, const PayloadData* payload, size_t count) {
  const uint64_t schema = payload != nullptr && count > 0 ? payload->schema : 0;
  const uint32_t name = schema >= kDynamicSchemas ? static_cast<uint32_t>(schema - kDynamicSchemas)
                                                  : nvtx_schema(domain, schema);
  return {GPUPEAK_PHASE_NVTX, name != 0 ? Name(name) : Name("(payload)"), domain};
}
void mark_payload(uint64_t domain, const PayloadData* payload, size_t count) {
  mark(label_of(domain, payload, count));
}
int range_push_payload(uint64_t domain, const PayloadData* payload, size_t count) {
  phase_push(label_of(domain, payload, count), GPUPEAK_FRAME);
  return kNoTracking;
}
int range_pop_payload(uint64_t domain, const PayloadData*, size_t) {
  return domain_range_pop(domain);
}
uint64_t range_start_payload(uint64_t domain, const PayloadData* payload, size_t count) {
  return range_begin(label_of(domain, payload, count));
}
void range_end_payload(uint64_t, uint64_t id, const PayloadData*, size_t) {
  range_end(id);
}

// Attaching.
class Attachment {
 public:
  Attachment(const Callbacks& callbacks, Module module) {
    if (callbacks.get_module_table(module, &table_, &count_) == 0) count_ = 0;
  }
  template <typename Callback>
  void set(unsigned index, Callback* callback) {
    if (index < count_ && table_[index] != nullptr) {
      *table_[index] = reinterpret_cast<Function>(callback);
    }
  }

 private:
  FunctionTable table_ = nullptr;
  unsigned count_ = 0;
};

void attach(const Callbacks& callbacks) {
  Attachment core(callbacks, kCore);
  core.set(kMarkEx, &mark_ex);
  core.set(kMarkA, &mark_a);
  core.set(kMarkW, &mark_w);
  core.set(kRangeStartEx, &range_start_ex);
  core.set(kRangeStartA, &range_start_a);
  core.set(kRangeStartW, &range_start_w);
  core.set(kRangeEnd, &end_range);
  core.set(kRangePushEx, &range_push_ex);
  core.set(kRangePushA, &range_push_a);
  core.set(kRangePushW, &range_push_w);
  core.set(kRangePop, &range_pop);
  core.set(kNameCategoryA, &name_category_a);
  core.set(kNameCategoryW, &name_category_w);
  Attachment core2(callbacks, kCore2);
  core2.set(kDomainMarkEx, &domain_mark_ex);
  core2.set(kDomainRangeStartEx, &domain_range_start_ex);
  core2.set(kDomainRangeEnd, &domain_range_end);
  core2.set(kDomainRangePushEx, &domain_range_push_ex);
  core2.set(kDomainRangePop, &domain_range_pop);
  core2.set(kDomainNameCategoryA, &domain_name_category_a);
  core2.set(kDomainNameCategoryW, &domain_name_category_w);
  core2.set(kDomainRegisterStringA, &string_a);
  core2.set(kDomainRegisterStringW, &string_w);
  core2.set(kDomainCreateA, &domain_create_a);
  core2.set(kDomainCreateW, &domain_create_w);
}

/// The slots of an extension's functions. An older client may have fewer than we know.
class Slots {
 public:
  explicit Slots(const Segment& segment) : segment_(segment) {}
  template <typename Callback>
  void set(size_t slot, Callback* callback) {
    if (slot < segment_.slot_count) segment_.slots[slot] = reinterpret_cast<intptr_t>(callback);
  }

 private:
  const Segment& segment_;
};

void attach_memory(Slots slots) {
  slots.set(kHeapRegister, &heap_register);
  slots.set(kHeapUnregister, &heap_unregister);
  slots.set(kHeapReset, &heap_reset);
  slots.set(kRegionsRegister, &regions_register);
  slots.set(kRegionsResize, &regions_resize);
  slots.set(kRegionsUnregister, &regions_unregister);
  slots.set(kRegionsName, &regions_name);
}

void attach_payload(Slots slots) {
  slots.set(kSchemaRegister, &schema_register);
  slots.set(kMarkPayload, &mark_payload);
  slots.set(kRangePushPayload, &range_push_payload);
  slots.set(kRangePopPayload, &range_pop_payload);
  slots.set(kRangeStartPayload, &range_start_payload);
  slots.set(kRangeEndPayload, &range_end_payload);
}

constexpr std::string_view kVariable = "NVTX_INJECTION64_PATH";

}  // namespace
}  // namespace nvtx

void attach_to_nvtx(const nvtx::Callbacks& callbacks) {
  nvtx::attach(callbacks);
}

const char* nvtx_variable(const char* name) {
  if (nvtx::kVariable != name || !may_record() || !environment().nvtx) return nullptr;
  const char* own = module_path(reinterpret_cast<const void*>(&nvtx::attach));
  return *own != 0 ? own : nullptr;
}

}  // namespace gpupeak::preload

using namespace gpupeak::preload;

GPUPEAK_EXPORT int InitializeInjectionNvtx2(nvtx::GetExportTable get_export_table) {
  ensure_started();
  if (came_late() && !recording()) return 0;
  const auto* callbacks = static_cast<const nvtx::Callbacks*>(get_export_table(nvtx::kCallbacks));
  if (callbacks == nullptr || callbacks->struct_bytes < sizeof *callbacks) return 0;
  nvtx::attach(*callbacks);
  return 1;
}

GPUPEAK_EXPORT int InitializeInjectionNvtxExtension(nvtx::ExtensionModule* extension) {
  // In an attached program nobody would take our functions out of these slots at a detach.
  if (came_late() || extension == nullptr || extension->struct_bytes < sizeof *extension ||
      extension->segment_count == 0) {
    return 0;
  }
  const nvtx::Slots slots(extension->segments[0]);
  switch (extension->module) {
    case nvtx::kMemoryModule:
      nvtx::attach_memory(slots);
      return 1;
    case nvtx::kPayloadModule:
      nvtx::attach_payload(slots);
      return 1;
    default:
      return 0;
  }
}
