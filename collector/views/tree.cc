#include "collector/views/tree.h"

#include <fmt/format.h>

#include "collector/analyze/call_tree.h"

namespace gpupeak::collector {
namespace {

/// What is below a call: the calls that are shown, and the rest in one sum.
struct Below {
  std::vector<const CallTree::Node*> shown;
  uint64_t rest_bytes = 0, rest_count = 0, rest_calls = 0;
};

Below below(const CallTree& tree, const CallTree::Node& node, const TreeCut& cut, uint32_t level) {
  Below result;
  for (const uint32_t id : node.children) {
    const CallTree::Node& child = tree.node(id);
    if (!cut.too_deep(level) && !cut.too_small(child.bytes, tree.root().bytes)) {
      result.shown.push_back(&child);
    } else {
      result.rest_bytes += child.bytes;
      result.rest_count += child.count;
      ++result.rest_calls;
    }
  }
  return result;
}

class TreeText {
 public:
  TreeText(const CallTree& tree, const TreeCut& cut, std::ostream& out, const TextStyle& style)
      : tree_(tree),
        cut_(cut),
        out_(out),
        style_(style),
        width_(static_cast<size_t>(style.width)) {}

  void write() {
    out_ << fmt::format("{} {} {}  call\n", right("size", size_columns(style_)), right("%", 5),
                        right("n", kRowCountColumns));
    write_below(tree_.root(), "", 0);
  }

 private:
  void row(uint64_t bytes, uint64_t count, const std::string& indent, const std::string& title) {
    const uint64_t whole = tree_.root().bytes;
    const std::string figures =
        fmt::format("{} {} {}  ", right(size_text(bytes, style_), size_columns(style_)),
                    right(percent(bytes, whole), 5), right(grouped(count), kRowCountColumns));
    out_ << cut(figures + indent + title, width_, style_) << '\n';
  }

  /// Only branches indent. A call that passes nearly all of its bytes on to one other call stands
  /// in the same column as that call, and the rest of its bytes has no row.
  void write_below(const CallTree::Node& node, const std::string& indent, uint32_t level) {
    Below parts = below(tree_, node, cut_, level);
    uint64_t own_count = node.own_count;
    if (parts.shown.size() == 1 &&
        cut_.too_small(parts.rest_bytes + node.own_bytes, tree_.root().bytes)) {
      parts.rest_calls = own_count = 0;
    }
    size_t left = parts.shown.size() + (own_count > 0) + (parts.rest_calls > 0);
    const bool branches = left > 1;
    const auto connector = [&] { return branches ? (left == 1 ? "└ " : "├ ") : ""; };
    for (const CallTree::Node* child : parts.shown) {
      row(child->bytes, child->count, indent + connector(), CallTree::title(*child));
      const char* const line = branches ? (left == 1 ? "  " : "│ ") : "";
      write_below(*child, indent + line, level + 1);
      --left;
    }
    if (parts.rest_calls > 0) {
      row(parts.rest_bytes, parts.rest_count, indent + connector(),
          fmt::format("{} more", grouped(parts.rest_calls)));
      --left;
    }
    if (own_count > 0 && branches) {
      row(node.own_bytes, node.own_count, indent + connector(), "(by itself)");
    }
  }

  const CallTree& tree_;
  const TreeCut& cut_;
  std::ostream& out_;
  const TextStyle& style_;
  const size_t width_;
};

Json calls_json(const CallTree& tree, const CallTree::Node& node, const TreeCut& cut,
                uint32_t level) {
  const Below parts = below(tree, node, cut, level);
  Json json = Json::array();
  for (const CallTree::Node* child : parts.shown) {
    Json call;
    call["call"] = CallTree::title(*child);
    call["module"] = text_or_null(child->frame == nullptr ? "" : child->frame->module);
    call["bytes"] = child->bytes;
    call["count"] = child->count;
    call["own_bytes"] = child->own_bytes;
    const Below further = below(tree, *child, cut, level + 1);
    call["other_bytes"] = further.rest_bytes;
    call["other_calls"] = further.rest_calls;
    call["calls"] = calls_json(tree, *child, cut, level + 1);
    json.push_back(std::move(call));
  }
  return json;
}

}  // namespace

void write_tree(Profile& profile, const Held& held, const TreeCut& cut, std::ostream& out,
                const TextStyle& style) {
  const CallTree tree(profile, held.takers, CallTree::Order::kFromOutermost);
  write_losses(profile.quality(), out, style);
  write_heading(profile, held, out, style);
  TreeText(tree, cut, out, style).write();
}

void write_tree_json(Profile& profile, const Held& held, const TreeCut& cut, std::ostream& out) {
  const CallTree tree(profile, held.takers, CallTree::Order::kFromOutermost);
  Json json = held_view_json(profile, held, "gpupeak.tree/1");
  const Below top = below(tree, tree.root(), cut, 0);
  json["other_bytes"] = top.rest_bytes;
  json["other_calls"] = top.rest_calls;
  json["calls"] = calls_json(tree, tree.root(), cut, 0);
  write_line(json, out);
}

}  // namespace gpupeak::collector
