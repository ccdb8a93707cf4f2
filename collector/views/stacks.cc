#include <fmt/format.h>

#include <functional>

#include "collector/views/views.h"

namespace gpupeak::collector {
namespace {

/// Warm colours of the 256-colour palette on which black text can be read.
constexpr int kColors[] = {215, 209, 222, 216, 180, 221, 208, 179};

/// A row is left out if none of its cells is as wide as this.
constexpr size_t kLegibleColumns = 5;

struct Cell {
  const CallTree::Node* node;
  uint64_t begin_bytes;  // from the left edge
};

class Flame {
 public:
  Flame(const CallTree& tree, const TreeCut& cut, TextLines& text)
      : tree_(tree), cut_(cut), text_(text) {}

  void write() {
    std::vector<Cell> row{{&tree_.root(), 0}};
    bool legible = true;
    for (uint32_t level = 0; legible && !cut_.too_deep(level); ++level) {
      std::vector<Cell> next;
      for (const Cell& cell : row) {
        uint64_t at = cell.begin_bytes;
        for (const uint32_t id : cell.node->children) {
          next.push_back({&tree_.node(id), at});
          at += tree_.node(id).bytes;
        }
      }
      row.clear();
      legible = false;
      for (const Cell& cell : next) {
        const size_t width = column(cell.begin_bytes + cell.node->bytes) - column(cell.begin_bytes);
        if (width == 0 || cut_.too_small(cell.node->bytes, tree_.root().bytes)) continue;
        row.push_back(cell);
        legible |= width >= kLegibleColumns;
      }
      if (legible) write_row(row);
    }
  }

 private:
  size_t column(uint64_t bytes) const {
    const double part = static_cast<double>(bytes) / static_cast<double>(tree_.root().bytes);
    return static_cast<size_t>(part * static_cast<double>(text_.width()) + 0.5);
  }

  void write_row(const std::vector<Cell>& row) {
    std::string line;
    size_t at = 0;
    for (const Cell& cell : row) {
      const size_t begin = column(cell.begin_bytes);
      const size_t end = column(cell.begin_bytes + cell.node->bytes);
      line += std::string(begin - at, ' ') + box(CallTree::title(*cell.node), end - begin);
      at = end;
    }
    text_.add(std::move(line));
  }

  std::string box(const std::string& title, size_t width) const {
    if (text_.style().color) {
      const size_t color = std::hash<std::string>{}(title) % std::size(kColors);
      // One column stays dark, so that neighbours of one colour are told apart.
      const std::string text = left(fit(title, width - 1), width - 1);
      return fmt::format("\x1b[48;5;{};30m{}\x1b[0m ", kColors[color], text);
    }
    if (width < 3) return width == 1 ? "|" : "[]";
    const std::string text = width < kLegibleColumns ? "" : fit(title, width - 2);
    return fmt::format("[{}{:─<{}}]", text, "", width - 2 - display_width(text));
  }

  const CallTree& tree_;
  const TreeCut& cut_;
  TextLines& text_;
};

Json node_json(const CallTree& tree, const CallTree::Node& node, const TreeCut& cut, uint32_t level,
               const std::string& root) {
  Json json = object("name, value", level == 0 ? root : CallTree::title(node), node.bytes);
  Json children = Json::array();
  for (const CallTree::Node* child : tree.below(node, cut, level).shown)
    children.push_back(node_json(tree, *child, cut, level + 1, root));
  if (!children.empty()) json["children"] = std::move(children);
  return json;
}

class TreeText {
 public:
  TreeText(const CallTree& tree, const TreeCut& cut, TextLines& text)
      : tree_(tree), cut_(cut), text_(text), table_(text.parts()) {}

  void write() {
    table_.head("call");
    write_below(tree_.root(), "", 0);
  }

 private:
  void row(uint64_t bytes, uint64_t count, const std::string& indent, const std::string& title) {
    table_.line(text_.of_whole(bytes, tree_.root().bytes, grouped(count)), indent + title);
  }

  /// Only branches indent. A call that passes nearly all of its bytes on to one other call stands
  /// in the same column as that call, and the rest of its bytes has no row.
  void write_below(const CallTree::Node& node, const std::string& indent, uint32_t level) {
    CallTree::Below parts = tree_.below(node, cut_, level);
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
    if (own_count > 0 && branches)
      row(node.own_bytes, node.own_count, indent + connector(), "(by itself)");
  }

  const CallTree& tree_;
  const TreeCut& cut_;
  TextLines& text_;
  const TextTable table_;
};

Json calls_json(const CallTree& tree, const CallTree::Node& node, const TreeCut& cut,
                uint32_t level) {
  const CallTree::Below parts = tree.below(node, cut, level);
  Json json = Json::array();
  for (const CallTree::Node* child : parts.shown) {
    Json call = object("call, module, bytes, count, own_bytes", CallTree::title(*child),
                       text_or_null(child->frame == nullptr ? "" : child->frame->module),
                       child->bytes, child->count, child->own_bytes);
    const CallTree::Below further = tree.below(*child, cut, level + 1);
    extend(call, "other_bytes, other_calls, calls", further.rest_bytes, further.rest_calls,
           calls_json(tree, *child, cut, level + 1));
    json.push_back(std::move(call));
  }
  return json;
}

Json tree_json(const Profile& profile, const Held& held, const CallTree& tree, const TreeCut& cut) {
  const CallTree::Below top = tree.below(tree.root(), cut, 0);
  return with(view_json(profile, "gpupeak.tree/1", held), "other_bytes, other_calls, calls",
              top.rest_bytes, top.rest_calls, calls_json(tree, tree.root(), cut, 0));
}

}  // namespace

void write_flame(Profile& profile, const Held& held, const TreeCut& cut, std::ostream& out,
                 const ViewStyle& style) {
  const CallTree tree(profile, held.takers, CallTree::Order::kFromOutermost);
  if (style.is_json()) {
    return write_line(
        with(view_json(profile, "gpupeak.flame/1", held), "flame",
             node_json(tree, tree.root(), cut, 0, held.is_peak() ? "peak" : held.moment)),
        out);
  }
  TextLines text = view_text(profile, style);
  add_heading(profile, held, text);
  if (held.bytes > 0) {
    const auto columns = static_cast<uint64_t>(style.width);
    text.wrap("one column is {}, {} % of it; narrower calls have no place",
              text.size(held.bytes / columns), percent(1, columns));
    Flame(tree, cut, text).write();
  }
  text.write(out);
}

void write_tree(Profile& profile, const Held& held, const TreeCut& cut, std::ostream& out,
                const ViewStyle& style) {
  const CallTree tree(profile, held.takers, CallTree::Order::kFromOutermost);
  if (style.is_json()) return write_line(tree_json(profile, held, tree, cut), out);
  TextLines text = view_text(profile, style);
  add_heading(profile, held, text);
  TreeText(tree, cut, text).write();
  text.write(out);
}

}  // namespace gpupeak::collector
