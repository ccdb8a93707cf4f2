// The data of the page, decoded. collector/write/write_html.cc writes it and says how it is packed.
import {counter, everyMoment, RecordedMoments, rowsOf} from './moments.js';
import {decodeArenas} from './arenas.js';

function decodeSeries(packed, buckets) {
  const max = new Array(buckets + 1).fill(null), min = new Array(buckets + 1).fill(null);
  let at = 0;
  packed.changes.forEach(([step, high, low = high], i) => {
    at += step;
    const next = packed.changes[i + 1];
    const end = next ? at + next[0] : buckets;
    for (let b = at; b < end; ++b) {
      max[b] = high;
      min[b] = low;
    }
  });
  max[buckets] = max[buckets - 1];
  min[buckets] = min[buckets - 1];
  return {name: packed.name, gauge: packed.gauge, max, min};
}

function decodeRow(run, row) {
  const text = (id) => id === null ? null : run.strings[id];
  const [title, kind, bytes, count, module, phase, thread, api, flags, life, stack] = row;
  return {title: text(title), kind: text(kind), bytes, count, module: text(module), phase: text(phase),
    thread, api: text(api), temporary: (flags & 1) !== 0, life, stack};
}

function decodeCall(run, [name, bytes, place, ...calls]) {
  return {n: run.strings[name], v: bytes, place: run.strings[place], at: run.places.get(place), c: calls.map((call) => decodeCall(run, call))};
}

function decodeFile(run, [path, ...pieces]) {
  const lines = new Map(pieces.flatMap(([first, ...texts]) => texts.map((text, i) => [first + i, run.strings[text]])));
  return {path: run.strings[path], lines};
}

const LINES_AROUND = 4;

/** Whether a call is one of a Python script. */
export const isScript = (place) => /\.py( · |$)|^</.test(place);
/** Whether a call is the Python interpreter's own, not one of the script. */
export const isInterpreter = (place) => /^(lib)?python[\d.]*(\.so[\d.]*)?( · |$)/.test(place);

export class Run {
  constructor(packed, index) {
    Object.assign(this, packed);
    this.index = index;
    this.times = packed.time.map(counter());
    const buckets = this.times.length - 1;
    this.series = packed.series.map((series) => decodeSeries(series, buckets));
    this.endNs = this.times[buckets];
    this.moments = new Map();
    if (this.uses) this.useWords = new Map(this.uses.names.map(([name, text, when]) => [name, {text, when}]));
    this.places = new Map(rowsOf(packed.places, 3).map(([text, file, line]) => [text, {file, line}]));  // by the number of its text
    this.files = packed.files.map((file) => decodeFile(this, file));
    this.scopeByName = new Map(this.scopes.map((scope) => [scope.name, scope]));
    this.command = this.summary.run.command.join(' ') || this.log;
    const {kind, code, signal} = this.summary.run.exit;
    this.exit = kind === 'signal' ? `killed by ${signal}` : kind === 'exit' ? `exit ${code}` : 'no exit seen';
    this.ended = kind === 'exit' && code === 0;  // else its figures are of a part of what it was to do
  }

  /** Devices first, then the host: what one looks at first. */
  mainScopes() {
    const main = this.scopes.filter((scope) => scope.kind === '' && (scope.device >= 0 || scope.name === 'host'));
    main.sort((a, b) => (b.device >= 0) - (a.device >= 0) || a.device - b.device);
    return main.length > 0 ? main : this.scopes.slice(0, 1);
  }

  /** What grows in the scope at each step: rows of the phase of the largest. */
  growthOf(scope) {
    if (scope.kind !== '' || (scope.device < 0 && scope.name !== 'host')) return [];
    const rows = (this.summary.growth ?? []).filter(({side, device = -1}) => scope.name.startsWith(side) && device === scope.device);
    return rows.filter(({phase}) => phase === rows[0].phase);
  }

  kindsOf(scope) {
    const kinds = this.scopes.filter((other) => other.kind !== '' && other.name.startsWith(`${scope.name}/`));
    return kinds.filter((kind) => kind.counts).concat(kinds.filter((kind) => !kind.counts));
  }

  /** Whether it is the only part of a sum, and so the same. */
  isWhole(scope) {
    const sum = scope.kind !== '' ? scope.name.slice(0, scope.name.indexOf('/'))
      : scope.name === 'device' ? this.scopes.find(({device}) => device >= 0)?.name : null;
    const whole = sum && sum !== scope.name && this.scopeByName.get(sum);
    return Boolean(whole) && scope.counts && whole.bytes === scope.bytes && whole.time_ns === scope.time_ns;
  }

  /** The stack that holds most of a row by site, innermost first; null where none was recorded. */
  stackOf(row) {
    if (!this.stacks) {
      this.stacks = new Map();
      const tables = [...this.scopes.map((scope) => scope.tables.site), ...this.live_at_exit];
      for (const known of tables.flatMap((table) => this.rows(table.rows))) {
        const key = `${known.kind}\u0000${known.title}`;
        if (known.stack && !this.stacks.has(key)) this.stacks.set(key, known.stack);
      }
    }
    const packed = row.stack || this.stacks.get(`${row.kind}\u0000${row.title}`);
    return packed ? rowsOf(packed, 2).map(([n, place]) => ({n: this.strings[n], place: this.strings[place], at: this.places.get(place)})) : null;
  }

