// When blocks were seen used, of a log that says it. collector/timeline/last_use.h has the words, and says
// how a block's uses stand to an instant.
import * as format from './format.js';

/** [name, ns]: 'over': since the last one; 'early': until the first one; 'idle': the while without. uses: null: not known. */
export function standing(uses, ns) {
  if (!uses) return ['not_known', 0];
  if (uses.count === 0) return ['never', 0];
  if (uses.last <= ns) return ['over', ns - uses.last];
  if (uses.first > ns) return ['early', uses.first - ns];
  return uses.idleSince <= ns && uses.idleSince + uses.idle > ns ? ['idle', uses.idle] : ['in_use', 0];
}

/** The uses of a site's blocks: a sum of each name, {name, bytes, shortest, longest}. */
export class UseSums {
  constructor() {
    this.sums = new Map();
  }
  add([name, ns], bytes) {
    const sum = this.sums.get(name) ?? {name, bytes: 0, shortest: ns, longest: ns};
    sum.bytes += bytes;
    sum.shortest = Math.min(sum.shortest, ns);
    sum.longest = Math.max(sum.longest, ns);
    this.sums.set(name, sum);
  }
  /** Of most of the bytes, as the terminal's `pools` says it. */
  most() {
    return [...this.sums.values()].reduce((most, sum) => sum.bytes > most.bytes ? sum : most);
  }
}

/** "last 1.2 s to 3.4 s before". */
export function whenUsed(run, {name, shortest, longest}) {
  const [from, to] = [shortest, longest].map((ns) => format.time(ns, 1));
  return run.useWords.get(name).when.replace('{}', from === to ? from : `${from} to ${to}`);
}

/** What rows sort by: how long they were not used; what was not seen used at all comes first, what was needed last. */
const unusedFor = ({name, longest}) => ({never: Infinity, in_use: 0, not_known: -1})[name] ?? longest;

/** What a row of `bytes` says of uses. */
export const used = (run, sum, bytes) =>
  ({used: whenUsed(run, sum) + (sum.bytes < bytes ? ` (${format.percent(sum.bytes, bytes)})` : ''), unused: unusedFor(sum)});

/** The column of it. */
export const usedColumn = (run) => ({key: 'used', by: 'unused', label: 'used', class: 'used', help: run.uses.note});

/** What reads the packed uses of one block after the other: each is told when the block's first step was. */
export function usesReader(packed) {
  let at = 0;
  return (stepNs) => {
    const known = packed[at++];
    if (known <= 0) return known < 0 ? null : {count: 0};
    const first = stepNs + packed[at];
    const uses = {count: 1, first, last: first + packed[at + 1], idleSince: first + packed[at + 2], idle: packed[at + 3]};
    at += 4;
    return uses;
  };
}
