#include "collector/export/export.h"

namespace gpupeak::collector {
namespace {

constexpr ExportFormat kFormats[] = {
    {"massif", "massif.out, for ms_print and massif-visualizer", false, export_massif, nullptr},
    {"heaptrack", "heaptrack's text, for heaptrack_print and heaptrack_gui", false,
     export_heaptrack, nullptr},
    {"pprof", "profile.proto, gzip, for pprof", true, export_pprof, nullptr, {}, true, true},
    {"chrome", "trace-event JSON, for Perfetto and chrome://tracing", false, export_chrome, nullptr,
     "perfetto"},
    {"speedscope", "JSON, for speedscope", false, export_speedscope, nullptr, {}, false, true},
    {"folded", "folded stacks, for flamegraph.pl", false, export_folded, nullptr, {}, false, true},
    {"sqlite", "a database with Nsight Systems' table names", true, nullptr, export_sqlite},
    {"torch-snapshot", "PyTorch's memory snapshot, for memory_viz", true, export_torch_snapshot,
     nullptr},
    {"mxnet-csv",
     "tag,MiB as MXNet's memory profiler plots it",
     false,
     export_mxnet_csv,
     nullptr,
     {},
     false,
     true},
    {"csv", "every site with its peak, leaks and allocations", false, export_csv, nullptr},
};

}  // namespace

std::span<const ExportFormat> export_formats() {
  return kFormats;
}

}  // namespace gpupeak::collector
