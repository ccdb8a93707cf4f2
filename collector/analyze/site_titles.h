// Makes the title of a stack in a row of a table: the few of its frames that mean something to the
// reader. From
//
//   cuMemAlloc_v2                 libcuda.so.1       plumbing: left out
//   BFCArena::Reserve             libonnxruntime.so  the first that means something
//   Gemm<float>::PrePack          libonnxruntime.so  a landmark: the nearest that a rule names
//   (4 frames without names)      libonnxruntime.so
//   run_model main.cc:41          my_program         the nearest of the program's own code
//   main, __libc_start_main       my_program         what starts a thread ends the search
//
// it makes "BFCArena::Reserve ← Gemm<float>::PrePack ← run_model main.cc:41". Where Python's lines
// are known, they take the place of the native frames around them. Sites are told apart by the
// functions in their titles, and by their lines.
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collector/summary/site_title.h"
#include "collector/symbols/symbolizer.h"
#include "collector/text/numbers.h"

namespace gpupeak::collector {

/// A module of this name is the preload itself.
inline constexpr std::string_view kOwnModule = "libgpupeak";

class SiteTitles {
 public:
  static constexpr size_t kTitleFrames = 3;

  /// One part of a title: a frame, or a run of frames of one library that have no names.
  struct TitlePart {
    const Frame* frame = nullptr;
    uint32_t id = 0;     ///< equal for parts that differ only in their line
    uint32_t place = 0;  ///< equal for equal lines; 0: none is known
    uint32_t run = 0;    ///< how many frames it stands for; 0: one that has a name
    bool operator==(const TitlePart&) const = default;
  };
  /// The parts of a title: the first frame that means something, the nearest one around it, and the
  /// nearest of the program's own code; in Python its nearest Python frames.
  struct Site {
    size_t frame_count = 0;
    std::array<TitlePart, kTitleFrames> parts{};

    void add(const TitlePart& part);
    bool operator==(const Site&) const = default;
  };

  SiteTitles(const Definitions& definitions, Symbolizer& symbolizer);
  Symbolizer& symbolizer() { return symbolizer_; }

  /// Symbolizer::tell_calls_apart(); all sites are found anew.
  void tell_calls_apart(std::set<uint32_t> functions, CallNumbers numbers);

  /// Finds the sites of these stacks, with several processors if they are many.
  void prepare(std::span<const uint32_t> stacks);
  /// Whether the stack has frames of Python.
  bool has_python(uint32_t stack) const;
  /// The site of a stack. The reference stays valid.
  const Site& site(uint32_t stack);
  std::string title(uint32_t stack);
  /// The library of the title's first frame; empty: not known.
  std::string module(uint32_t stack);
  /// A number for something that is no function; functions have other numbers.
  uint32_t intern(const std::string& text);

  /// The parts of a title, to be shown.
  static std::vector<SitePart> parts(const Site& site);

 private:
  /// A frame that a title may show.
  struct Candidate {
    TitlePart part;
    bool own = false, landmark = false;
  };

  using Candidates = std::vector<Candidate>;

  struct SiteHash {
    size_t operator()(const Site& site) const;
  };

  // These use only the symbolizer. If it knows the stack, several threads may call them.
  static void add(Candidates& to, const ResolvedAddress& resolved, size_t frame);
  void find_candidates(uint32_t stack, bool until_python, Candidates& found) const;
  void take_all_frames(uint32_t stack, Candidates& found) const;
  static Site make_native_site(const Candidates& found);
  Site make_site(uint32_t stack, Candidates& scratch) const;
  Site make_python_site(uint32_t stack, Candidates& scratch) const;

  void keep(uint32_t stack, Site site);

  const Definitions& definitions_;
  Symbolizer& symbolizer_;
  std::string program_;  ///< the executable's name, escaped
  /// How many frames of a stack are looked at. A log with stacks of a few bytes each may have a
  /// million stacks of two thousand frames, so with more than 65,536 nodes not all are looked at.
  static constexpr size_t kMostLookedAt = size_t{1} << 27, kAlwaysLookedAt = 128;
  size_t most_frames_;
  Numbers<std::string> interned_;
  Numbers<Site, SiteHash> sites_;   ///< most have many stacks
  std::vector<uint32_t> of_stack_;  ///< by node: number of its site + 1; 0: not asked for yet
  Candidates scratch_;
};

}  // namespace gpupeak::collector
