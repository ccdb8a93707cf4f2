// What pools had in use and idle at each instant that the page has, piece by piece.
// collector/write/write_html.cc says how it is packed.
import {UseSums, standing, usesReader} from './uses.js';
import {counter, highestNear, lastBefore, rowsOf, stepCurve} from './moments.js';

const placeText = (place) => place >= 0 ? ` on GPU ${place}` : place === -1 ? ' on the host' : '';

/** The instants of one pool: as moments.js has them for a sum. */
class ArenaMoments {
  constructor(pool, all) {
    this.pool = pool;
    this.every = all.every;
    const steps = new Set(pool.levels.map(({step}) => step));
    for (const piece of [...pool.segments, ...pool.blocks]) {
      steps.add(piece.first);
      if (piece.end < all.times.length) steps.add(piece.end);
    }
    // The page has every change, of which this pool's count, or chosen instants, which are all pools'.
    this.steps = this.every ? [...steps].sort((a, b) => a - b) : all.times.map((_, i) => i);
    this.times = this.steps.map((step) => all.times[step]);
    this.reasons = this.every ? this.times.map((ns) => all.reasonAt.get(ns) ?? '') : this.steps.map((step) => all.reasons.get(step) ?? '');
    this.inUse = [];
    this.reserved = [];
    let at = 0, level = {inUse: 0, reserved: 0};
    for (const step of this.steps) {
      for (; at < pool.levels.length && pool.levels[at].step <= step; ++at) level = pool.levels[at];
      this.inUse.push(level.inUse);
      this.reserved.push(level.reserved);
    }
    const highest = this.inUse.reduce((most, value) => Math.max(most, value), 0);
    this.peak = this.inUse.indexOf(highest);
  }
  get length() { return this.times.length; }
  ns(i) { return this.times[i]; }
  reason(i) { return this.reasons[i]; }

  /** The last that began at or before ns; of chosen instants the nearest. */
  at(ns) {
    const before = lastBefore(this.times, ns);
    const nearer = !this.every && before + 1 < this.length && this.times[before + 1] - ns < Math.abs(ns - this.times[before]);
    return nearer ? before + 1 : before;
  }
  pick(ns, tolerance) { return this.every ? highestNear(this.times, this.inUse, ns, tolerance) : this.at(ns); }
  state(i) {
    return new ArenaState(this.pool, this.steps[i], this.times[i], this.inUse[i], this.reserved[i]);
  }
}

const byBegin = (a, b) => a.begin - b.begin;

/**
 * A pool at one step. segments: each with its pieces in order: a block, `several` (blocks that the page has not one by one) or a
 * hole. The figures are of the pieces; what the pool itself says is only compared.
 */
class ArenaState {
  constructor(pool, step, ns, inUse, reserved) {
    this.ns = ns;
    const live = (piece) => piece.first <= step && step < piece.end;
    const blocks = pool.blocks.filter(live), several = pool.several.filter((run) => run.step === step);
    const placed = [...blocks, ...several].filter(({alone}) => !alone).sort(byBegin);
    this.alone = [...blocks, ...several].filter(({alone}) => alone);
    this.rows = new Map();
    blocks.forEach((block) => this.count(block.row, block.bytes, 1, block.uses));
    several.forEach((run) => this.count(null, run.used, run.count, null));
    let at = 0;
    this.segments = pool.segments.filter(live).sort(byBegin).map((segment) => {
      const end = segment.begin + segment.bytes, pieces = [];
      let from = segment.begin;
      for (; at < placed.length && placed[at].begin < end; ++at) {
        const piece = placed[at], to = Math.min(end, piece.begin + piece.bytes);
        if (piece.begin > from) pieces.push({begin: from, bytes: piece.begin - from, hole: true});
        const begin = Math.max(segment.begin, piece.begin);
        if (to > begin) pieces.push({...piece, begin, bytes: to - begin});
        from = Math.max(from, to);
        if (piece.begin + piece.bytes > end) break;  // it goes on in the next segment
      }
      if (end > from) pieces.push({begin: from, bytes: end - from, hole: true});
      return {...segment, pieces};
    });
    const pieces = this.segments.flatMap((segment) => segment.pieces);
    const sum = (list, value) => list.reduce((all, piece) => all + value(piece), 0);
    const holes = pieces.filter(({hole}) => hole).map(({bytes}) => bytes);
    const seen = pool.holes.find((known) => known.step === step);
    const below = (bytes) => sum(holes.filter((hole) => hole < bytes), (hole) => hole);
    this.aloneBytes = sum(this.alone, ({used}) => used);
    this.leftOutSegments = seen ? seen.segments : 0;
    this.leftOutBytes = seen ? seen.bytes : 0;
    this.reserved = reserved;
    this.largestIdle = seen ? seen.largest : holes.reduce((most, hole) => Math.max(most, hole), 0);
    this.belowBlock = seen ? seen.belowBlock : below(pool.largest_block);
    this.belowRefused = seen ? seen.belowRefused : below(pool.largest_refused);
    const drawn = sum(pieces, ({hole, used}) => hole ? 0 : used) + this.aloneBytes;
    this.inUse = this.leftOutSegments > 0 ? inUse : drawn;
    this.idle = sum(holes, (hole) => hole) + sum(pieces, ({hole, bytes, used}) => hole ? 0 : bytes - used);
    // Reserved, but at no address then, as memory that is not mapped.
    this.unplaced = reserved - this.aloneBytes - this.leftOutBytes - sum(this.segments, ({bytes}) => bytes);
    this.idle = this.leftOutSegments > 0 ? reserved - inUse : this.idle + Math.max(0, this.unplaced);
    this.residual = Math.abs(inUse - this.inUse) + Math.abs(reserved - this.inUse - this.idle);
  }
  count(row, bytes, count, uses) {
    const known = this.rows.get(row) || {row, bytes: 0, count: 0, uses: new UseSums()};
    known.bytes += bytes;
    known.count += count;
    known.uses.add(standing(uses, this.ns), bytes);
    this.rows.set(row, known);
  }
}

