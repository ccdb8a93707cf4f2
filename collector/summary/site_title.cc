#include "collector/summary/site_title.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "collector/text/function_names.h"
#include "collector/text/lists.h"
#include "collector/text/title_text.h"

namespace gpupeak::collector {
namespace {

/// The name with which of the function's calls it is: "1st buffer of main (+0x13a1)".
std::string with_call(const Frame& frame, const std::string& name) {
  if (frame.call == 0) return name;
  const uint32_t tens = frame.call % 100, ones = frame.call % 10;
  const bool teens = tens > 10 && tens < 14;
  const char* ending = ones == 1 && !teens   ? "st"
                       : ones == 2 && !teens ? "nd"
                       : ones == 3 && !teens ? "rd"
                                             : "th";
  return fmt::format("{}{} {} {} (+{:#x})", frame.call, ending,
                     frame.one_block ? "buffer of" : "call in", name, frame.offset);
}

/// The last `names` names of a path.
std::string_view path_end(std::string_view path, size_t names) {
  size_t at = path.size();
  for (; names > 0 && at != std::string_view::npos; --names)
    at = at == 0 ? std::string_view::npos : path.rfind('/', at - 1);
  return at == std::string_view::npos ? path : path.substr(at + 1);
}

std::string place_text(const Frame& frame, size_t names_of_path) {
  if (frame.line <= 0) return "";
  return fmt::format(" {}:{}", path_end(frame.file, names_of_path), frame.line);
}

std::string title_text(const Frame& frame, const std::string& name, size_t names_of_path) {
  if (!frame.is_python) return with_call(frame, name) + place_text(frame, names_of_path);
  return frame.line > 0 ? frame.function + place_text(frame, names_of_path)
                        : fmt::format("{} {}", frame.function, path_end(frame.file, names_of_path));
}

bool same_frame(const Frame& a, const Frame& b) {
  return a.function == b.function && a.file == b.file && a.line == b.line && a.module == b.module &&
         a.call == b.call;
}

/// The title of a frame, or of a run of frames: `libx.so+0x1234 (4 frames)` if they are known by
/// their address, `libx.so (4 frames)` if by their library.
std::string part_title(const SitePart& part) {
  std::string title = part.of_library ? part.frame.module : frame_title(part.frame);
  if (part.run > 1) title += fmt::format(" ({} frames)", part.run);
  return title;
}

}  // namespace

std::string frame_name(const Frame& frame) {
  if (frame.is_python) return fmt::format("{} {}", frame.function, frame.module);
  if (!frame.function.empty()) return frame.function;
  if (!frame.module.empty()) return fmt::format("{}+{:#x}", frame.module, frame.offset);
  return fmt::format("{:#x}", frame.address);
}

std::string short_frame_name(const Frame& frame) {
  const bool is_function = !frame.is_python && frame.name_source != NameSource::kModel &&
                           frame.name_source != NameSource::kPlan;
  if (!is_function || frame.function.empty()) return frame_name(frame);
  return short_function_name(frame.function);
}

std::string frame_place(const Frame& frame) {
  if (frame.line <= 0) return "";
  return frame.is_python ? fmt::format(":{}", frame.line) : place_text(frame, 1);
}

std::string frame_title(const Frame& frame) {
  return with_call(frame, short_frame_name(frame)) + frame_place(frame);
}

std::string count_text(const Holder& holder) {
  return (holder.error_bytes ? "≥" : "") + grouped(holder.count);
}

std::string kind_mark(const std::string& kind) {
  return fmt::format("  [{}]", kind.substr(kind.find('.') + 1));
}

std::string site_title(const std::vector<SitePart>& parts) {
  if (parts.empty()) return std::string(kNoStack);
  std::string title;
  for (const SitePart& part : parts)
    title += (title.empty() ? "" : std::string(kArrow)) + part_title(part);
  return title;
}

std::string site_key(const std::vector<SitePart>& parts, SiteKey by) {
  std::string key;
  for (const SitePart& part : parts) {
    const Frame& frame = part.frame;
    const bool nameless = frame.function.empty();
    const bool library = part.of_library || (nameless && by == SiteKey::kFunctions);
    key += fmt::format("{}\n{}\n", library ? frame.module : frame_name(frame), part.run);
    if (nameless) continue;
    key += by == SiteKey::kPaths ? frame.file : path_end(frame.file, 1);
    if (by != SiteKey::kFunctions) key += fmt::format(":{}:{}", frame.line, frame.call);
    key += '\n';
  }
  return key;
}

std::string row_key(const Holder& row) {
  return row.kind + '\n' + row.title + '\n' + site_key(row.parts, SiteKey::kPaths);
}

std::vector<SitePart> without_lines(std::vector<SitePart> parts) {
  for (SitePart& part : parts) part.frame.line = part.frame.call = 0;
  return parts;
}

std::vector<std::string> titles_apart(const std::vector<const Frame*>& frames) {
  std::vector<std::string> texts =
      list_of(frames, [](const Frame* frame) { return frame_title(*frame); });
  const auto same = [&](size_t i, size_t j) { return same_frame(*frames[i], *frames[j]); };
  for (const std::vector<size_t>& group : alike(texts, same)) {
    const std::vector<std::string> names = names_apart(
        list_of(group, [&](size_t i) -> std::string_view { return frames[i]->function; }));
    for (size_t i = 0; i < group.size(); ++i) {
      const Frame& frame = *frames[group[i]];
      if (!frame.function.empty()) texts[group[i]] = title_text(frame, names[i], 1);
    }
    // Then by more of the file's path, then by the library.
    constexpr size_t kMostFolders = 8;
    for (size_t path = 2; path <= kMostFolders; ++path) {
      for (const std::vector<size_t>& still : alike(texts, same)) {
        const bool differ = std::ranges::any_of(
            still, [&](size_t i) { return frames[i]->file != frames[still.front()]->file; });
        for (const size_t i : differ ? still : std::vector<size_t>{}) {
          const auto mine = std::find(group.begin(), group.end(), i);
          if (mine == group.end() || frames[i]->file.empty()) continue;
          texts[i] = title_text(*frames[i], names[static_cast<size_t>(mine - group.begin())], path);
        }
      }
    }
  }
  for (const std::vector<size_t>& group : alike(texts, same)) {
    for (const size_t i : group) texts[i] += fmt::format(" [{}]", frames[i]->module);
  }
  return texts;
}

void tell_apart(std::vector<Holder>& rows) {
  std::map<std::pair<std::string, std::string>, std::vector<size_t>> by_title;
  std::vector<std::vector<std::string>> texts(rows.size());  // by row: of its parts
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].parts.empty()) continue;
    rows[i].title = site_title(rows[i].parts);
    by_title[{rows[i].kind, rows[i].title}].push_back(i);
    for (const SitePart& part : rows[i].parts) texts[i].push_back(part_title(part));
  }
  for (const auto& [title, group] : by_title) {
    if (group.size() < 2) continue;
    const size_t most = most_of(group, [&](size_t row) { return rows[row].parts.size(); });
    for (size_t part = 0; part < most; ++part) {
      std::vector<const Frame*> frames;
      std::vector<size_t> having;
      for (const size_t row : group) {
        if (part >= rows[row].parts.size() || rows[row].parts[part].run > 0) continue;
        frames.push_back(&rows[row].parts[part].frame);
        having.push_back(row);
      }
      const std::vector<std::string> apart = titles_apart(frames);
      for (size_t i = 0; i < having.size(); ++i) texts[having[i]][part] = apart[i];
    }
    for (const size_t row : group)
      rows[row].title = fmt::format("{}", fmt::join(texts[row], kArrow));
  }
  // A row's last part is the user's own code: if it tells the row apart, it is the telling part.
  std::map<std::string, size_t> beginnings, ends, own;
  const auto end_of = [&](size_t row) {
    return fmt::format("{}\n{}\n{}", rows[row].kind, texts[row].front(), texts[row].back());
  };
  const auto beginning = [&](size_t row, size_t part) {
    const auto end = texts[row].begin() + static_cast<std::ptrdiff_t>(part) + 1;
    return rows[row].kind + fmt::format("\n{}", fmt::join(texts[row].begin(), end, kArrow));
  };
  for (size_t row = 0; row < rows.size(); ++row) {
    for (size_t part = 0; part < texts[row].size(); ++part) ++beginnings[beginning(row, part)];
    if (texts[row].empty()) continue;
    ++ends[end_of(row)];
    ++own[rows[row].kind + "\n" + texts[row].back()];
  }
  for (size_t row = 0; row < rows.size(); ++row) {
    const size_t count = texts[row].size();
    size_t part = 0;
    while (part < count && beginnings[beginning(row, part)] > 1) ++part;
    if (count > 0 && (own[rows[row].kind + "\n" + texts[row].back()] == 1 ||
                      (part > 0 && ends[end_of(row)] == 1)))
      part = count - 1;
    rows[row].telling_part = part < count ? static_cast<uint32_t>(part) : 0;
  }
}

