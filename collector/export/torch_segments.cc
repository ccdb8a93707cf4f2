#include "collector/export/torch_segments.h"

#include <algorithm>
#include <iterator>

namespace gpupeak::collector {
namespace {

/// Blocks without an address get one from here on. JavaScript's numbers hold such an address
/// exactly.
constexpr uint64_t kNoAddress = UINT64_C(1) << 48;
constexpr unsigned kNoAddressShift = 24;

}  // namespace

uint64_t TorchSegment::active_bytes() const {
  uint64_t sum = 0;
  for (const Block& block : blocks) sum += block.active ? block.bytes : 0;
  return sum;
}

uint64_t TorchSegments::free_address(uint64_t wanted, uint64_t id) const {
  return wanted != 0 && !pieces_.contains(wanted) ? wanted : kNoAddress + (id << kNoAddressShift);
}

void TorchSegments::add(uint64_t address, const Piece& piece, std::string_view action) {
  pieces_[address] = piece;
  places_[piece.id] = address;
  on_event({action, address, piece.bytes, piece.stack});
  if (!piece.shared) on_event({"alloc", address, piece.bytes, piece.stack});
}

TorchSegments::Pieces::iterator TorchSegments::remove(Pieces::iterator found) {
  const auto [address, piece] = *found;
  if (!piece.shared) {
    on_event({"free_requested", address, piece.bytes, piece.stack});
    on_event({"free_completed", address, piece.bytes, piece.stack});
  }
  // Blocks of an arena that lie in the piece end with it.
  auto block = piece.shared ? blocks_.lower_bound(address) : blocks_.end();
  while (block != blocks_.end() && block->first < address + piece.bytes) block = take(block);
  on_event({piece.mapped ? "segment_unmap" : "segment_free", address, piece.bytes, piece.stack});
  places_.erase(piece.id);
  return pieces_.erase(found);
}

TorchSegments::Blocks::iterator TorchSegments::take(Blocks::iterator found) {
  const auto& [address, block] = *found;
  on_event({"free_requested", address, block.bytes, block.stack});
  on_event({"free_completed", address, block.bytes, block.stack});
  return blocks_.erase(found);
}

void TorchSegments::allocated(const DeviceBlock& block) {
  const DeviceAllocEvent& alloc = block.alloc;
  const bool shared = shared_out_.contains(alloc.id);
  if (shared && alloc.kind == GPUPEAK_KIND_VMM) {
    unmapped_[alloc.id] = {alloc.bytes, alloc.stack};
    return;
  }
  add(free_address(alloc.address, alloc.id), {alloc.id, alloc.bytes, alloc.stack, shared, false},
      "segment_alloc");
}

void TorchSegments::freed(const DeviceBlock& block) {
  unmapped_.erase(block.alloc.id);
  const auto place = places_.find(block.alloc.id);
  if (place != places_.end()) remove(pieces_.find(place->second));
}

void TorchSegments::mapped(const DeviceMappedEvent& mapped) {
  const auto created = unmapped_.find(mapped.id);
  if (created == unmapped_.end() || pieces_.contains(mapped.address)) return;
  const auto [bytes, stack] = created->second;
  unmapped_.erase(created);
  add(mapped.address, {mapped.id, bytes, stack, true, true}, "segment_map");
}

void TorchSegments::unmapped(const DeviceUnmappedEvent& unmapped) {
  auto piece = pieces_.lower_bound(unmapped.address);
  while (piece != pieces_.end() && piece->first < unmapped.address + unmapped.bytes) {
    if (!piece->second.mapped) {
      ++piece;
      continue;
    }
    unmapped_[piece->second.id] = {piece->second.bytes, piece->second.stack};
    piece = remove(piece);
  }
}

TorchSegments::Pieces::const_iterator TorchSegments::around(uint64_t address) const {
  auto piece = pieces_.upper_bound(address);
  if (piece == pieces_.begin()) return pieces_.end();
  --piece;
  const bool inside = address - piece->first < piece->second.bytes;
  return inside && piece->second.shared ? piece : pieces_.end();
}

void TorchSegments::given(const ArenaAllocEvent& given, uint32_t stack) {
  const auto piece = around(given.address);
  if (piece == pieces_.end()) return;
  if (const auto known = blocks_.find(given.address); known != blocks_.end()) take(known);
  // A damaged log has blocks that do not fit into the piece: they are left out.
  const auto next = blocks_.upper_bound(given.address);
  const bool overlaps = (next != blocks_.end() && next->first < given.address + given.bytes) ||
                        (next != blocks_.begin() &&
                         std::prev(next)->first + std::prev(next)->second.bytes > given.address);
  const bool leaves =
      !piece->second.mapped && given.address + given.bytes > piece->first + piece->second.bytes;
  if (overlaps || leaves || given.bytes == 0) return;
  blocks_[given.address] = {given.arena, given.bytes, stack};
  on_event({"alloc", given.address, given.bytes, stack});
}

void TorchSegments::taken(const ArenaFreeEvent& taken) {
  const auto block = blocks_.find(taken.address);
  if (block != blocks_.end() && block->second.arena == taken.arena) take(block);
}

void TorchSegments::emptied(uint64_t arena) {
  for (auto block = blocks_.begin(); block != blocks_.end();) {
    block = block->second.arena == arena ? take(block) : std::next(block);
  }
}

void TorchSegments::refused(const ArenaFailedEvent& refused, uint32_t stack) {
  on_event({"oom", refused.free.value_or(0), refused.bytes, stack});
}

std::vector<TorchSegment> TorchSegments::segments() const {
  std::vector<TorchSegment> all;
  for (const auto& [address, piece] : pieces_) {
    const bool goes_on = piece.mapped && !all.empty() && all.back().expandable &&
                         all.back().address + all.back().bytes == address;
    if (goes_on) {
      all.back().bytes += piece.bytes;
    } else {
      all.push_back({address, piece.bytes, piece.stack, piece.mapped, {}});
      if (!piece.shared) all.back().blocks.push_back({address, piece.bytes, piece.stack, true});
    }
  }
  for (const auto& [id, created] : unmapped_) {
    all.push_back({free_address(0, id), created.bytes, created.stack, true, {}});
  }
  for (TorchSegment& segment : all) {
    if (!segment.blocks.empty()) continue;
    const uint64_t end = segment.address + segment.bytes;
    uint64_t at = segment.address;
    const auto idle_until = [&](uint64_t until) {
      if (until > at) segment.blocks.push_back({at, until - at, 0, false});
      at = std::max(at, until);
    };
    for (auto block = blocks_.lower_bound(segment.address);
         block != blocks_.end() && block->first < end; ++block) {
      idle_until(block->first);
      const uint64_t bytes = std::min(block->second.bytes, end - block->first);
      segment.blocks.push_back({block->first, bytes, block->second.stack, true});
      at = block->first + bytes;
    }
    idle_until(end);
  }
  return all;
}

}  // namespace gpupeak::collector
