#include "collector/replay/observed_replay.h"

namespace gpupeak::collector {
namespace {

/// The stream's visitor.
struct Observed {
  Replay& replay;
  ReplayObserver& observer;
  void prefetch(const Event& event) const { replay.prefetch(event); }
  void prefetch_next(const Event& event) const { replay.prefetch_next(event); }
  void on_event(const Event& event) {
    replay.on_event(event);
    observer.after(event, replay);
  }
};

}  // namespace

void run_observed(Replay& replay, ReplayObserver& observer, const Progress& progress) {
  EventStream stream(replay.log(), progress);
  Observed visitor{replay, observer};
  stream.run(visitor);
  replay.finish(stream.counts());
}

}  // namespace gpupeak::collector
