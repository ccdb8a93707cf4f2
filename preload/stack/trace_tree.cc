#include "stack/trace_tree.h"

#include <sys/mman.h>

#include <cstring>
#include <initializer_list>

#include "base/memory.h"
#include "base/signals_held.h"
#include "base/syscalls.h"
#include "stack/trie.h"

namespace gpupeak::preload {

constinit const uint32_t TraceTree::kNoEntries[1] = {0};
constinit std::atomic<size_t> TraceTree::g_all_bytes{0};

namespace {

uintptr_t address_of(const StackWord& step) {
  return reinterpret_cast<uintptr_t>(step.at);
}

/// `bytes` of memory, in place of `arena`, that begin with the arena's contents. A tree of large
/// pages is read here and there: with small pages each read is a walk of the page table, too.
void* moved_arena(void* arena, size_t before, size_t bytes) {
  if (before == 0) return reserve_pages(bytes);
  if (bytes % kLargePageBytes != 0) {
    void* const at = sys::mremap(arena, before, bytes, MREMAP_MAYMOVE);
    if (sys::mmap_failed(at)) return nullptr;
    forget_own(arena, before);
    note_own(at, bytes);
    return at;
  }
  void* at = reserve_large_pages(bytes);
  if (at == nullptr) return nullptr;
  memcpy(at, arena, before);
  unmap_pages(arena, before);
  return at;
}

}  // namespace

/// Maps `bytes` in place of the arena, if this thread and all threads together may have that many.
bool TraceTree::grow(size_t bytes) {
  const size_t before = capacity_ * sizeof(uint64_t);
  if (before == 0 && addresses_are_limited()) most_bytes_ = kMostWithFewAddresses;
  if (bytes > most_bytes_) return false;
  const size_t more = bytes - before;
  void* at = nullptr;
  if (g_all_bytes.fetch_add(more, std::memory_order_relaxed) + more <= kMostOfAll)
    at = moved_arena(arena_, before, bytes);
  if (at == nullptr) {
    g_all_bytes.fetch_sub(more, std::memory_order_relaxed);
    most_bytes_ = before;  // so that it is not tried again at each stack
    return false;
  }
  if (mask_ > 0) table_ = static_cast<uint32_t*>(at) + (table_ - entries_at(0));
  arena_ = static_cast<uint64_t*>(at);
  capacity_ = static_cast<uint32_t>(bytes / sizeof(uint64_t));
  return true;
}

/// Makes a table of that many entries, behind the arena's contents.
bool TraceTree::make_table(uint32_t entries) {
  const uint32_t words = entries * sizeof(uint32_t) / sizeof(uint64_t);
  if (!has_words(words)) return false;
  uint32_t* table = entries_at(used_);
  for (uint32_t i = 0; i < entries; ++i) table[i] = 0;
  const uint32_t mask = entries - 1;
  for (uint32_t i = 0; i <= mask_; ++i) {
    if (table_[i] != 0) enter(table, mask, record_at(table_[i]));
  }
  used_ += words;
  table_ = table;
  mask_ = mask;
  return true;
}

void TraceTree::enter(uint32_t* table, uint32_t mask, const Record* record) const {
  uint32_t i = hash(record->key);
  while (table[i & mask] != 0) ++i;
  table[i & mask] = offset_of(record);
}

bool TraceTree::has_words(size_t words) {
  while (used_ + words > capacity_) {
    if (!grow(capacity_ == 0 ? kFirstBytes : capacity_ * sizeof(uint64_t) * 2)) return false;
  }
  return true;
}

/// Whether the stack's record and its tails can be kept.
bool TraceTree::has_room(const StackSteps& stack) {
  const uint32_t records = stack.tail_count + 1;
  const size_t words = records * (kHeadWords + 2) + stack.count * kMostWordsOfStep;
  const uint32_t wanted = (records_ + records) * kSparseness;
  if (used_ + words <= capacity_ && wanted <= mask_) return true;
  if (is_full_) return false;
  const SignalsHeld held;
  uint32_t entries = mask_ > 0 ? mask_ + 1 : kFirstEntries;
  while (entries <= wanted) entries *= 2;
  is_full_ = (entries > mask_ + 1 && !make_table(entries)) || !has_words(words);
  return !is_full_;
}

void TraceTree::forget() {
  if (mask_ == 0) return;
  const SignalsHeld held;
  table_ = kNoEntries;
  mask_ = records_ = used_ = refused_ = last_found_ = 0;
  ++number_;
  is_full_ = false;
}

void TraceTree::begin_thread() {
  const size_t bytes = capacity_ * sizeof(uint64_t);
  if (bytes <= kMostOfEnded) return;
  const SignalsHeld held;
  forget();
  capacity_ = 0;
  unmap_pages(arena_, bytes);
  g_all_bytes.fetch_sub(bytes, std::memory_order_relaxed);
}

/// Writes what comes after the key: steps[begin … end), then kEnd or the tail. Returns the end.
uint64_t* TraceTree::put(Record* record, const StackSteps& stack, uint32_t begin, uint32_t end,
                         uint32_t tail) {
  uintptr_t base = UINTPTR_MAX;
  for (uint32_t i = begin; i < end; ++i) {
    const uintptr_t place = address_of(stack.steps[i]);
    if (place != 0 && place < base) base = place;
  }
  const auto number_of = [base](const StackWord& step) {
    const uintptr_t bytes = address_of(step) - base;
    const bool fits = step.at != nullptr && bytes % sizeof(uintptr_t) == 0 &&
                      bytes / sizeof(uintptr_t) <= UINT16_MAX && (step.value & kMark) == 0;
    return fits ? static_cast<int32_t>(bytes / sizeof(uintptr_t)) : -1;
  };
  record->base = base;
  record->count = 1;
  for (uint32_t i = begin; i < end; ++i)
    record->count = static_cast<uint16_t>(record->count + (number_of(stack.steps[i]) < 0 ? 3 : 1));
  uint64_t* word = record->words;
  uint64_t* const body_end = word + record->count + (record->count + 3) / 4;
  body_end[-1] = 0;  // since all words are compared
  auto* place = const_cast<uint16_t*>(record->places());
  uint16_t last = 0;
  for (uint32_t i = begin; i < end; ++i) {
    const StackWord& step = stack.steps[i];
    const int32_t number = number_of(step);
    if (number >= 0) {
      *word++ = step.value;
      *place++ = last = static_cast<uint16_t>(number);
    } else {
      for (const uint64_t part : {kWide, uint64_t{address_of(step)}, uint64_t{step.value}}) {
        *word++ = part;
        *place++ = last;
      }
    }
  }
  *word = tail != 0 ? kTail | tail : kEnd;
  *place = last;
  return body_end;
}

/// Takes room at the arena's end before that is written: a signal handler that interrupts takes
/// other room.
TraceTree::Record* TraceTree::claim(uint32_t steps) {
  auto* record = reinterpret_cast<Record*>(arena_ + used_);
  used_ += kHeadWords + 2 + steps * kMostWordsOfStep;
  in_order();
  return record;
}

/// Gives back what `record`, the last one claimed, does not need, and makes it visible to
/// look_up().
void TraceTree::publish(Record* record, const uint64_t* end) {
  used_ = offset_of(end);
  ++records_;
  in_order();
  enter(const_cast<uint32_t*>(table_), mask_, record);
}

/// The record of a tail, which goes on with the next outer one's.
uint32_t TraceTree::put_tail(const StackSteps& stack, uint32_t number, uint32_t outer) {
  const uint32_t begin = stack.tails[number].begin;
  const uint32_t end = number > 0 ? stack.tails[number - 1].begin : stack.count;
  Record* record = claim(end - begin);
  const uint64_t* record_end = put(record, stack, begin, end, outer);
  const auto size = static_cast<size_t>(record_end - record->words);
  uint64_t content = path_hash(record->base, record->count);
  for (size_t i = 0; i < size; ++i) content = path_hash(content, record->words[i]);
  record->key = {content, kIsTail};
  for (uint32_t i = hash(record->key); table_[i & mask_] != 0; ++i) {
    const Record* other = record_at(table_[i & mask_]);
    if (other->key.a != content || other->key.b != kIsTail || other->base != record->base ||
        other->count != record->count) {
      continue;
    }
    size_t same = 0;
    while (same < size && other->words[same] == record->words[same]) ++same;
    if (same < size) continue;
    used_ = offset_of(record);
    return offset_of(other);
  }
  publish(record, record_end);
  return offset_of(record);
}

GPUPEAK_HOT uint32_t TraceTree::find_expected(const CallerFrame& caller) {
  if (__builtin_expect(last_found_ == 0, 0)) return leave_expected({caller.ip, caller.sp}, 0);
  const Way& expected = record_at(last_found_)->next;
  const Record* record = record_at(expected.records[0]);
  if (!record->is({caller.ip, caller.sp}) || expected.records[0] == 0)
    return leave_expected({caller.ip, caller.sp}, 0);
  for (uint32_t hop = 0;;) {
    if (__builtin_expect(record->lines > 0, 0)) fetch(record);
    uintptr_t there = 0;
    const uint64_t* word = first_difference(record, caller.fp, there, [](const uintptr_t*) {});
    const uint32_t next = ++hop < kHops ? expected.records[hop] : 0;
    if (*word == kEnd) {
      if (__builtin_expect(next != 0, 0)) return leave_expected(record->key, hop - 1);
      last_found_ = offset_of(record);
      fetch_expected(record);
      return record->node;
    }
    const Key key = branch(record, word, there);
    record = record_at(next);
    if (next == 0 || !record->is(key)) return leave_expected(key, hop);
  }
}

/// find_otherwise() goes on from there.
GPUPEAK_HOT uint32_t TraceTree::leave_expected(Key key, uint32_t hop) {
  sought_ = key;
  sought_hop_ = hop;
  return 0;
}

GPUPEAK_HOT uint32_t TraceTree::find_otherwise(const CallerFrame& caller) {
  auto* before = last_found_ != 0 ? const_cast<Record*>(record_at(last_found_)) : nullptr;
  Way way{};
  for (uint32_t i = 0; i < sought_hop_; ++i) way.records[i] = before->next.records[i];
  Key key = sought_;
  for (uint32_t hop = sought_hop_;; ++hop) {
    const Record* record = look_up(key);
    if (record == nullptr) return 0;
    if (hop < kHops) way.records[hop] = offset_of(record);
    if (record->lines > 0) fetch(record);
    uintptr_t there = 0;
    const uint64_t* word = first_difference(record, caller.fp, there, [](const uintptr_t*) {});
    if (*word == kEnd) {
      if (before != nullptr) before->next = way;
      last_found_ = offset_of(record);
      fetch_expected(record);
      return record->node;
    }
    key = branch(record, word, there);
  }
}

void TraceTree::learn(const CallerFrame& caller, StackSteps& stack, uint32_t node) {
  Key key{caller.ip, caller.sp};
  uint32_t passed = 0;
  while (const Record* record = look_up(key)) {
    bool alike = true;
    uintptr_t there = 0;
    const uint64_t* word = first_difference(
        record, caller.fp, there, [&alike, &passed, &stack](const uintptr_t* place) {
          alike = alike && passed < stack.count && place == stack.steps[passed].at;
          ++passed;
        });
    // It is known already; or a walk's result did not follow from the words before.
    if (*word == kEnd || !alike || there != stack.steps[passed - 1].value) return;
    key = branch(record, word, there);
  }
  if (!has_room(stack)) {
    if (++refused_ > records_) forget();
    return;
  }
  const uint32_t before = used_;
  if (stack.tree_number != number_) {
    for (StackSteps::Tail& tail : stack.tails) tail.record = 0;
    stack.tree_number = number_;
  }
  uint32_t end = stack.count, outer = 0;
  for (uint32_t i = 0; i < stack.tail_count && stack.tails[i].begin >= passed; ++i) {
    StackSteps::Tail& tail = stack.tails[i];
    if (tail.record == 0) tail.record = put_tail(stack, i, outer);
    outer = tail.record;
    end = tail.begin;
  }
  Record* record = claim(end - passed);
  record->key = key;
  record->node = node;
  record->next = {};
  const uint64_t* record_end = put(record, stack, passed, end, outer);
  const size_t lines = (offset_of(record_end) - before) * sizeof(uint64_t) / kLine;
  record->lines = static_cast<uint16_t>(lines > kFewLines ? lines : 0);
  publish(record, record_end);
}

}  // namespace gpupeak::preload
