// "Buffers and kernels": of each row of a device's peak its life as a bar, and which copies, fills and kernels it was given to.
import {h, replace} from './dom.js';
import * as format from './format.js';
import {rowsOf} from './moments.js';
import {titled} from './sections.js';
import {NARROW, table} from './table.js';

/** The words of collector/summary/site_title.cc, with their marks. Those of calls have a column each, in this order. */
const CALLS = {'copied in': '↓', 'copied to from other memory': '→', filled: '▪', 'a texture or surface': 'T', 'copied to other memory': '←',
  'copied out': '↑', 'passed on': 'P'};
const KERNELS = {'read by': ['R', 'read'], 'written by': ['W', 'written'], 'read and written by': ['RW', 'read and written'],
  'given to': ['G', 'given to; its name does not say what for']};
const LIVES = {early: 'allocated, not yet seen used', needed: 'from first to last use', kept: 'kept after its last use', unknown: 'when it was used is not known'};

const LEAST_SHARE = 0.05;  // of the peak: what smaller rows hold is one row

/** A row with its uses by column. */
function decodeRow(run, row, sampled) {
  const uses = new Map();
  for (const [verbId, kernelId, count] of rowsOf(row.uses, 3)) {
    const [verb, kernel] = [verbId, kernelId].map((id) => run.strings[id]);
    const times = count > 1 || sampled ? `, ${format.counted(count, 'time')}${sampled && kernel ? ' or more' : ''}` : '';
    uses.set(kernel ? `kernel ${kernel}` : verb, {verb, kernel, mark: kernel ? KERNELS[verb][0] : CALLS[verb], words: `${kernel ? `${verb} ${kernel}` : verb}${times}`});
  }
  return {...row, title: run.strings[row.title], uses, end: row.freed ?? run.endNs};
}

/** The parts of its life, [name, begin, end]. What was never seen used is early to its end. */
function livesOf({bytes, unused, allocated, first, last, end}) {
  if (first === null) return [[unused === bytes ? 'early' : 'unknown', allocated, end]];
  return [['early', allocated, first], ['needed', first, last], ['kept', last, end]];
}

function lifeWords({title, bytes, unused, allocated, first, last, freed, end}) {
  const uses = first !== null ? `, first used at ${format.instant(first)}, last at ${format.instant(last)}` : unused === bytes ? ', never seen used' : '';
  return `${title}: allocated at ${format.instant(allocated)}${uses}, ${freed === null ? 'not freed by the end' : `freed at ${format.instant(freed)}`}` +
    (last === null ? '' : `, ${format.time(end - last)} after its last use`);
}

/** What has a column: calls in their order, then kernels, those that had to do with most bytes first. */
function columnsOf(rows) {
  const columns = new Map(Object.keys(CALLS).map((verb) => [verb, {key: verb, name: verb, bytes: 0}]));
  for (const row of rows) {
    for (const [key, {kernel}] of row.uses) {
      if (!columns.has(key)) columns.set(key, {key, name: kernel, bytes: 0, kernel});
      columns.get(key).bytes += row.bytes;
    }
  }
  const seen = [...columns.values()].filter(({bytes}) => bytes > 0);
  return {calls: seen.filter(({kernel}) => !kernel), kernels: seen.filter(({kernel}) => kernel).sort((a, b) => b.bytes - a.bytes || a.name.localeCompare(b.name, 'en', {numeric: true}))};
}

/** To which mark an arrow key leads: along the row, or to the nearest of the row above or below. */
function next(from, key) {
  const marks = (of) => [...of.querySelectorAll('.at')], line = from.closest('tr'), column = (mark) => mark.closest('th, td').cellIndex;
  const along = {ArrowLeft: -1, ArrowRight: 1}[key], other = {ArrowUp: line.previousElementSibling, ArrowDown: line.nextElementSibling}[key];
  if (along) return marks(line)[marks(line).indexOf(from) + along];
  const far = (mark) => Math.abs(column(mark) - column(from));
  return other && marks(other).reduce((best, mark) => far(mark) < far(best) ? mark : best);
}