namespace {

constexpr std::string_view kKernelVerbs[] = {"written by", "read and written by", "read by",
                                             "given to"};

/// A name is of all kernels with this short name, or of the library. A launch that reads at one
/// place and writes at another counts once.
void add_kernels(const BufferRole& role, std::vector<RoleUse>& uses) {
  struct Kernel {
    std::string name;
    bool reads = false, writes = false;
    std::map<std::string_view, uint64_t> launches = {};  // by the whole name
  };
  std::vector<Kernel> kernels;
  for (const BufferRole::Kernel& of : role.kernels) {
    std::string name = of.library.empty() ? short_function_name(of.name) : of.library;
    auto kernel = std::ranges::find(kernels, name, &Kernel::name);
    if (kernel == kernels.end()) kernel = kernels.insert(kernels.end(), Kernel{std::move(name)});
    kernel->reads |= of.access == KernelAccess::kRead;
    kernel->writes |= of.access == KernelAccess::kWritten;
    uint64_t& launches = kernel->launches[of.name];
    launches = std::max(launches, of.launches);
  }
  for (Kernel& kernel : kernels) {
    const size_t verb = kernel.writes ? (kernel.reads ? 1 : 0) : (kernel.reads ? 2 : 3);
    uses.push_back({kKernelVerbs[verb], std::move(kernel.name),
                    sum_of(kernel.launches, [](const auto& of) { return of.second; })});
  }
}

std::string text_of(const BufferRole& role, size_t kernels, const TextStyle& style) {
  const std::vector<RoleUse> uses = role_uses(role);
  const auto is_kernel = [](const RoleUse& use) { return !use.kernel.empty(); };
  const auto first = std::find_if(uses.begin(), uses.end(), is_kernel);
  const auto end = std::find_if_not(first, uses.end(), is_kernel);
  const auto more =
      first + std::min(static_cast<ptrdiff_t>(std::min(kernels, uses.size())), end - first);
  std::vector<std::string> texts;
  for (auto use = uses.begin(); use != first; ++use) texts.emplace_back(use->verb);
  for (const std::string_view verb : kKernelVerbs) {
    std::vector<std::string_view> names;
    for (auto use = first; use != more; ++use) {
      if (use->verb == verb) names.push_back(use->kernel);
    }
    if (!names.empty()) texts.push_back(fmt::format("{} {}", verb, fmt::join(names, ", ")));
  }
  if (more != end)
    texts.push_back(fmt::format("{} more kernel{}", end - more, end - more == 1 ? "" : "s"));
  for (auto use = end; use != uses.end(); ++use) texts.emplace_back(use->verb);
  if (!role.was_seen_used() && !role.passed_on) {
    texts.emplace_back("never seen used");
  } else if (role.unused_bytes > 0) {
    texts.push_back(size_text(role.unused_bytes, style) + " never seen used");
  }
  return fmt::format("{}", fmt::join(texts, " · "));
}

}  // namespace

