// "Inside the pools": what a pool had in use over time, and at the chosen instant its map and who holds what.
import {choice, h, replace} from './dom.js';
import * as format from './format.js';
import {ArenaMap, siteColor} from './arena_map.js';
import {titled} from './sections.js';
import {countColumn, sumTable} from './table.js';
import {Timeline} from './timeline.js';
import {used, usedColumn} from './uses.js';

/** Rows by site that add up to what is in use. */
function sites(run, pool, state) {
  const rows = [...state.rows.values()].filter(({bytes}) => bytes > 0).map(({row, bytes, count, uses}) => ({
    ...run.uses && used(run, uses.most(), bytes), bytes, count, title: row === null ? 'smaller blocks, which the page has not one by one' : pool.titleOf(row),
    color: siteColor(row === null ? undefined : pool.colors.get(row))}));
  const whole = state.inUse, sum = rows.reduce((all, {bytes}) => all + bytes, 0);
  return sumTable({label: 'Who holds what of the pool', rows, whole, of: 'in use', rest: [['in segments that the page does not have', whole - sum]], search: false,
    left: [{key: 'title', label: 'site', class: 'title', cell: (row) => h('span', {title: row.title, class: 'keyed', style: {borderColor: row.color}}, row.title)}],
    right: [countColumn('count', 'blocks'), ...run.uses ? [usedColumn(run)] : []]});
}

/** What of the idle bytes the largest requests could not have had. */
function fragmentation(pool, state) {
  const parts = [[pool.largest_block, state.belowBlock, 'block'], [pool.largest_refused, state.belowRefused, 'refused request']]
    .filter(([bytes]) => bytes > 0)
    .map(([bytes, idle, what]) => `${format.size(idle)} (${format.percent(idle, state.idle)}) in holes too small for its largest ${what}, ${format.size(bytes)}`);
  return state.idle > 0 && parts.length > 0 && h('p', {}, h('strong', {}, 'Fragmentation: '), parts.join('; '), '.');
}

function figures(pool, moments, index, state) {
  const reason = index === moments.peak ? ' · its peak' : moments.reason(index) === '' ? '' : ` · ${moments.reason(index)}`;
  const exact = state.residual === 0, whole = !pool.has_older;
  return [
    h('h3', {}, `${pool.text} at ${format.instant(moments.ns(index), 6)}`, h('span', {class: 'faint'}, reason)),
    h('p', {class: 'total'}, `${format.size(state.inUse)} in use`, h('span', {class: 'faint'}, whole ?
      ` of ${format.size(state.reserved)} reserved · ${format.size(state.idle)} idle (largest ${format.size(state.largestIdle)})` :
      ' of what it has handed out since the attach')),
    whole && fragmentation(pool, state),
    whole && h('p', {class: exact ? 'faint sum' : 'sum died'}, `${format.count(state.inUse)} in use + ${format.count(state.idle)} idle = ${format.count(state.reserved)} bytes reserved, `,
      exact ? 'residual 0' : `residual ${format.bytes(state.residual)}`),
    whole && state.unplaced > 0 && h('p', {class: 'faint'}, `${format.size(state.unplaced)} of what is idle was at no address then.`),
    state.leftOutSegments > 0 && h('p', {class: 'faint'}, `${format.counted(state.leftOutSegments, 'segment')} of ${format.size(state.leftOutBytes)} are left out of the map.`),
    state.aloneBytes > 0 && h('p', {class: 'faint'}, `${format.size(state.aloneBytes)} are in use in memory that the log does not have.`),
  ];
}

/** One pool: a curve, and what it had at the instant that is chosen there. */
class ArenaView {
  constructor(run, pool) {
    const {moments} = pool;
    this.run = run;
    this.pool = pool;
    this.said = h('div', {'aria-live': 'polite'});
    this.map = new ArenaMap(run, pool);
    this.sites = h('div');
    const scope = {text: pool.text, bytes: pool.peak, time_ns: pool.peak_ns};
    const [reserved, inUse] = pool.curves();
    this.timeline = new Timeline(run, scope, moments, (index) => this.show(index), () => [
      ...pool.has_older ? [] :
        [{...reserved, low: null, label: 'reserved', title: 'what the pool had of the driver or the heap', color: '--observed-2', dash: [5, 3], width: 1.4}],
      {...inUse, label: 'in use', color: '--accent', fill: true, width: 1.8}]);
    this.element = h('div', {}, this.timeline.element, h('div', {class: 'live'}, this.said, this.map.element,
      h('p', {class: 'faint hint'}, 'Each bar is a segment, to scale; what is grey in it is idle. Point at a block, or move with ', h('kbd', {}, '←'), ' ',
        h('kbd', {}, '→'), ' ', h('kbd', {}, '↑'), ' ', h('kbd', {}, '↓'), '.'), this.sites));
    this.show(this.timeline.index);
  }
  show(index) {
    const {moments} = this.pool, state = moments.state(index);
    replace(this.said, figures(this.pool, moments, index, state));
    this.map.show(state);
    replace(this.sites, sites(this.run, this.pool, state));
  }
  draw() {
    this.timeline.draw();
    this.map.draw();
  }
  destroy() {
    this.timeline.destroy();
    this.map.destroy();
  }
}

/** The section of a memory's pools: {element, draw, destroy, follow(ns)}; null if it has none. */
export function arenaSection(run, scope) {
  const pools = run.arenasOf(scope);
  if (pools.length === 0) return null;
  const box = h('div');
  let view = null, drawn = false;
  const show = (pool) => {
    if (view) view.destroy();
    view = new ArenaView(run, pool);
    replace(box, view.element);
    if (drawn) view.draw();
  };
  const largest = pools.reduce((most, pool) => pool.peak > most.peak ? pool : most);
  show(largest);
  const picker = pools.length > 1 && h('div', {class: 'tools'}, choice('Pool', pools.map((pool) => ({value: pool.text, text: pool.text})), largest.text,
    (text) => show(pools.find((pool) => pool.text === text))));
  const few = !largest.moments.every && h('p', {class: 'faint'},
    `There are too many changes for the page: it has ${format.counted(largest.moments.length, 'instant')}. `, h('code', {}, 'gpupeak arenas --at'), ' shows any.');
  return {
    element: titled('pools', 'Inside the pools', few, picker, box),
    draw() {
      drawn = true;
      view.draw();
    },
    destroy() { view.destroy(); },
    follow(ns) { view.timeline.choose(view.pool.moments.at(ns)); },
  };
}
