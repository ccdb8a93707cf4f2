// NVTX as an adapter. Our library is the injection library that NVTX's clients look for, unless the
// program or the user names another one. Clients are the v2 library and each module that was built
// with v3.
#include "track/nvtx.h"

#include <link.h>

#include <cstring>
#include <cwchar>
#include <initializer_list>
#include <string_view>

#include "base/elf_lookup.h"
#include "base/environment.h"
#include "base/loader.h"
#include "base/text.h"
#include "hooks/adapters.h"
#include "hooks/export.h"
#include "hooks/nvtx_types.h"
#include "life/process.h"
#include "stack/module_map.h"
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
Name name_of(const char* text, Utf8&) {
  return text != nullptr ? text : "";
}
Name name_of(const wchar_t* text, Utf8& buffer) {
  if (text != nullptr) add_utf8(buffer, text);
  return buffer.view();
}
Name name_of(int32_t type, const Message& message, Utf8& buffer) {
  switch (type) {
    case kAscii:
      return name_of(message.ascii, buffer);
    case kUnicode:
      return name_of(message.unicode, buffer);
    case kRegistered:
      if (message.registered == 0 && came_late()) return Name("(registered before the attach)");
      return Name(static_cast<uint32_t>(message.registered));
    default:
      return {};
  }
}

/// What the callbacks' arguments say of an event: a text, or attributes, in a domain or in none.
Label label_of(Utf8& buffer, uint64_t domain, const EventAttributes* event) {
  if (event == nullptr || event->bytes < sizeof(EventAttributes))
    return {GPUPEAK_PHASE_NVTX, {}, domain};
  return {GPUPEAK_PHASE_NVTX, name_of(event->message_type, event->message, buffer), domain,
          Name(nvtx_category(domain, event->category))};
}
Label label_of(Utf8& buffer, const EventAttributes* event) {
  return label_of(buffer, 0, event);
}
template <typename Character>
Label label_of(Utf8& buffer, const Character* text) {
  return {GPUPEAK_PHASE_NVTX, name_of(text, buffer)};
}
/// An event with a payload is named after the payload's schema.
Label label_of(Utf8&, uint64_t domain, const PayloadData* payload, size_t count) {
  const uint64_t schema = payload != nullptr && count > 0 ? payload->schema : 0;
  const uint32_t name = schema >= kDynamicSchemas ? static_cast<uint32_t>(schema - kDynamicSchemas)
                                                  : nvtx_schema(domain, schema);
  return {GPUPEAK_PHASE_NVTX, name != 0 ? Name(name) : Name("(payload)"), domain};
}

#define GPUPEAK_FRAME __builtin_frame_address(0)