function matrix(run, scope, rows, mostKernels) {
  const begin = Math.min(...rows.map(({allocated}) => allocated)), length = Math.max(1, ...rows.map(({end}) => end - begin));
  const at = (ns) => 100 * (ns - begin) / length;
  const life = (row) => h('button', {type: 'button', class: 'life at', 'aria-label': lifeWords(row)},
    livesOf(row).map(([name, from, to]) => h('span', {class: name, style: {left: `${at(from)}%`, right: `${100 - at(to)}%`}})),
    h('i', {style: {left: `${at(scope.time_ns)}%`}}));
  const {calls, kernels} = columnsOf(rows);
  const column = ({key, name}, i) => ({key: `use${i}`, by: `has${i}`, label: h('span', {title: name}, name), cell: ({title, uses}) => {
    const use = uses.get(key);
    return use && h('button', {type: 'button', class: `use ${use.kernel ? use.mark : ''} at`, tabindex: '-1', 'aria-label': `${title}: ${use.words}`}, use.mark);
  }});
  const columns = [...calls, ...kernels.slice(0, mostKernels)];
  const lines = rows.map((row) => ({...row, ...Object.fromEntries(columns.map(({key}, i) => [`has${i}`, row.uses.has(key) ? row.bytes : 0]))}));
  const rest = rows.reduce((left, {bytes}) => left - bytes, scope.bytes);
  const seen = new Set(rows.flatMap((row) => [...livesOf(row).map(([name]) => name), ...[...row.uses.values()].map(({verb}) => verb)]));
  const size = (bytes, text) => [h('strong', {}, format.size(bytes)), ` ${format.percent(bytes, scope.bytes).replace(' ', '\u00a0')} ${text}`];
  return {more: kernels.length - mostKernels, element: [
    h('ul', {class: 'key'}, Object.entries(LIVES).filter(([name]) => seen.has(name)).map(([name, text]) => h('li', {}, h('span', {class: `dot ${name}`}), text)),
      h('li', {}, h('span', {class: 'dot peak'}), 'the peak'), Object.entries(KERNELS).filter(([verb]) => seen.has(verb)).map(([, [mark, text]]) => h('li', {}, h('span', {class: `use ${mark}`}, mark), ` ${text}`))),
    table({label: 'Buffers and kernels', rows: lines, search: false, order: {key: 'title', down: true},
      footer: rest > 0 ? [[h('th', {scope: 'row', colspan: String(columns.length + 1)}, size(rest, 'the rest'))]] : [],
      columns: [{key: 'title', by: 'bytes', label: `buffer, ${format.instant(begin)} to ${format.instant(begin + length)}`, class: 'title', cell: (row) => [h('span', {title: row.title},
        size(row.bytes, row.title), row.count > 1 && h('span', {class: 'faint'}, ` ×${format.count(row.count)}`)), life(row)]}, ...columns.map(column)]}),
  ]};
}

/** null: the log has no uses of what this peak was made of, or of little of it. */
export function buffers(run, scope) {
  const packed = run.buffers[scope.name];
  const all = packed?.rows.map((row) => decodeRow(run, row, packed.sampled)) ?? [];
  const used = all.some(({uses}) => uses.size > 0), known = all.reduce((sum, {bytes}) => sum + bytes, 0);
  if (!used || known < LEAST_SHARE * scope.bytes) return null;
  const large = all.filter(({bytes}) => bytes >= LEAST_SHARE * scope.bytes);
  const box = h('div'), said = h('p', {class: 'details', 'aria-live': 'polite'}, 'Point at a bar or a mark, or go there by Tab and the arrow keys: here it is in words.');
  const say = ({target}) => {
    const mark = target.closest('.at');
    if (mark) said.textContent = mark.getAttribute('aria-label');
  };
  let rows = large.length > 0 ? large : all, mostKernels = NARROW.matches ? 6 : 12;
  const button = (text, onclick) => h('button', {type: 'button', class: 'plain', onclick: () => {
    onclick();
    show();
  }}, text);
  const show = () => {
    const {more, element} = matrix(run, scope, rows, mostKernels);
    replace(box, element, h('div', {class: 'tools'},
      more > 0 && button(`Show ${format.counted(more, 'more kernel')}`, () => mostKernels = Infinity),
      rows.length < all.length && button(`Show ${format.counted(all.length - rows.length, 'smaller row')}`, () => rows = all)));
  };
  show();
  return titled('buffers', 'Buffers and kernels', h('div', {onpointerover: say, onfocusin: say, onclick: say, onkeydown: (event) => {
    const to = event.target.closest('.at') && next(event.target, event.key);
    if (!to) return;
    event.preventDefault();
    to.focus();
  }}, box), said, packed.note && h('p', {class: 'faint line'}, packed.note));
}