std::vector<RoleUse> role_uses(const BufferRole& role) {
  std::vector<RoleUse> uses;
  const auto add = [&](std::string_view verb, uint64_t count) {
    if (count > 0) uses.push_back({verb, "", count});
  };
  add("copied in", role.copied_in);
  add("copied to from other memory", role.copied_to);
  add("filled", role.filled);
  add_kernels(role, uses);
  add("a texture or surface", role.textures);
  add("its address copied in", role.addresses_copied);
  add("copied to other memory", role.copied_from);
  add("copied out", role.copied_out);
  add("passed on", role.passed_on ? 1 : 0);
  return uses;
}

std::string role_text(const Holder& row, size_t kernels, const TextStyle& style) {
  if (!row.role) return "";
  const std::string all = text_of(*row.role, kernels, style);
  std::vector<std::string> texts;
  bool do_differ = false;  // else they differ by size alone
  for (const BlocksAlike& blocks : row.role->alike) {
    const std::string text = text_of(blocks.role, kernels, style);
    do_differ |= text != all;
    texts.push_back(fmt::format("{} × {} {}", blocks.count,
                                size_text(blocks.bytes / blocks.count, style), text));
  }
  return do_differ ? fmt::format("{}", fmt::join(texts, "; ")) : all;
}

std::string role_mark(const Holder& row, size_t width, const TextStyle& style) {
  const std::string text = role_text(row, kFewKernels, style);
  return text.empty() ? "" : "   " + cut(text, width / 2, style);
}

std::string role_note(const Peak& peak, size_t rows) {
  for (size_t i = 0; i < std::min(rows, peak.holders.size()); ++i) {
    const Holder& row = peak.holders[i];
    if (row.role && row.role->unused_bytes > 0)
      return "never seen used: by no copy, fill or launch; a kernel may still read it by a pointer "
             "that it found in memory";
  }
  return "";
}

}  // namespace gpupeak::collector
