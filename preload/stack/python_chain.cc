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

/// Each pointer is followed only where it is what it was.
template <bool kFlagged>
bool PythonStack::links_stand(const PythonChain& chain) {
  const PythonLayout& layout = chain.python->layout();
  const uintptr_t code_type = chain.python->code_type();
  uintptr_t call = chain.cframe;
  for (const PythonLink* link = chain.links;; ++link) {
    const uintptr_t at = link->at;
    if (word_at<uintptr_t>(at + layout.frame.previous) != link[1].at ||
        word_at<uint8_t>(at + layout.frame.owner) != link->owner) {
      return false;
    }
    if (const uintptr_t code = link->code) {
      if ((word_at<uintptr_t>(at + layout.frame.code) & kCodeMask) != code ||
          word_at<uintptr_t>(at + layout.frame.instruction) != link->instruction) {
        return false;
      }
      if (link->version != 0) {
        if (word_at<uintptr_t>(code + kPythonObjectType) != code_type ||
            word_at<uint32_t>(code + layout.code.version) != link->version ||
            word_at<uintptr_t>(code + layout.code.filename) != link->evidence) {
          return false;
        }
      } else if (!sites_.stands(PythonSites::Known::of(link->evidence))) {
        return false;
      }
    }
    if constexpr (kFlagged) {
      const bool is_entry = word_at<uint8_t>(at + layout.frame.is_entry) != 0;
      if (is_entry != (link->outer_call != 0)) return false;
      if (is_entry) {
        call = word_at<uintptr_t>(call + layout.cframe.previous);
        if (call != link->outer_call) return false;
      }
    }
    if (link[1].at == 0) return true;
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
  return layout.frames == PythonFrames::kEntryFlag ? links_stand<true>(chain)
                                                   : links_stand<false>(chain);
}

uint32_t PythonStack::describe(PythonChain& chain, size_t room) {
  if (!was_in_place_ || known_python_->layout().frames < PythonFrames::kEntryFlag) return 0;
  in_place_ = true;
  const uint32_t links = list_links(chain, room);
  in_place_ = false;
  return links;
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
  for (; frame != 0; ++count) {
    const uint8_t* const now = count < room ? read(frame, layout.frame.owner + size_t{1}) : nullptr;
    if (now == nullptr) return 0;
    const auto place = reinterpret_cast<uintptr_t>(now);
    PythonLink& link = chain.links[count];
    link = {frame, 0, 0, 0, 0, 0, now[layout.frame.owner]};
    if (flagged || link.owner < kFirstOwnerWithoutCode) {
      if (listed == count_) return 0;
      const LastFrame& last = last_[count_ - ++listed];
      link.code = word_at<uintptr_t>(place + layout.frame.code) & kCodeMask;
      link.instruction = word_at<uintptr_t>(place + layout.frame.instruction);
      const bool is_last = last.code == link.code && last.instruction == link.instruction;
      if (!is_last || !sites_.stands(last.known)) return 0;
      link.evidence = last.known.word();
      if (layout.code.version != 0) {
        link.version = word_at<uint32_t>(link.code + layout.code.version);
        if (link.version != 0) link.evidence = word_at<uint64_t>(link.code + layout.code.filename);
      }
    }
    if (flagged && now[layout.frame.is_entry] != 0) {
      if (!load(call + layout.cframe.previous, call)) return 0;
      link.outer_call = call;
    }
    if (!load(frame + layout.frame.previous, frame)) return 0;
  }
  chain.links[count] = {};
  return listed == count_ ? count : 0;
}

}  // namespace gpupeak::preload
