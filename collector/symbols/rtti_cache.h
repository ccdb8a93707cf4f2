// Keeps the tables of classes that were read from large libraries, below XDG_CACHE_HOME, so that
// the next report does not read them again. ModuleSymbols uses it.
#pragma once

#include <libelf.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "collector/files/file_state.h"
#include "collector/symbols/rtti_table.h"

namespace gpupeak::collector {

/// Identifies a file: its state and its build-id, since a build-id alone is only what a file says
/// of itself.
std::string rtti_identity(const FileState& file, std::string_view build_id);

/// One library's table. When it is first needed, it is read from the cache, or else from the file
/// and then kept. A cache that cannot be read or written, is damaged or another user's, counts as
/// no cache. One thread at a time may call it.
class LibraryRtti {
 public:
  /// `elf` must outlive this. `identity`: from rtti_identity(); empty: nothing is kept.
  /// `worth_keeping`: the table of a library with fewer bytes is not kept.
  LibraryRtti(Elf* elf, std::string identity, size_t worth_keeping = 8 << 20);
  ~LibraryRtti();

  const RttiTable& table();
  /// table(), or nullptr if it certainly has nothing about the address, since no vtable leads
  /// there. That can be seen without reading the library's code.
  const RttiTable* table_for(uint64_t address);

 private:
  struct Image;
  std::string cache_path(const std::string& identity) const;
  std::optional<RttiTable> kept(const std::string& identity) const;
  void keep(const RttiTable& table, const std::string& identity) const;
  bool take_kept();
  bool vtable_may_lead_to(uint64_t address);
  Image& image();

  Elf* elf_;
  const std::string identity_;
  size_t worth_keeping_;
  bool looked_for_ = false;  // in the cache
  std::unique_ptr<Image> image_;
  std::optional<RttiTable> table_;
  std::optional<RttiTable> at_most_;  ///< functions that may be in the table; nullopt: not read yet
};

/// A table as bytes, and back. nullopt if the bytes are not such a table, whole and unchanged.
std::string pack_rtti(const RttiTable& table, std::string_view identity);
std::optional<RttiTable> unpack_rtti(std::string_view bytes, std::string_view identity);

}  // namespace gpupeak::collector
