#include <unistd.h>

#include <optional>

#include "collector/views/pools.h"
#include "command_line.h"
#include "commands.h"
#include "exit_codes.h"
#include "output.h"
#include "strict.h"
#include "terminal.h"
#include "view.h"

namespace gpupeak::tools {
namespace {

struct PoolsOptions : ViewOptions {
  std::string at = "peak";
  size_t top = 20;
};

int pools(const PoolsOptions& options) {
  require_output(options.out, {options.log});
  collector::PoolMoments moments;
  std::optional<collector::Profile> profile;
  std::vector<collector::PoolState> states;
  collector::PoolInstant instant;
  {
    ProgressBar bar;
    profile.emplace(options.log, bar.callback(), &moments, options.reading);
    instant = collector::pool_instant(*profile, moments, options.at);
    states = collector::pools_at(*profile, instant, bar.callback());
  }
  write_output(options.out, [&](std::ostream& out) {
    if (options.json) {
      collector::write_pools_json(*profile, moments, instant, states, out);
    } else {
      collector::write_pools(*profile, instant, states, options.top, out,
                             style_for(output_descriptor(options.out), options.color));
    }
  });
  return strict_code(options.strict, is_whole(profile->quality()));
}

}  // namespace

void add_pools(CommandLine& line) {
  auto [verb, options] = line.add(
      "pools", "What PyTorch's and other sub-allocators had in use and idle, by segment", pools);
  add_view_options(verb, options);
  verb.add_option("--at", options.at, "peak, end, or the name of a mark")
      ->capture_default_str()
      ->type_name("INSTANT");
  add_top(verb, options.top, "Sites and segments of each pool");
  add_reading(verb, options.reading);
}

}  // namespace gpupeak::tools
