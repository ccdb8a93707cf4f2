// How a log is to be read, by the options that all reading verbs share.
#pragma once

#include "collector/log/heap_reading.h"
#include "collector/rules/rule_book.h"
#include "collector/symbols/symbol_search.h"
#include "collector/text/sanitize.h"

namespace gpupeak::collector {

struct Reading {
  Sanitizer sanitizer;  ///< shows the log's texts
  SymbolSearch search;  ///< for functions and lines
  RuleChoice rules;     ///< the rules that name phases and tags
  HeapReading heap = HeapReading::kAll;
};

}  // namespace gpupeak::collector
