// What was read out of large libraries, kept by build-id below XDG_CACHE_HOME, so that the next
// report does not read them again. ModuleSymbols asks it.
#pragma once

#include <libelf.h>

#include <optional>
#include <string>
#include <string_view>

#include "collector/symbols/rtti_table.h"

namespace gpupeak::collector {

/// From the cache, else from the file, which is then kept. A cache that cannot be read or written,
/// that is damaged or another user's, is as if there were none. `worth_keeping`: bytes of a
/// library; a smaller one is read at once.
RttiTable cached_rtti(Elf* elf, std::string_view build_id, size_t worth_keeping = 8 << 20);

/// One table as bytes, and back: nullopt for bytes that are not such a table, whole and unchanged.
std::string pack_rtti(const RttiTable& table, std::string_view build_id);
std::optional<RttiTable> unpack_rtti(std::string_view bytes, std::string_view build_id);

}  // namespace gpupeak::collector
