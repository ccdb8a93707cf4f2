#pragma once

#include "collector/text/text_format.h"

namespace gpupeak::collector {

/// How a view is written: as text in this style, or in another form.
struct ViewStyle : TextStyle {
  enum class Form { kText, kJson, kCsv };
  ViewStyle(const TextStyle& style = {}, Form as = Form::kText) : TextStyle(style), form(as) {}
  bool is_json() const { return form == Form::kJson; }
  bool is_csv() const { return form == Form::kCsv; }

  Form form;
};
inline const ViewStyle kAsJson({}, ViewStyle::Form::kJson), kAsCsv({}, ViewStyle::Form::kCsv);

}  // namespace gpupeak::collector
