// What was read out of large libraries, kept below XDG_CACHE_HOME, so that the next report does not
// read them again. ModuleSymbols asks it.
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

/// Which file it is: a build-id is only what a file says of itself.
std::string rtti_identity(const FileState& file, std::string_view build_id);

/// One library's table, read when it is first needed: from the cache, else from the file, which is
/// then kept. A cache that cannot be read or written, that is damaged or another user's, is as if
/// there were none. One thread at a time may ask.
class LibraryRtti {
 public:
  /// `elf` must outlive this. `identity`: as above; none: nothing is kept. `worth_keeping`: bytes
  /// of a library; a smaller one is not kept.
  LibraryRtti(Elf* elf, std::string identity, size_t worth_keeping = 8 << 20);
  ~LibraryRtti();

  const RttiTable& table();
  /// table(), or nullptr where it has nothing about the address for certain: no vtable leads there.
  /// To see that, a library's code need not be read.
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
  std::optional<RttiTable> at_most_;  ///< functions that may be in it; nullopt: not asked for yet
};

/// One table as bytes, and back: nullopt for bytes that are not such a table, whole and unchanged.
std::string pack_rtti(const RttiTable& table, std::string_view identity);
std::optional<RttiTable> unpack_rtti(std::string_view bytes, std::string_view identity);

}  // namespace gpupeak::collector
