#include "collector/files/regular_file.h"

#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/random.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <mutex>

namespace gpupeak::collector {

Descriptor open_regular(const std::string& path, int flags, struct stat& status) {
  // Checked before opening, since opening a device may already do something; and after it, since
  // the file may have been replaced in between.
  if (stat(path.c_str(), &status) != 0) return Descriptor();
  errno = ENXIO;
  if (!S_ISREG(status.st_mode)) return Descriptor();
  Descriptor file(open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file || fstat(file.get(), &status) != 0) return Descriptor();
  errno = ENXIO;
  if (!S_ISREG(status.st_mode)) return Descriptor();
  return file;
}

bool is_regular(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

Descriptor open_regular(const std::string& path, int flags) {
  struct stat status {};
  return open_regular(path, flags, status);
}

std::optional<std::string> read_regular(const std::string& path, uint64_t most_bytes) {
  struct stat status {};
  const Descriptor file = open_regular(path, O_RDONLY, status);
  return file ? read_regular(file, status, most_bytes) : std::nullopt;
}

std::optional<std::string> read_regular(const Descriptor& file, const struct stat& status,
                                        uint64_t most_bytes) {
  errno = EFBIG;
  if (static_cast<uint64_t>(status.st_size) > most_bytes) return std::nullopt;
  // Files in /proc say that they have 0 bytes.
  std::string bytes(std::max<size_t>(static_cast<size_t>(status.st_size) + 1, 4096), '\0');
  size_t got = 0;
  while (true) {
    const ssize_t more = read(file.get(), bytes.data() + got, bytes.size() - got);
    if (more < 0 && errno == EINTR) continue;
    if (more < 0) return std::nullopt;
    if (more == 0) break;
    got += static_cast<size_t>(more);
    errno = EFBIG;
    if (got > most_bytes) return std::nullopt;
    if (got == bytes.size()) bytes.resize(2 * bytes.size());
  }
  bytes.resize(got);
  return bytes;
}

namespace {

constexpr mode_t kPrivate = S_IRUSR | S_IWUSR;

/// The owner of a new file in the folder; -1: none can be made there.
int64_t owner_of_new_file(const std::string& folder) {
  const std::string path = folder + "/.gpupeak." + unguessable_text();
  const Descriptor probe(
      open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kPrivate));
  struct stat own {};
  if (!probe) return -1;
  unlink(path.c_str());
  return fstat(probe.get(), &own) == 0 ? static_cast<int64_t>(own.st_uid) : -1;
}

int64_t ns(const timespec& time) {
  return static_cast<int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

bool is_own(const struct stat& file, const std::string& folder) {
  return file.st_uid == geteuid() || owner_of_new_file(folder) == static_cast<int64_t>(file.st_uid);
}

bool is_own_folder(const std::string& path) {
  struct stat there {};
  return lstat(path.c_str(), &there) == 0 && S_ISDIR(there.st_mode) &&
         (there.st_mode & S_IWOTH) == 0 && is_own(there, folder_of(path));
}

bool is_still_at(const std::string& path, const struct stat& file) {
  struct stat now {};
  return lstat(path.c_str(), &now) == 0 && now.st_dev == file.st_dev && now.st_ino == file.st_ino;
}

bool write_at(int fd, const void* bytes, size_t size, uint64_t place) {
  for (size_t done = 0; done < size;) {
    const ssize_t written = pwrite(fd, static_cast<const char*>(bytes) + done, size - done,
                                   static_cast<off_t>(place + done));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    done += static_cast<size_t>(written);
  }
  return true;
}

bool write_all(int fd, std::string_view text, bool waits) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN && waits) {
      pollfd ready{fd, POLLOUT, 0};
      poll(&ready, 1, -1);
      continue;
    }
    if (written <= 0) return false;
    text.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

std::string folder_of(const std::string& path) {
  std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

std::string unguessable_text() {
  static constexpr char kDigits[] = "abcdefghijklmnopqrstuvwxyz012345";
  constexpr size_t kCharacters = 20;  // five bits each
  std::string text(kCharacters, '\0');
  // So few bytes come at once, as soon as the machine has random ones.
  while (getrandom(text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
  }
  for (char& byte : text) byte = kDigits[byte & 31];
  return text;
}

FileState state_of_file(std::string path) {
  struct stat status {};
  if (stat(path.c_str(), &status) == 0) return state_of(std::move(path), status);
  FileState none;
  none.path = std::move(path);
  return none;
}

FileState state_of(std::string path, const struct stat& status) {
  return {std::move(path),    status.st_dev,
          status.st_ino,      static_cast<uint64_t>(status.st_size),
          ns(status.st_mtim), ns(status.st_ctim)};
}

FileState state_of_command() {
  std::error_code error;
  return state_of_file(std::filesystem::canonical("/proc/self/exe", error).string());
}

void pack(const FileState& state, BytePacker& out) {
  out.text(state.path);
  for (const uint64_t value : {state.device, state.inode, state.bytes}) out.number(value);
  out.number(state.modified_ns);
  out.number(state.changed_ns);
}

FileState unpack_state(ByteUnpacker& in) {
  FileState state;
  state.path = in.text();
  for (uint64_t* value : {&state.device, &state.inode, &state.bytes})
    *value = in.number<uint64_t>();
  state.modified_ns = in.number<int64_t>();
  state.changed_ns = in.number<int64_t>();
  return state;
}

namespace {

struct Mapping {
  std::atomic<uintptr_t> begin{0}, end{0};  ///< end 0: the entry is free
  std::atomic<bool> cut{false};
};

constexpr size_t kMappings = 256;
std::array<Mapping, kMappings> g_mappings;
std::atomic<uint64_t> g_cuts{0};
std::mutex g_taking;
uintptr_t g_page_bytes = 4096;

/// Puts zeros in place of the mapping from `page` on, where the file has ended. Async-signal-safe.
bool fill_with_zeros(uintptr_t page) {
  uintptr_t end = page + g_page_bytes;
  int access = PROT_READ | PROT_WRITE;  // for a mapping that has no CutGuard
  for (Mapping& mapping : g_mappings) {
    if (page + g_page_bytes <= mapping.begin || page >= mapping.end) continue;
    end = (mapping.end + g_page_bytes - 1) / g_page_bytes * g_page_bytes;
    access = PROT_READ;
    mapping.cut = true;
  }
  void* filled = mmap(reinterpret_cast<void*>(page), end - page, access,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
  return filled != MAP_FAILED;
}

void handle(int number, siginfo_t* info, void*) {
  const int saved_errno = errno;
  const auto at = reinterpret_cast<uintptr_t>(info->si_addr);
  if (info->si_code == BUS_ADRERR && fill_with_zeros(at / g_page_bytes * g_page_bytes)) {
    ++g_cuts;
    errno = saved_errno;
    return;
  }
  signal(number, SIG_DFL);                // the instruction faults again and ends the process
  if (info->si_code <= 0) raise(number);  // somebody sent the signal, so it does not come again
}

}  // namespace

void guard_mappings() {
  static const bool done = [] {
    g_page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    struct sigaction action {};
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    return sigaction(SIGBUS, &action, nullptr) == 0;
  }();
  static_cast<void>(done);
}

uint64_t cut_count() {
  return g_cuts;
}

CutGuard::CutGuard(const void* begin, size_t bytes) {
  guard_mappings();
  const std::lock_guard lock(g_taking);
  for (size_t i = 0; i < kMappings && slot_ == kNone; ++i) {
    if (g_mappings[i].end == 0) slot_ = i;
  }
  if (slot_ != kNone) g_mappings[slot_].cut = false;
  set(begin, bytes);
}

CutGuard::~CutGuard() {
  if (slot_ != kNone) g_mappings[slot_].end = 0;
}

void CutGuard::set(const void* begin, size_t bytes) {
  if (slot_ == kNone) return;
  g_mappings[slot_].begin = reinterpret_cast<uintptr_t>(begin);
  g_mappings[slot_].end = reinterpret_cast<uintptr_t>(begin) + bytes;
}

bool CutGuard::was_cut() const {
  return slot_ != kNone ? g_mappings[slot_].cut.load() : cut_count() != 0;
}

void* open_system_library(const char* name) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path own = fs::read_symlink("/proc/self/exe", error).parent_path();
#if defined __aarch64__
  const std::string machine = "aarch64-linux-gnu";
#else
  const std::string machine = "x86_64-linux-gnu";
#endif
  for (const fs::path& folder :
       {own / "../lib/gpupeak", fs::path("/usr/local/lib") / machine, fs::path("/usr/local/lib"),
        fs::path("/usr/lib") / machine, fs::path("/usr/lib64"), fs::path("/usr/lib"),
        fs::path("/lib") / machine, fs::path("/lib64"), fs::path("/lib")}) {
    if (!folder.is_absolute()) continue;  // we may not know our own folder
    if (void* library = dlopen((folder / name).c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  }
  return nullptr;
}

}  // namespace gpupeak::collector