/** All pools of a run, from what its page has of them. */
export function decodeArenas(run, packed) {
  const all = {
    every: packed.every,
    times: packed.times.map(counter()),
    reasons: new Map(packed.reasons.map(([step, text]) => [step, run.strings[text]])),
    reasonAt: new Map(run.instants.list.map(([ns, reason]) => [ns, reason])),
  };
  const pools = packed.list.map((pool) => ({...pool, text: pool.name + placeText(pool.place), segments: [], blocks: [], several: [], holes: [],
    levels: [], base: BigInt(packed.base)}));
  const first = counter();
  const segments = rowsOf(packed.segments, 6).map(([pool, begin, bytes, captured, further, steps]) => {
    const from = first(further);
    const segment = {begin, bytes, captured: captured !== 0, first: from, end: from + steps};
    pools[pool].segments.push(segment);
    return {pool, begin};
  });
  const begun = counter(), usesOf = packed.uses ? usesReader(packed.uses) : () => null;
  for (const [of, offset, bytes, row, further, steps] of rowsOf(packed.blocks, 6)) {
    const alone = of < 0, segment = segments[of], from = begun(further);
    pools[alone ? -1 - of : segment.pool].blocks.push({begin: alone ? offset : segment.begin + offset, bytes, used: bytes, row, alone,
      first: from, end: from + steps, uses: usesOf(all.times[from])});
  }
  const run_at = counter();
  for (const [further, pool, begin, bytes, used, count] of rowsOf(packed.several, 6)) {
    pools[pool].several.push({step: run_at(further), begin, bytes, used, count, alone: bytes === 0});
  }
  const hole_at = counter();
  for (const [further, pool, largest, belowBlock, belowRefused, left, bytes] of rowsOf(packed.holes, 7)) {
    pools[pool].holes.push({step: hole_at(further), largest, belowBlock, belowRefused, segments: left, bytes});
  }
  const level_at = counter();
  for (const [further, pool, inUse, reserved] of rowsOf(packed.levels, 4)) {
    const {levels} = pools[pool];
    const before = levels.at(-1) ?? {inUse: 0, reserved: 0};
    levels.push({step: level_at(further), inUse: before.inUse + inUse, reserved: before.reserved + reserved});
  }
  for (const pool of pools) {
    pool.moments = new ArenaMoments(pool, all);
    pool.colors = ranks(pool);
    pool.titleOf = (row) => run.strings[packed.rows[row]];
    const course = (which) => pool[which] ? run.decode(pool[which])
      : stepCurve([0, ...pool.levels.map(({step}) => all.times[step])],
        [0, ...pool.levels.map((level) => which === 'in_use' ? level.inUse : level.reserved)], run.endNs);
    pool.curves = () => ['reserved', 'in_use'].map(course);
  }
  return pools;
}

/** Of each site its place among those that held most at the pool's peak, then ever: it has the same colour at all instants. */
function ranks(pool) {
  const weight = new Map();
  pool.blocks.forEach(({row, bytes}) => weight.set(row, Math.max(bytes, weight.get(row) ?? 0)));
  const most = Math.max(1, ...weight.values());
  const atPeak = pool.moments.length > 0 ? pool.moments.state(pool.moments.peak).rows : new Map();
  const worth = (row) => (atPeak.get(row)?.bytes ?? 0) + weight.get(row) / most;
  return new Map([...weight.keys()].sort((a, b) => worth(b) - worth(a)).map((row, rank) => [row, rank]));
}
