#include "stack/python_chain.h"

#include <cstring>

#include "base/arch.h"
#include "stack/python_stack.h"

namespace gpupeak::preload {
namespace {

template <typename T>
T word_at(uintptr_t address) {
  T word;
  memcpy(&word, reinterpret_cast<const void*>(address), sizeof word);
  return word;
}

constexpr uintptr_t kCodeMask = ~uintptr_t{7};  // since 3.14 references are tagged

}  // namespace

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