  /** The lines around a call, and what they held of a sum at its peak; null: they are not in the page. */
  source(scope, at) {
    if (!at) return null;
    const {path, lines} = this.files[at.file];
    if (lines.size === 0) return {path, changed: true};
    const held = (number) => rowsOf(scope.lines, 3).find(([file, line]) => file === at.file && line === number)?.[2] ?? 0;
    const near = [...lines].filter(([number]) => Math.abs(number - at.line) <= LINES_AROUND);
    return {path, line: at.line, lines: near.map(([number, line]) => ({number, text: line, bytes: held(number)}))};
  }

  /** How what was live at the scope's peak was used: {sums, idleBytes, rows, otherBytes, otherRows}; null: not known. */
  usesOf(scope) {
    const packed = this.uses?.devices[scope.name];
    if (!packed) return null;
    const names = [...this.useWords.keys()];
    const rows = rowsOf(packed.rows, 7).map(([use, title, kind, bytes, count, shortest, longest]) =>
      ({name: names[use], title: this.strings[title], kind: this.strings[kind], bytes, count, shortest, longest}));
    return {sums: names.map((name, i) => ({text: this.useWords.get(name).text, bytes: packed.bytes[i]})), idleBytes: packed.idle_bytes,
      rows, otherBytes: packed.other_bytes, otherRows: packed.other_rows};
  }

  seriesOf(name) {
    return this.series.find((series) => series.name === name);
  }

  table(scope, by) {
    const packed = scope.tables[by];
    return {rows: packed.rows.map((row) => decodeRow(this, row)), otherBytes: packed.other_bytes,
      otherRows: packed.other_rows};
  }
  rows(packed) {
    return packed.map((row) => decodeRow(this, row));
  }
  /** A packed tree of calls; its root is called `text`. */
  tree(packed, text) {
    return {...decodeCall(this, packed), n: text};
  }
  /** The tree of what each call (by its number) holds by itself. What no call is known of is a cell of its own. */
  treeOf(bytesOf, text, total) {
    const {calls} = this.instants, nodes = new Map();
    const nodeOf = (call) => {
      if (!nodes.has(call)) {
        const node = {n: call === 0 ? text : this.strings[calls[3 * call + 1]], v: 0, place: this.strings[calls[3 * call + 2]],
          at: this.places.get(calls[3 * call + 2]), c: []};
        nodes.set(call, node);
        if (call !== 0) nodeOf(calls[3 * call]).c.push(node);
      }
      return nodes.get(call);
    };
    const root = nodeOf(0);
    let known = 0;
    for (const [call, bytes] of bytesOf) {
      if (bytes <= 0) continue;
      known += bytes;
      for (let at = call; ; at = calls[3 * at]) {
        nodeOf(at).v += bytes;
        if (at === 0) break;
      }
    }
    root.v = total;
    if (total > known) root.c.push({n: 'smaller ones', v: total - known, place: '', c: []});
    return root;
  }
  /** How a sum was made up over time, by 'site' or 'tag'; null where the page does not have it. */
  stackedBy(scope, way) {
    const packed = this.stacked[scope.name]?.[way];
    if (!packed || packed.moments.length === 0) return null;
    const parts = packed.parts.map((id) => ({name: this.strings[id], values: []})), times = [];
    const now = parts.map(() => 0);
    let ns = 0;
    for (let at = 0; at < packed.moments.length; at += 1 + parts.length) {
      times.push(ns += packed.moments[at]);
      parts.forEach((part, i) => part.values.push(now[i] += packed.moments[at + 1 + i]));
    }
    return {times, parts};
  }

  shortName() {
    return this.log.replace(/^.*\//, '').replace(/\.(gplog|gpbundle|gpz|zst)$/, '');
  }

  /** The instants of the scope that can be looked at: all, if the page has them, else those that were recorded. */
  momentsOf(scope) {
    if (!this.moments.has(scope)) this.moments.set(scope, everyMoment(this, scope) || new RecordedMoments(this, scope));
    return this.moments.get(scope);
  }

  /** Pools whose memory is part of the scope; without one all. */
  arenasOf(scope) {
    if (!this.pools) return [];
    this.decodedArenas = this.decodedArenas || decodeArenas(this, this.pools);
    const host = !scope || scope.name === 'total' || scope.name.startsWith('host');
    const holds = ({place}) => place < 0 ? host : !scope || scope.name === 'total' || (scope.name.startsWith('device') && (scope.device < 0 || scope.device === place));
    return this.decodedArenas.filter(holds);
  }
  /** A course over time that is packed as those of sums are. */
  decode(packed) {
    const {max} = decodeSeries(packed, this.times.length - 1);
    return {times: this.times, values: max};
  }

  /** Whether memory of this kind, on this device, is part of the scope. */
  holds(scope, device, path) {
    const [side, kind] = path.split('.');
    if (scope.name !== 'total' && !scope.name.startsWith(side)) return false;
    if (scope.device >= 0 && scope.device !== device) return false;
    return scope.kind !== '' ? scope.kind === kind : this.counts(side, kind);
  }
  /** Whether the kind counts into the sum of its side. */
  counts(side, kind) {
    const scope = this.scopeByName.get(`${side}/${kind}`);
    return scope ? scope.counts : true;
  }
}

export function load() {
  const data = JSON.parse(document.getElementById('data').textContent);
  return {version: data.version, answers: data.whatif, runs: (data.runs || []).map((packed, i) => new Run(packed, i))};
}
