#include "collector/export/export.h"

#include <zlib.h>

#include <array>
#include <stdexcept>
#include <streambuf>

#include "collector/log/packed_log.h"
#include "collector/text/error.h"
#include "collector/write/writers.h"

namespace gpupeak::collector {
namespace {

void export_events(Profile& profile, const ExportOptions& options, std::ostream& out) {
  profile.scope(options.scope);  // throws where there is no such memory
  write_dump(profile.log(), out, options.progress);
}

constexpr ExportFormat kExportFormats[] = {
    {"massif", "massif.out, for ms_print and massif-visualizer", false, export_massif},
    {"heaptrack", "heaptrack's text, for heaptrack_print and heaptrack_gui", false,
     export_heaptrack},
    {"pprof", "profile.proto, gzip, for pprof", true, export_pprof, true, {}, true},
    {"chrome", "trace-event JSON, for Perfetto and chrome://tracing", false, export_chrome, false,
     "perfetto"},
    {"speedscope", "JSON, for speedscope", false, export_speedscope, true},
    {"folded", "folded stacks, for flamegraph.pl", false, export_folded, true},
    {.name = "sqlite",
     .description = "a database with Nsight Systems' table names",
     .binary = true,
     .write_file = export_sqlite},
    {"torch-snapshot", "PyTorch's memory snapshot, for memory_viz", true, export_torch_snapshot},
    {"mxnet-csv", "tag,MiB as MXNet's memory profiler plots it", false, export_mxnet_csv, true},
    {"csv", "every site with its peak, leaks and allocations", false, export_csv},
    {.name = "events",
     .description = "a line for each event of the log, to grep",
     .write = export_events,
     .write_events = write_dump},
};

constexpr size_t kPiece = 64 << 10;

/// A stream buffer that collects what is written and gives it to the compressor in large pieces, by
/// `Packer::add(piece, last)`.
template <typename Packer>
class PackingBuffer : public std::streambuf {
 public:
  explicit PackingBuffer(Packer& packer) : packer_(packer) {
    setp(piece_.data(), piece_.data() + piece_.size());
  }
  void finish() { pass_on(true); }

 private:
  void pass_on(bool last) {
    packer_.add({reinterpret_cast<const uint8_t*>(pbase()), static_cast<size_t>(pptr() - pbase())},
                last);
    setp(piece_.data(), piece_.data() + piece_.size());
  }
  int_type overflow(int_type c) override {
    pass_on(false);
    if (!traits_type::eq_int_type(c, traits_type::eof())) sputc(traits_type::to_char_type(c));
    return traits_type::not_eof(c);
  }

  Packer& packer_;
  std::array<char, kPiece> piece_;
};

class Gzip {
 public:
  explicit Gzip(std::ostream& out) : out_(out) {
    constexpr int kWindowBits = 15, kGzip = 16, kMemoryLevel = 8;
    if (deflateInit2(&stream_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kWindowBits + kGzip, kMemoryLevel,
                     Z_DEFAULT_STRATEGY) != Z_OK) {
      throw std::runtime_error("zlib cannot compress");
    }
  }
  ~Gzip() { deflateEnd(&stream_); }
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;

  void add(std::span<const uint8_t> piece, bool last) {
    stream_.next_in = const_cast<Bytef*>(piece.data());
    stream_.avail_in = static_cast<uInt>(piece.size());
    do {
      stream_.next_out = reinterpret_cast<Bytef*>(packed_.data());
      stream_.avail_out = static_cast<uInt>(packed_.size());
      if (deflate(&stream_, last ? Z_FINISH : Z_NO_FLUSH) == Z_STREAM_ERROR)
        throw std::runtime_error("zlib cannot compress");
      out_.write(packed_.data(), static_cast<std::streamsize>(packed_.size() - stream_.avail_out));
    } while (stream_.avail_out == 0);
  }

 private:
  std::ostream& out_;
  z_stream stream_{};
  std::array<char, kPiece> packed_;
};

template <typename Packer>
void write_by(Packer packer, const std::function<void(std::ostream&)>& write) {
  PackingBuffer<Packer> buffer(packer);
  std::ostream packed(&buffer);
  write(packed);
  buffer.finish();
}

}  // namespace

std::span<const ExportFormat> export_formats() {
  return kExportFormats;
}

void PhaseSlices::on_phase_begin(PhaseTrack track, uint64_t number, const PhaseLabel& label,
                                 uint64_t ticks) {
  const std::string& name = open(track).emplace(number, phase_text(replay(), label)).first->second;
  on_slice_begin(replay().thread_of(track), name, ticks);
}

void PhaseSlices::on_phase_end(PhaseTrack track, uint64_t number, uint64_t ticks) {
  std::map<uint64_t, std::string>& names = open(track);
  const auto ended = names.find(number);
  if (ended == names.end()) return;
  const uint32_t thread = replay().thread_of(track);
  for (auto above = ended; above != names.end(); ++above) on_slice_end(thread, ticks);
  for (auto above = names.erase(ended); above != names.end(); ++above) {
    if (++again_ > kMostAgain)
      throw LogError("too many phases end below others, as slices of a trace cannot", 0);
    on_slice_begin(thread, above->second, ticks);
  }
}

OutputPacking packing_of(std::string_view path) {
  if (path.ends_with(".gz")) return OutputPacking::kGzip;
  return path.ends_with(".zst") ? OutputPacking::kZstd : OutputPacking::kNone;
}

void write_packed(OutputPacking packing, std::ostream& out,
                  const std::function<void(std::ostream&)>& write) {
  constexpr int kZstdLevel = 3;
  switch (packing) {
    case OutputPacking::kGzip:
      return write_by(Gzip(out), write);
    case OutputPacking::kZstd:
      return write_by(ZstdPacker(out, kZstdLevel, 0), write);
    case OutputPacking::kNone:
      return write(out);
  }
}

}  // namespace gpupeak::collector
