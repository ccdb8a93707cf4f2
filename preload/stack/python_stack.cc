#include "stack/python_stack.h"

#include <cstring>

#include "base/text.h"
#include "log/log.h"

namespace gpupeak::preload {
namespace {

constexpr uint32_t kPrefetched = 112;  // in the middle of what is read of a code object
constexpr uint32_t kMaxSteps = 4 * PythonStack::kMaxFrames;  // counts frames that are not kept, too
constexpr uint8_t kOwnedByGenerator = 1;
constexpr uint64_t kStringSubclass = 1 << 28;  // in a type's flags
/// Of the beginning of a line table: no more is kept as evidence, so the rest would be searched
/// again at each call, for a millisecond. One code object of a hundred thousand has more.
constexpr uint64_t kLineTableRead = 128 << 10;

template <typename T>
T at(const uint8_t* structure, size_t offset) {
  return value_at<T>(structure + offset);
}

template <typename T>
T word_at(uintptr_t address) {
  return value_at<T>(reinterpret_cast<const void*>(address));
}

constexpr uintptr_t kCodeMask = ~uintptr_t{7};  // since 3.14 references are tagged

}  // namespace

void PythonStack::read(PythonRuntime& python, bool evaluates, bool verify) {
  was_in_place_ = read_in_place(python, evaluates);
  if (!was_in_place_) {
    read_copies(python, evaluates);
  } else if (verify) {
    verify_with_copies(python, evaluates);
  }
}

bool PythonStack::read_in_place(PythonRuntime& python, bool evaluates) {
  last_state_ = python.thread_state();
  if (!python.stands(last_state_)) return false;
  if (known_python_ != &python) {
    sites_.forget();
    known_python_ = &python;
  }
  sites_.begin();
  in_place_ = true;
  session_ = false;
  count_ = 0;
  last_python_ = nullptr;
  const bool read = read_frames(python) && (count_ > 0 || !evaluates);
  in_place_ = false;
  return read;
}

void PythonStack::read_copies(PythonRuntime& python, bool evaluates) {
  in_place_ = false;
  session_ = true;
  const bool unchanged = memory_.begin();
  if (unchanged && last_python_ == &python && last_state_ == python.thread_state()) return;
  count_ = 0;
  last_python_ = nullptr;
  if (!python.is_usable(memory_)) return;
  const bool read = read_frames(python) && (count_ > 0 || !evaluates);
  if (!read) count_ = 0;
  if (!read || count_ > 0) python.note_stack(read);
  if (read && count_ > 0) last_python_ = &python;
}

void PythonStack::verify_with_copies(PythonRuntime& python, bool evaluates) {
  const uint32_t in_place = count_;
  memcpy(verified_, frames_, in_place * sizeof frames_[0]);
  read_copies(python, evaluates);
  bool same = in_place == count_;
  for (uint32_t i = 0; same && i < count_; ++i)
    same = verified_[i].number == frames_[i].number && verified_[i].anchor == frames_[i].anchor;
  count(same ? &gpupeak_counters_page::verified_stacks : &gpupeak_counters_page::wrong_stacks);
}

PythonStack::Signature PythonStack::signature_of(const Frame& frame, uint32_t depth) {
  const uint64_t content = frame.anchor ^ uint64_t { frame.number } << 36 ^ frame.number;
  const uint64_t mixed =
      (content ^ (depth + 1) * UINT64_C(0xff51afd7ed558ccd)) * 0x9e3779b97f4a7c15u;
  return {mixed ^ mixed >> 32, (mixed ^ mixed >> 29) * 0xc4ceb9fe1a85ec53};
}

const uint8_t* PythonStack::read_in_pages(uintptr_t address, uintptr_t last) {
  if (!is_known_page(address) || !is_known_page(last)) {
    if (read_copy(address, last - address + 1) == nullptr) return nullptr;
    if (!is_known_page(address)) know_page(address);
    if (!is_known_page(last)) know_page(last);
  }
  other_page_ = page_;
  page_ = number_of_page(last);
  return reinterpret_cast<const uint8_t*>(address);
}

const uint8_t* PythonStack::read_copy(uintptr_t address, size_t bytes) {
  if (!session_) {
    memory_.begin_anew();
    session_ = true;
  }
  return memory_.read(address, bytes);
}

const uint8_t* PythonStack::read_object(uintptr_t object, size_t bytes) {
  const uint8_t* copy = read_copy(object + kPythonObjectType, bytes - kPythonObjectType);
  return copy != nullptr ? copy - kPythonObjectType : nullptr;
}

bool PythonStack::read_frames(const PythonRuntime& python) {
  uintptr_t states[kMaxStates];
  const uint32_t count = find_states(python, states);
  // Without anchors we cannot tell which interpreter called the other.
  if (count > 1 && python.layout().frames == PythonFrames::kObjects) return false;
  for (uint32_t i = 0; i < count; ++i) {
    if (!read_state(python, states[i])) return false;
  }
  if (count > 1) sort_by_anchor();
  return number_frames(python);
}

/// The thread's states: one in each interpreter that it has called. Nearly always there is but one
/// interpreter, and nothing to look for. Other threads may change the lists meanwhile; what cannot
/// be read because of that is left out.
uint32_t PythonStack::find_states(const PythonRuntime& python, uintptr_t (&states)[kMaxStates]) {
  const PythonLayout& layout = python.layout();
  if (!in_place_) last_state_ = python.thread_state();
  states[0] = last_state_;
  if (states[0] == 0) return 0;
  uint32_t count = 1;
  if (in_place_) return count;  // there is but one interpreter
  uintptr_t interpreter = 0, second = 0;
  const bool several = load(python.address() + layout.runtime_interpreters, interpreter) &&
                       load(interpreter + layout.interpreter.next, second) && second != 0;
  if (!several) return count;
  uint32_t steps = 0;
  while (interpreter != 0 && steps < kMaxSteps) {
    uintptr_t state = 0;
    if (!load(interpreter + layout.interpreter.threads, state)) break;
    while (state != 0 && ++steps < kMaxSteps) {
      uint64_t id;
      if (!load(state + layout.thread.thread_id, id)) break;
      if (id == arch::thread_id() && state != states[0] && count < kMaxStates)
        states[count++] = state;
      if (!load(state + layout.thread.next, state)) break;
    }
    if (!load(interpreter + layout.interpreter.next, interpreter)) break;
    ++steps;
  }
  return count;
}

/// Interpreters call each other: their frames interleave, as their calls do on the C stack.
void PythonStack::sort_by_anchor() {
  for (uint32_t i = 1; i < count_; ++i) {
    const Frame frame = frames_[i];
    uint32_t to = i;
    for (; to > 0 && frames_[to - 1].anchor > frame.anchor; --to) frames_[to] = frames_[to - 1];
    frames_[to] = frame;
  }
}

bool PythonStack::read_state(const PythonRuntime& python, uintptr_t state) {
  const PythonLayout& layout = python.layout();
  const auto& offsets = layout.thread;
  uint64_t id;
  uintptr_t frame;  // or the CFrame that leads to it
  if (!load(state + offsets.thread_id, id) || id != arch::thread_id() ||
      !load(state + offsets.frame, frame)) {
    return false;
  }
  switch (layout.frames) {
    case PythonFrames::kObjects:
    case PythonFrames::kObjectsByCFrame:
      return read_objects(python, state, frame);
    case PythonFrames::kEntryFlag:
      return read_flagged(python, frame);
    case PythonFrames::kEntryFrame:
      return load(frame + layout.cframe.current_frame, frame) && read_chain(python, frame);
    case PythonFrames::kEntryFrameDirect:
      return read_chain(python, frame);
  }
  return false;
}

/// 3.9, 3.10: each frame object is one call of the evaluation function.
bool PythonStack::read_objects(const PythonRuntime& python, uintptr_t state, uintptr_t frame) {
  const PythonLayout& layout = python.layout();
  const bool by_cframe = layout.frames == PythonFrames::kObjectsByCFrame;
  uintptr_t cframe = 0;
  if (by_cframe && !load(state + layout.thread.cframe, cframe)) return false;
  while (frame != 0 && count_ < kMaxFrames) {
    const uint8_t* copy = read(frame + kPythonObjectType,
                               layout.frame.instruction + sizeof(int32_t) - kPythonObjectType);
    if (copy != nullptr) copy -= kPythonObjectType;
    if (copy == nullptr || at<uintptr_t>(copy, kPythonObjectType) != python.frame_type())
      return false;
    const auto instruction = at<int32_t>(copy, layout.frame.instruction);
    const uint64_t offset =
        instruction < 0 ? 0 : static_cast<uint64_t>(instruction) * (by_cframe ? 2 : 1);
    add(at<uintptr_t>(copy, layout.frame.code), offset, false, cframe);
    frame = at<uintptr_t>(copy, layout.frame.previous);
    if (by_cframe && !load(cframe + layout.cframe.previous, cframe)) return false;
  }
  if (frame != 0) count(&gpupeak_counters_page::truncated_stacks);
  return true;
}

/// 3.11: the frames of one call end with a marked one, and the calls' CFrames lie on the C stack.
bool PythonStack::read_flagged(const PythonRuntime& python, uintptr_t cframe) {
  const PythonLayout& layout = python.layout();
  uintptr_t frame;
  if (!load(cframe + layout.cframe.current_frame, frame)) return false;
  while (frame != 0 && count_ < kMaxFrames) {
    const uint8_t* copy = read(frame, layout.frame.owner + size_t{1});
    if (copy == nullptr) return false;
    const bool is_generator = copy[layout.frame.owner] == kOwnedByGenerator;
    add(at<uintptr_t>(copy, layout.frame.code), at<uintptr_t>(copy, layout.frame.instruction),
        !is_generator, cframe);
    frame = at<uintptr_t>(copy, layout.frame.previous);
    if (copy[layout.frame.is_entry] != 0 && !load(cframe + layout.cframe.previous, cframe))
      return false;
  }
  if (frame != 0) count(&gpupeak_counters_page::truncated_stacks);
  return true;
}

/// Since 3.12: below the frames of one call lies an entry frame, on the C stack.
bool PythonStack::read_chain(const PythonRuntime& python, uintptr_t frame) {
  const PythonLayout& layout = python.layout();
  uint32_t anchored = count_, steps = 0;
  bool truncated = false;
  for (; frame != 0 && steps < kMaxSteps && (count_ < kMaxFrames || anchored < count_); ++steps) {
    const uint8_t* copy = read(frame, layout.frame.owner + size_t{1});
    if (copy == nullptr) return false;
    const uint8_t owner = copy[layout.frame.owner];
    if (owner >= kFirstOwnerWithoutCode) {
      for (; anchored < count_; ++anchored) frames_[anchored].anchor = frame;
    } else if (count_ == kMaxFrames) {
      truncated = true;
    } else {
      add(at<uintptr_t>(copy, layout.frame.code) & ~uintptr_t{7},
          at<uintptr_t>(copy, layout.frame.instruction), owner != kOwnedByGenerator, kFarAnchor);
    }
    frame = at<uintptr_t>(copy, layout.frame.previous);
  }
  if (truncated || frame != 0) {
    count(&gpupeak_counters_page::truncated_stacks);
    return true;
  }
  return anchored == count_;
}

void PythonStack::add(uintptr_t code, uint64_t instruction, bool may_be_incomplete,
                      uintptr_t anchor) {
  // It is soon compared.
  if (in_place_) arch::prefetch(reinterpret_cast<const char*>(code) + kPrefetched);
  frames_[count_++] = {code, instruction, anchor, 0, may_be_incomplete};
}

/// From the outermost frame on, since outer frames are mostly those of the last stack.
bool PythonStack::number_frames(const PythonRuntime& python) {
  Signature sum;
  for (uint32_t depth = 0; depth < count_; ++depth) {
    Frame& frame = frames_[count_ - 1 - depth];
    if (!in_place_) {
      PythonSites::Known known;
      if (!read_number(python, frame, known)) return false;
      sum.add(signature_of(frame, depth));
      continue;
    }
    LastFrame& last = last_[depth];
    if (last.is(frame) && sites_.stands(last.known)) {
      frame.number = last.number;
    } else {
      last.known = {};  // until it is whole again: a signal handler may leave by a jump
      in_order();
      PythonSites::Known known{};
      if (!find_number(python, frame, known)) return false;
      last.code = frame.code;
      last.instruction = frame.instruction;
      last.anchor = frame.anchor;
      last.number = frame.number;
      last.signature = signature_of(frame, depth);
      in_order();
      last.known = known;
    }
    sum.add(last.signature);
  }
  signature_ = sum;
  return true;
}

bool PythonStack::find_number(const PythonRuntime& python, Frame& frame,
                              PythonSites::Known& known) {
  const PythonSites::Site* const site = sites_.find(frame.code, frame.instruction);
  if (site == nullptr) return read_number(python, frame, known);
  frame.number = site->number;
  known = site->known;
  return true;
}

bool PythonStack::read_number(const PythonRuntime& python, Frame& frame,
                              PythonSites::Known& known) {
  const uintptr_t code = frame.code;
  uint64_t instruction = frame.instruction;
  const PythonLayout& layout = python.layout();
  const auto& offsets = layout.code;
  const bool is_inline = offsets.first_traceable != 0;
  const size_t bytes =
      is_inline ? offsets.instructions : size_t{offsets.line_table} + sizeof(uintptr_t);
  const uint8_t* copy = read_object(code, bytes);
  if (copy == nullptr || at<uintptr_t>(copy, kPythonObjectType) != python.code_type()) return false;
  evidence_.begin();
  evidence_.add(code, copy, kPythonObjectType, sizeof(uintptr_t));
  // If no other code object has ever had this version, its strings and its table are those that it
  // was made with.
  const bool is_unique = offsets.version != 0 && at<uint32_t>(copy, offsets.version) != 0;
  const size_t begin = is_unique ? offsets.version : offsets.filename;
  evidence_.add(code, copy, begin, offsets.line_table + sizeof(uintptr_t) - begin);
  if (is_unique) evidence_.suffices();
  evidence_.add(code, copy, offsets.first_line, sizeof(int32_t));
  if (is_inline) evidence_.add(code, copy, offsets.first_traceable, sizeof(int32_t));
  if (is_inline) {
    // An interpreter's pointer to an instruction that has not begun may lie before the first one.
    const auto offset = static_cast<int64_t>(instruction - (code + offsets.instructions));
    if (offset < -2 || offset > INT32_MAX) return false;
    const int64_t first = int64_t{at<int32_t>(copy, offsets.first_traceable)} * 2;
    if (frame.may_be_incomplete && offset < first) return true;  // as tracebacks do
    if (offset < first) evidence_.give_up();  // an incomplete frame is not shown here
    instruction = offset < 0 ? 0 : static_cast<uint64_t>(offset);
  }
  std::string_view function, file;
  uint32_t line;
  const bool read =
      instruction <= INT32_MAX &&
      read_text(python, at<uintptr_t>(copy, offsets.name), function_, function) &&
      read_text(python, at<uintptr_t>(copy, offsets.filename), file_, file) &&
      read_line(python, at<uintptr_t>(copy, offsets.line_table),
                at<int32_t>(copy, offsets.first_line), static_cast<uint32_t>(instruction), line);
  if (!read) return false;
  frame.number = python_frame(function, file, line);
  if (in_place_) known = sites_.learn(code, frame.instruction, frame.number, evidence_);
  return true;
}

/// A str as UTF-8, cut where it is longer than a string of the log can be. The text lies in the
/// copied memory or in `buffer`.
bool PythonStack::read_text(const PythonRuntime& python, uintptr_t object, char* buffer,
                            std::string_view& text) {
  constexpr size_t kCapacity = sizeof function_;
  const PythonLayout& layout = python.layout();
  const uint8_t* copy = read_object(object, kPythonStringState + sizeof(uint32_t));
  if (copy == nullptr) return false;
  const auto type = at<uintptr_t>(copy, kPythonObjectType);
  if (type != python.string_type()) {
    const uint8_t* flags = read_copy(type + kPythonTypeFlags, sizeof(uint64_t));
    if (flags == nullptr || (at<uint64_t>(flags, 0) & kStringSubclass) == 0) return false;
    evidence_.give_up();
  }
  const auto length = at<uint64_t>(copy, kPythonStringLength);
  const auto state = at<uint32_t>(copy, kPythonStringState);
  const uint32_t kind = state >> 2 & 7;
  const bool is_compact = (state & 32) != 0;
  const bool is_ascii = (state & 64) != 0;
  if (kind != 1 && kind != 2 && kind != 4) return false;
  uintptr_t data = object + (is_ascii ? layout.ascii_bytes : layout.compact_bytes);
  evidence_.add(object, copy, kPythonObjectType, 2 * sizeof(uint64_t));  // and the length
  evidence_.add(object, copy, kPythonStringState, sizeof(uint32_t));
  if (!is_compact) {
    const uint8_t* pointer = read_copy(object + layout.compact_bytes, sizeof data);
    if (pointer == nullptr) return false;
    data = at<uintptr_t>(pointer, 0);
    evidence_.give_up();
  }
  const size_t characters = length < kCapacity ? length : kCapacity;
  if (characters == 0) {
    text = {};
    return true;
  }
  const uint8_t* from = read_copy(data, characters * kind);
  if (from == nullptr) return false;
  evidence_.add_copied(object, data, from, characters * kind);
  if (is_ascii) {
    text = {reinterpret_cast<const char*>(from), characters};
    return true;
  }
  size_t used = 0;
  for (size_t i = 0; i < characters; ++i) {
    const uint32_t c = kind == 1   ? from[i]
                       : kind == 2 ? at<uint16_t>(from, 2 * i)
                                   : at<uint32_t>(from, 4 * i);
    if (!put_utf8(buffer, kCapacity, used, c)) break;
  }
  text = {buffer, used};
  return true;
}

bool PythonStack::read_line(const PythonRuntime& python, uintptr_t table, int first_line,
                            uint32_t offset, uint32_t& line) {
  const uint8_t* head = read_object(table, kPythonBytesSize + sizeof(uint64_t));
  if (head == nullptr || at<uintptr_t>(head, kPythonObjectType) != python.bytes_type())
    return false;
  const auto size = at<uint64_t>(head, kPythonBytesSize);
  evidence_.add(table, head, kPythonObjectType, 2 * sizeof(uint64_t));  // and the size
  line = 0;
  // Mostly the first bytes are enough.
  for (uint64_t limit = 256; size > 0; limit *= 8) {
    const bool is_whole = limit >= size;
    const size_t bytes = is_whole ? size : limit;
    const uint8_t* copy = read_copy(table + kPythonBytesData, bytes);
    if (copy == nullptr) {
      evidence_.give_up();
      return bytes > 4096;  // perhaps for want of room
    }
    size_t used;
    const int found =
        python_line(python.line_table(), copy, bytes, is_whole, first_line, offset, used);
    const bool lies_further_on = found == kPythonLineMore;
    if (lies_further_on && limit < kLineTableRead) continue;
    evidence_.add_copied(table, table + kPythonBytesData, copy, lies_further_on ? bytes : used);
    line = lies_further_on ? 0 : static_cast<uint32_t>(found);
    return true;
  }
  line = first_line > 0 ? static_cast<uint32_t>(first_line) : 0;
  return true;
}

/// Each pointer is followed only if it is what it was.
inline bool PythonStack::code_stands(const PythonRuntime& python, const PythonLink& link) {
  const PythonLayout& layout = python.layout();
  const uintptr_t at = link.at, code = link.code;
  const auto instruction = word_at<uintptr_t>(at + layout.frame.instruction) - code;
  const auto runs = word_at<uintptr_t>(at + layout.frame.code) & kCodeMask;
  if (((runs ^ code) | (instruction ^ link.instruction)) != 0) return false;
  if (word_at<uint8_t>(at + layout.frame.owner) >= kFirstOwnerWithoutCode) return false;
  if (link.version == 0) return sites_.stands(PythonSites::Known::of(link.evidence));
  return ((word_at<uintptr_t>(code + kPythonObjectType) ^ python.code_type()) |
          (word_at<uint32_t>(code + layout.code.version) ^ link.version) |
          (word_at<uintptr_t>(code + layout.code.filename) ^ link.evidence)) == 0;
}

/// Since 3.12.
bool PythonStack::marked_links_stand(const PythonChain& chain) {
  const PythonRuntime& python = *chain.python;
  const PythonLayout& layout = python.layout();
  for (const PythonLink* link = chain.links;; ++link) {
    const uintptr_t at = link->at, outer = link[1].at;
    if (word_at<uintptr_t>(at + layout.frame.previous) != outer) return false;
    const bool same = link->code != 0 ? code_stands(python, *link)
                                      : word_at<uint8_t>(at + layout.frame.owner) == link->version;
    if (!same) return false;
    if (outer == 0) return true;
  }
}

/// 3.11.
bool PythonStack::flagged_links_stand(const PythonChain& chain) {
  const PythonLayout& layout = chain.python->layout();
  uintptr_t call = chain.cframe;
  for (const PythonLink* link = chain.links;;) {
    const uintptr_t at = link->at;
    const PythonLink* outer = link + 1;
    const bool is_last_of_call = outer->code == 0 && outer->at != 0;
    if ((word_at<uint8_t>(at + layout.frame.is_entry) != 0) != is_last_of_call) return false;
    if (is_last_of_call) {
      call = word_at<uintptr_t>(call + layout.cframe.previous);
      if (call != outer->at) return false;
      ++outer;
    }
    if (word_at<uintptr_t>(at + layout.frame.previous) != outer->at) return false;
    if (!code_stands(*chain.python, *link)) return false;
    if (outer->at == 0) return true;
    link = outer;
  }
}

bool PythonStack::stands(const PythonChain& chain) {
  const PythonRuntime& python = *chain.python;
  if (known_python_ != &python) return false;
  const uintptr_t state = python.thread_state();
  if (state != chain.state || !python.stands(state)) return false;
  const PythonLayout& layout = python.layout();
  auto frame = word_at<uintptr_t>(state + layout.thread.frame);
  if (word_at<uint64_t>(state + layout.thread.thread_id) != arch::thread_id()) return false;
  if (layout.frames != PythonFrames::kEntryFrameDirect) {
    if (frame != chain.cframe) return false;
    frame = word_at<uintptr_t>(frame + layout.cframe.current_frame);
  }
  if (frame != chain.links[0].at) return false;
  sites_.begin();
  return layout.frames == PythonFrames::kEntryFlag ? flagged_links_stand(chain)
                                                   : marked_links_stand(chain);
}

uint32_t PythonStack::describe(PythonChain& chain, size_t room) {
  // Frame objects lie at other places each time.
  if (!was_in_place_ || known_python_->layout().frames < PythonFrames::kEntryFlag) return 0;
  in_place_ = true;
  const uint32_t links = list_links(chain, room);
  in_place_ = false;
  return links;
}

/// `last`: the frame as it was numbered; `now`: its bytes in memory.
bool PythonStack::describe_code(const LastFrame& last, const uint8_t* now, PythonLink& link) {
  const PythonLayout& layout = known_python_->layout();
  const auto place = reinterpret_cast<uintptr_t>(now);
  const uint64_t instruction = word_at<uintptr_t>(place + layout.frame.instruction) - last.code;
  const bool is_last = (word_at<uintptr_t>(place + layout.frame.code) & kCodeMask) == last.code &&
                       last.code + instruction == last.instruction && instruction <= UINT32_MAX;
  if (!is_last || !sites_.stands(last.known)) return false;
  link.code = last.code;
  link.instruction = static_cast<uint32_t>(instruction);
  link.evidence = last.known.word();
  link.version = 0;
  if (layout.code.version != 0) link.version = word_at<uint32_t>(link.code + layout.code.version);
  if (link.version != 0) link.evidence = word_at<uint64_t>(link.code + layout.code.filename);
  return true;
}

/// The thread is still inside of the call whose frames were just read, so they are read once more.
uint32_t PythonStack::list_links(PythonChain& chain, size_t room) {
  const PythonLayout& layout = known_python_->layout();
  const bool flagged = layout.frames == PythonFrames::kEntryFlag;
  uintptr_t frame, call = 0;
  if (!load(last_state_ + layout.thread.frame, frame)) return 0;
  if (layout.frames != PythonFrames::kEntryFrameDirect) {
    call = frame;
    if (!load(call + layout.cframe.current_frame, frame)) return 0;
  }
  chain.python = known_python_;
  chain.state = last_state_;
  chain.cframe = call;
  uint32_t count = 0, listed = 0;
  while (frame != 0) {
    const bool has_room = count + 2 <= room;
    const uint8_t* const now = has_room ? read(frame, layout.frame.owner + size_t{1}) : nullptr;
    if (now == nullptr) return 0;
    const uint8_t owner = now[layout.frame.owner];
    PythonLink& link = chain.links[count++];
    link = {frame, 0, 0, 0, owner};
    if (flagged || owner < kFirstOwnerWithoutCode) {
      if (listed == count_ || !describe_code(last_[count_ - ++listed], now, link)) return 0;
    }
    if (flagged && now[layout.frame.is_entry] != 0) {
      if (!load(call + layout.cframe.previous, call) || call == 0) return 0;
      chain.links[count++] = {call, 0, 0, 0, 0};
    }
    if (!load(frame + layout.frame.previous, frame)) return 0;
  }
  chain.links[count] = {};
  return listed == count_ ? count : 0;
}

}  // namespace gpupeak::preload
