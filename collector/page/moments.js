// The instants at which one can look at what was live. Both kinds have length, peak (the index of the peak), ns(i),
// reason(i), pick(ns, tolerance), live(i), whose rows and what is not shown add up to its total, and tree(i), its calls.

/** Of a flat list of numbers its rows of `width`. */
export const rowsOf = (flat, width) => Array.from({length: flat.length / width}, (_, i) => flat.slice(i * width, (i + 1) * width));

/** Of values that are packed as how much further on than the one before. */
export function counter() {
  let sum = 0;
  return (by) => sum += by;
}

/** Rows of the same site, as one list, the largest first. */
class Rows {
  constructor(run) {
    this.run = run;
    this.rows = new Map();
  }
  add(index, bytes, count) {
    const row = this.rows.get(index) || {index, bytes: 0, count: 0};
    row.bytes += bytes;
    row.count += count;
    this.rows.set(index, row);
  }
  list() {
    const held = [...this.rows.values()].filter((row) => row.bytes > 0).sort((a, b) => b.bytes - a.bytes);
    return held.map(({index, bytes, count}) => {
      const [title, kind, module] = this.run.instants.rows[index].map((id) => this.run.strings[id]);
      return {title, kind, module, bytes, count};
    });
  }
}

/** Of a log with many changes: what the collector took stock of. */
export class RecordedMoments {
  constructor(run, scope) {
    this.run = run;
    this.scope = scope;
    this.all = run.instants.list;
    this.every = false;
    const peak = this.all.findIndex(([, reason]) => reason.startsWith('peak of ') &&
      reason.slice('peak of '.length).split(', ').includes(scope.name));
    this.peak = peak >= 0 ? peak : this.pick(scope.time_ns);
  }
  get length() { return this.all.length; }
  ns(i) { return this.all[i][0]; }
  reason(i) { return this.all[i][1]; }
  pick(ns) {
    let best = 0;
    for (let i = 1; i < this.length; ++i) {
      if (Math.abs(this.ns(i) - ns) < Math.abs(this.ns(best) - ns)) best = i;
    }
    return best;
  }
  live(i) {
    const rows = new Rows(this.run);
    let otherBytes = 0, otherRows = 0;
    for (const [device, path, flat, restBytes, restRows] of this.all[i][2]) {
      if (!this.run.holds(this.scope, device, path)) continue;
      rowsOf(flat, 3).forEach((row) => rows.add(...row));
      otherBytes += restBytes;
      otherRows += restRows;
    }
    const list = rows.list();
    return {rows: list, otherBytes, otherRows, total: list.reduce((sum, row) => sum + row.bytes, otherBytes)};
  }
  /** Its calls, as far as the page has them. */
  tree(i) {
    const {places} = this.run.instants, bytesOf = new Map();
    for (const [place, bytes] of rowsOf(this.all[i][3], 2)) {
      const [device, path, , call] = places[place];
      if (this.run.holds(this.scope, device, path)) bytesOf.set(call, (bytesOf.get(call) || 0) + bytes);
    }
    return this.run.treeOf(bytesOf, this.scope.text, this.live(i).total);
  }
}

/** Of times in order the index of the last at or before ns; 0 if there is none. */
export function lastBefore(times, ns) {
  let low = 0, high = times.length;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (times[middle] <= ns) low = middle;
    else high = middle;
  }
  return low;
}

/** Of values in order of time the index of the highest within the tolerance, which is what one aims at; if none begins there, what held at ns. */
export function highestNear(times, values, ns, tolerance) {
  let best = lastBefore(times, ns - tolerance);
  const end = lastBefore(times, ns + tolerance);
  if (best === end) return best;
  for (let i = ++best; i <= end; ++i) {
    if (values[i] > values[best]) best = i;
  }
  return best;
}

/** Times and values to draw: of steps at one time the highest, and half a nanosecond later what remains. */
export function stepCurve(steps, totals, endNs) {
  const times = [], values = [];
  for (let i = 0; i < steps.length;) {
    const ns = steps[i];
    let highest = 0, last = 0;
    for (; i < steps.length && steps[i] === ns; ++i) {
      last = totals[i];
      highest = Math.max(highest, last);
    }
    times.push(ns);
    values.push(highest);
    if (last === highest) continue;
    times.push(ns + 0.5);
    values.push(last);
  }
  if (times.length > 0 && endNs > times.at(-1)) {
    times.push(endNs);
    values.push(values.at(-1));
  }
  return {times, values};
}

/** [ns, parts…] of each step of a side; a part is place, bytes, count. */
function stepsOf(flat) {
  const steps = [];
  let ns = 0;
  for (const [since, ...part] of rowsOf(flat, 4)) {
    if (since < 0) steps.at(-1).parts.push(part);
    else steps.push({ns: ns += since, parts: [part]});
  }
  return steps;
}

/** All that the scope ever held: after each step that changed it. The first moment is the begin, when it held nothing. */
class EveryMoment {
  constructor(run, scope, steps) {
    this.run = run;
    this.scope = scope;
    this.every = true;
    this.times = [0];
    this.totals = [0];
    this.ends = [0];  // of each moment: how many parts lead to it
    this.parts = [];  // row, bytes, count, call
    this.reasons = new Map(run.instants.list.map(([ns, reason]) => [ns, reason]));
    const places = run.instants.places.map(([device, path, row, call]) => run.holds(scope, device, path) ? [row, call] : null);
    let total = 0;
    for (const {ns, parts} of steps) {
      const before = this.parts.length;
      for (const [place, bytes, count] of parts) {
        if (!places[place]) continue;
        this.parts.push([places[place][0], bytes, count, places[place][1]]);
        total += bytes;
      }
      if (this.parts.length === before) continue;
      this.times.push(ns);
      this.totals.push(total);
      this.ends.push(this.parts.length);
    }
    const highest = this.totals.reduce((most, value) => Math.max(most, value), 0);
    this.peak = this.totals.indexOf(highest);
  }
  get length() { return this.times.length; }
  ns(i) { return this.times[i]; }
  reason(i) { return this.reasons.get(this.times[i]) || ''; }

  pick(ns, tolerance) { return highestNear(this.times, this.totals, ns, tolerance); }
  live(i) {
    const rows = new Rows(this.run);
    for (const [row, bytes, count] of this.parts.slice(0, this.ends[i])) rows.add(row, bytes, count);
    return {rows: rows.list(), otherBytes: 0, otherRows: 0, total: this.totals[i]};
  }
  tree(i) {
    const bytesOf = new Map();
    for (const [, bytes, , call] of this.parts.slice(0, this.ends[i])) bytesOf.set(call, (bytesOf.get(call) || 0) + bytes);
    return this.run.treeOf(bytesOf, this.scope.text, this.totals[i]);
  }
  curve() {
    return stepCurve(this.times, this.totals, this.run.endNs);
  }
}

/** null if the page does not have all changes of the scope. */
export function everyMoment(run, scope) {
  const {device, host} = run.instants;
  const sides = scope.name === 'total' ? [device, host] : [scope.name.startsWith('device') ? device : host];
  if (sides.some((side) => side === null)) return null;
  const steps = sides.flatMap(stepsOf);
  if (sides.length > 1) steps.sort((a, b) => a.ns - b.ns);
  const every = new EveryMoment(run, scope, steps);
  return every.totals[every.peak] === scope.bytes ? every : null;
}
