#include "stack/python_sites.h"

#include <cstring>

#include "base/hash_tables.h"
#include "base/lock.h"
#include "base/memory.h"
#include "log/log.h"

namespace gpupeak::preload {
namespace {

constexpr uint32_t kMaxFrames = 1 << 20;

struct Frame {
  uint32_t function, file, line;
};

struct Frames {
  FutexLock lock;
  struct Known {
    uint64_t check;  ///< another hash of the same frame
    uint32_t number;
  };
  FlatMap<Known> numbers;   ///< by hash
  Frame* frames = nullptr;  ///< by number - 1
  uint32_t count = 0;
};
constinit Frames g_frames;

struct Hash {
  uint64_t a = 0x2545f4914f6cdd1d, b = 0x9e3779b97f4a7c15;

  void add(uint64_t word) {
    a = (a ^ word) * 0xff51afd7ed558ccd;
    a ^= a >> 32;
    b = (b + word) * 0xc4ceb9fe1a85ec53;
    b ^= b >> 29;
  }
  void add(std::string_view text) {
    add(text.size());
    for (size_t i = 0; i < text.size(); i += 8) {
      uint64_t word = 0;
      memcpy(&word, text.data() + i, text.size() - i < 8 ? text.size() - i : 8);
      add(word);
    }
  }
};

void define_frame(const Frame& frame) {
  define(Record{GPUPEAK_DEF_PYTHON_FRAME, frame.function, frame.file, frame.line});
}

bool is_same(const uint8_t* a, const uint8_t* b, uint32_t bytes) {
  if (bytes < 8) {
    if (bytes >= 4)
      return value_at<uint32_t>(a) == value_at<uint32_t>(b) &&
             value_at<uint32_t>(a + bytes - 4) == value_at<uint32_t>(b + bytes - 4);
    for (uint32_t i = 0; i < bytes; ++i) {
      if (a[i] != b[i]) return false;
    }
    return true;
  }
  for (uint32_t i = 0; i + 8 < bytes; i += 8) {
    if (value_at<uint64_t>(a + i) != value_at<uint64_t>(b + i)) return false;
  }
  return value_at<uint64_t>(a + bytes - 8) == value_at<uint64_t>(b + bytes - 8);
}

}  // namespace

uint32_t python_frame(std::string_view function, std::string_view file, uint32_t line) {
  Hash hash;
  hash.add(function);
  hash.add(file);
  hash.add(line);
  const uint64_t key = hash.a != 0 ? hash.a : 1;
  LockGuard guard(g_frames.lock);
  const Frames::Known* known = g_frames.numbers.find(key);
  if (known != nullptr) return known->check == hash.b ? known->number : 0;
  if (g_frames.frames == nullptr) {
    g_frames.frames = static_cast<Frame*>(reserve_pages(kMaxFrames * sizeof(Frame)));
    if (g_frames.frames == nullptr) return 0;
  }
  if (g_frames.count == kMaxFrames) return 0;
  const Frame frame{intern_string(function), intern_string(file), line};
  if (!g_frames.numbers.insert(key, {hash.b, g_frames.count + 1})) return 0;
  g_frames.frames[g_frames.count++] = frame;
  define_frame(frame);
  return g_frames.count;
}

void redefine_python_frames() {
  g_frames.lock.reset();
  LockGuard guard(g_frames.lock);
  for (uint32_t i = 0; i < g_frames.count; ++i) define_frame(g_frames.frames[i]);
}

/// Compares from the first piece on, so that a pointer is followed only if it is what it was.
bool PythonSites::prove(Code& code) const {
  for (uint32_t i = 0; i < code.count; ++i) {
    const Piece& piece = code.pieces[i];
    const auto* now = reinterpret_cast<const uint8_t*>(piece.at);
    if (!is_same(now, bytes_ + piece.offset, piece.bytes)) return false;
  }
  code.proved = stack_;
  return true;
}

const PythonSites::Site* PythonSites::find(uintptr_t code, uint64_t instruction) {
  const auto place = static_cast<uint32_t>(instruction - code);
  const Site* const site = sites_.find(key_of(code, place), [=](const Site& other) {
    return other.instruction == place && other.code == code;
  });
  return site != nullptr && stands(site->known) ? site : nullptr;
}

/// Keeps the code object with its evidence; nullptr if that is too much to keep.
PythonSites::Code* PythonSites::keep(uintptr_t code, const PythonEvidence& evidence) {
  Code* known = codes_.find(code, [code](const Code& other) { return other.code == code; });
  // Of an unchanged object, only the line table can have been read further.
  const bool same =
      known != nullptr && known->serial != 0 && (known->proved == stack_ || prove(*known));
  const PythonEvidence::Piece& last = evidence.pieces[evidence.count - 1];
  if (same && known->end >= last.at + last.bytes) return known;
  uint32_t bytes = kLine;
  for (uint32_t i = 0; i < evidence.count; ++i) bytes += evidence.pieces[i].bytes + kGap;
  if (bytes > kBytes / 4) return nullptr;  // e.g. a whole line table, as far as one is read
  if (bytes > kBytes - end_) {
    forget();
    return keep(code, evidence);
  }
  end_ = (end_ + kLine - 1) & ~(kLine - 1);
  const uint32_t serial = same ? known->serial : ++last_serial_;
  if (known == nullptr) known = &codes_.add(code);
  *known = {code, stack_, last.at + last.bytes, 0, 0, {}};
  for (uint32_t i = 0; i < evidence.count; ++i) {
    const PythonEvidence::Piece& piece = evidence.pieces[i];
    add(*known, piece, i > 0 && piece.object == evidence.pieces[i - 1].object);
  }
  known->serial = serial;
  return known;
}

/// The bytes in a small gap between two pieces of one object are compared too, which costs less
/// than another piece. If they change, the code object is read again.
void PythonSites::add(Code& code, const PythonEvidence::Piece& piece, bool same_object) {
  if (same_object) {
    Piece& before = code.pieces[code.count - 1];
    const uintptr_t end = before.at + before.bytes;
    if (piece.at - end <= kGap) {
      const auto gap = static_cast<uint32_t>(piece.at - end);
      memcpy(bytes_ + end_, reinterpret_cast<const void*>(end), gap);
      memcpy(bytes_ + end_ + gap, piece.copy, piece.bytes);
      end_ += gap + piece.bytes;
      before.bytes += gap + piece.bytes;
      return;
    }
  }
  code.pieces[code.count++] = {piece.at, end_, piece.bytes};
  memcpy(bytes_ + end_, piece.copy, piece.bytes);
  end_ += piece.bytes;
}

PythonSites::Known PythonSites::learn(uintptr_t code, uint64_t instruction, uint32_t number,
                                      const PythonEvidence& evidence) {
  if (!evidence.is_complete || evidence.count == 0 || number == 0) return {};
  const Code* const code_known = keep(code, evidence);
  if (code_known == nullptr) return {};
  const Known known{codes_.slot_of(*code_known), code_known->serial};
  const auto place = static_cast<uint32_t>(instruction - code);
  Site* site = sites_.find(key_of(code, place), [=](const Site& other) {
    return other.instruction == place && other.code == code;
  });
  if (site == nullptr) site = &sites_.add(key_of(code, place));
  site->number = 0;
  in_order();
  site->code = code;
  site->instruction = place;
  site->known = known;
  in_order();
  site->number = number;
  return known;
}

/// Serials go on, so that no old site fits the next code object in its slot.
void PythonSites::forget() {
  codes_.forget();
  sites_.forget();
  end_ = 0;
}

}  // namespace gpupeak::preload