// The callbacks of the modules core, core2 (with a domain: the string id of its name) and payload.
// A range that was pushed with a message may be popped with a payload.
template <typename... Event>
void mark_event(Event... event) {
  Utf8 buffer;
  mark(label_of(buffer, event...));
}
template <typename... Event>
uint64_t start_range(Event... event) {
  Utf8 buffer;
  return range_begin(label_of(buffer, event...));
}
template <typename... Payload>
void end_range_in(uint64_t, uint64_t id, Payload...) {
  range_end(id);
}
template <typename... Event>
int push_range(Event... event) {
  Utf8 buffer;
  phase_push(label_of(buffer, event...), GPUPEAK_FRAME);
  return kNoTracking;
}
int pop_range() {
  phase_pop(GPUPEAK_PHASE_NVTX, 0, GPUPEAK_FRAME);
  return kNoTracking;
}
template <typename... Payload>
int pop_range_in(uint64_t domain, Payload...) {
  phase_pop(GPUPEAK_PHASE_NVTX, domain, GPUPEAK_FRAME);
  return kNoTracking;
}
template <typename Character>
void name_category_in(uint64_t domain, uint32_t category, const Character* name) {
  Utf8 buffer;
  nvtx_name_category(domain, category, name_of(name, buffer).text);
}
template <typename Character>
void name_category(uint32_t category, const Character* name) {
  name_category_in(0, category, name);
}
template <typename Character>
uint64_t register_string(uint64_t, const Character* text) {
  Utf8 buffer;
  return nvtx_string(name_of(text, buffer).text);
}
template <typename Character>
uint64_t create_domain(const Character* name) {
  return register_string(0, name);
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
template <void (*kNote)(uint64_t)>
void note_heap(uint64_t, uint64_t heap) {
  kNote(heap);
}
void regions_register(uint64_t, const RegionsRegister* batch) {
  const CallerFrame caller = GPUPEAK_CALLER;
  for_each_element<VirtualRange>(batch, [&](size_t i, const VirtualRange& range) {
    if (batch->handles != nullptr) batch->handles[i] = address_of(range.at);
    if (batch->type == kVirtualAddresses)
      nvtx_region_registered(batch->heap, address_of(range.at), range.bytes, caller);
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

// The payload extension: events that have data, and no message of their own.

/// A schema without a number of the client's is numbered by the string id of its name.
uint64_t schema_register(uint64_t domain, const SchemaAttributes* schema) {
  if (schema == nullptr) return 0;
  const bool has_name = (schema->fields & kSchemaHasName) != 0 && schema->name != nullptr;
  const uint32_t name = has_name ? nvtx_string(schema->name) : 0;
  if ((schema->fields & kSchemaHasId) == 0) return kDynamicSchemas + name;
  nvtx_name_schema(domain, schema->schema, name);
  return schema->schema;
}
// Attaching.
/// Makes our functions a module's callbacks: pairs of a callback's number and our function.
struct Callback {
  template <typename Ours>
  Callback(unsigned its_number, Ours* ours)
      : number(its_number), function(reinterpret_cast<Function>(ours)) {}
  unsigned number;
  Function function;
};
void attach(const Callbacks& callbacks, Module module, std::initializer_list<Callback> ours) {
  FunctionTable table = nullptr;
  unsigned count = 0;
  if (callbacks.get_module_table(module, &table, &count) == 0) return;
  for (const Callback& it : ours) {
    if (it.number < count && table[it.number] != nullptr) *table[it.number] = it.function;
  }
}
/// The same for the slots of an extension. An older client may have fewer than we know.
int attach(const Segment& slots, std::initializer_list<Callback> ours) {
  for (const Callback& it : ours) {
    if (it.number < slots.slot_count)
      slots.slots[it.number] = reinterpret_cast<intptr_t>(it.function);
  }
  return 1;
}

void attach(const Callbacks& callbacks) {
  using Event = const EventAttributes*;
  attach(callbacks, kCore,
         {{kMarkEx, &mark_event<Event>},
          {kMarkA, &mark_event<const char*>},
          {kMarkW, &mark_event<const wchar_t*>},
          {kRangeStartEx, &start_range<Event>},
          {kRangeStartA, &start_range<const char*>},
          {kRangeStartW, &start_range<const wchar_t*>},
          {kRangeEnd, &range_end},
          {kRangePushEx, &push_range<Event>},
          {kRangePushA, &push_range<const char*>},
          {kRangePushW, &push_range<const wchar_t*>},
          {kRangePop, &pop_range},
          {kNameCategoryA, &name_category<char>},
          {kNameCategoryW, &name_category<wchar_t>}});
  attach(callbacks, kCore2,
         {{kDomainMarkEx, &mark_event<uint64_t, Event>},
          {kDomainRangeStartEx, &start_range<uint64_t, Event>},
          {kDomainRangeEnd, &end_range_in<>},
          {kDomainRangePushEx, &push_range<uint64_t, Event>},
          {kDomainRangePop, &pop_range_in<>},
          {kDomainNameCategoryA, &name_category_in<char>},
          {kDomainNameCategoryW, &name_category_in<wchar_t>},
          {kDomainRegisterStringA, &register_string<char>},
          {kDomainRegisterStringW, &register_string<wchar_t>},
          {kDomainCreateA, &create_domain<char>},
          {kDomainCreateW, &create_domain<wchar_t>}});
}

int attach_memory(const Segment& slots) {
  return attach(slots, {{kHeapRegister, &heap_register},
                        {kHeapUnregister, &note_heap<nvtx_heap_unregistered>},
                        {kHeapReset, &note_heap<nvtx_heap_reset>},
                        {kRegionsRegister, &regions_register},
                        {kRegionsResize, &regions_resize},
                        {kRegionsUnregister, &regions_unregister},
                        {kRegionsName, &regions_name}});
}

int attach_payload(const Segment& slots) {
  using Data = const PayloadData*;
  return attach(slots, {{kSchemaRegister, &schema_register},
                        {kMarkPayload, &mark_event<uint64_t, Data, size_t>},
                        {kRangePushPayload, &push_range<uint64_t, Data, size_t>},
                        {kRangePopPayload, &pop_range_in<Data, size_t>},
                        {kRangeStartPayload, &start_range<uint64_t, Data, size_t>},
                        {kRangeEndPayload, &end_range_in<Data, size_t>}});
}

// Clients in an attached program. Each module that was built with NVTX 3 asks once for a tool, and
// keeps the answer in its data. This is for clients that have asked already.

/// The begin of a client's data (nvtxGlobals_t of nvtxImpl.h, since NVTX 3.0). Behind it are the
/// places of the client's callbacks, then tables of pointers to these places.
struct Client {
  uint32_t state, padding;
  Callbacks callbacks;
  size_t version_bytes;
  uint32_t version, reserved;
  uintptr_t set_version;
};
constexpr uint32_t kHasAsked = 2, kVersion = 3;
constexpr size_t kVersionBytes = 24, kMostBytes = 4096;
constexpr unsigned kMostCallbacks = 64;

bool is_client(const dl_phdr_info& object, const Client& at) {
  return at.state == kHasAsked && at.padding == 0 && at.version == kVersion &&
         at.callbacks.struct_bytes == sizeof at.callbacks && at.version_bytes == kVersionBytes &&
         is_code_of(object, reinterpret_cast<uintptr_t>(at.callbacks.get_module_table)) &&
         is_code_of(object, at.set_version);
}

/// Calls `visit(place)` for the place of each callback of a module. False: it is no client after
/// all.
template <typename Visit>
bool for_each_callback(const Client& client, Module module, Visit visit) {
  FunctionTable table = nullptr;
  unsigned count = 0;
  if (client.callbacks.get_module_table(module, &table, &count) == 0 || count > kMostCallbacks)
    return false;
  const auto lies_in_it = [&client](const void* at) {
    return reinterpret_cast<uintptr_t>(at) - reinterpret_cast<uintptr_t>(&client) < kMostBytes;
  };
  if (!lies_in_it(table)) return false;
  for (unsigned i = 1; i < count; ++i) {
    if (table[i] == nullptr) continue;
    if (!lies_in_it(table[i])) return false;
    visit(table[i]);
  }
  return true;
}

/// Calls `visit(client)` for each client that has asked.
template <typename Visit>
void for_each_client(Visit visit) {
  for_each_object([&](const dl_phdr_info& object) {
    return for_each_part(object, PT_LOAD, [&](const ElfW(Phdr) & part, AddressRange memory) {
      if ((part.p_flags & PF_W) == 0) return false;
      uintptr_t at = (memory.begin + 7) & ~uintptr_t{7};
      for (; at + sizeof(Client) <= memory.begin + part.p_filesz; at += 8) {
        auto& client = *reinterpret_cast<Client*>(at);
        if (is_client(object, client)) visit(client);
      }
      return false;
    });
  });
}

bool has_tool(const Client& client) {
  bool has = false;
  const auto look = [&has](Function* place) { has |= *place != nullptr; };
  return !for_each_callback(client, kCore, look) || !for_each_callback(client, kCore2, look) || has;
}

/// Gives our tool to each client that asked and found none. Clients that have not asked yet do so
/// by getenv.
void take_over_clients() {
  for_each_client([](const Client& client) {
    if (!has_tool(client)) attach(client.callbacks);
  });
}

/// Clients that call us have no tool from here on.
void leave_late_clients() {
  if (!came_late()) return;
  const auto leave = [](Function* place) {
    Function ours = *place;
    if (is_own_code(reinterpret_cast<uintptr_t>(ours)))
      __atomic_compare_exchange_n(place, &ours, nullptr, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
  };
  for_each_client([&leave](const Client& client) {
    for_each_callback(client, kCore, leave);
    for_each_callback(client, kCore2, leave);
  });
}

/// NVTX asks by getenv which library to inject. We answer in getenv alone, so that the environment
/// of the program and of its children does not change. nullptr: another variable, or NVTX is left
/// alone.
const char* variable_for(const char* name) {
  constexpr std::string_view kVariable = "NVTX_INJECTION64_PATH";
  if (kVariable != name || !may_record() || !environment().nvtx) return nullptr;
  const char* own = module_path(reinterpret_cast<const void*>(&variable_for));
  return *own != 0 ? own : nullptr;
}

}  // namespace
}  // namespace nvtx

const Adapter kNvtxAdapter{.of = "NVTX's clients, which ask the environment for their tool",
                           .variable = nvtx::variable_for,
                           .put_back = nvtx::leave_late_clients,
                           .take_over_in_place = nvtx::take_over_clients};

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
  const nvtx::Segment& slots = extension->segments[0];
  if (extension->module == nvtx::kMemoryModule) return nvtx::attach_memory(slots);
  return extension->module == nvtx::kPayloadModule ? nvtx::attach_payload(slots) : 0;
}
