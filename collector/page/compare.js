// Several runs over one axis, and their peaks, phases and sites side by side.
import {aligned, Chart, chartOptions, stepped, themed} from './chart.js';
import {choice, h, replace} from './dom.js';
import * as format from './format.js';
import {table, titleColumn} from './table.js';

const COLORS = ['--accent', '--line-1', '--line-2', '--line-3', '--line-4', '--line-5', '--line-6', '--observed'];
const MOST_SITES = 60;

/** The sums that several of the runs have; those of devices first. */
function commonScopes(runs) {
  const names = new Map();
  for (const run of runs) run.scopes.forEach((scope) => names.set(scope.name, (names.get(scope.name) || 0) + 1));
  const main = [...names.keys()].filter((name) => /^(device(:\d+)?|host)$/.test(name) || (name === 'total' && names.has('device')));
  return main.sort((a, b) => a.startsWith('device:') ? (b.startsWith('device:') ? a.localeCompare(b) : -1) : b.startsWith('device:') ? 1 : 0);
}

class Overlay extends Chart {
  /** `relative`: every run from its begin to its end, however long it took. */
  constructor(runs, scope, relative) {
    super();
    this.runs = runs.filter((run) => run.seriesOf(scope));
    this.scope = scope;
    this.relative = relative;
    this.element = this.plot = h('div', {class: 'plot', role: 'img', 'aria-label': `${scope} of ${runs.length} runs over time`});
  }
  draw() {
    const unit = (run) => this.relative ? run.endNs / 100 : 1e9;
    const data = aligned(this.runs.map((run) => ({times: run.times.map((ns) => ns / unit(run)), values: run.seriesOf(this.scope).max})));
    this.show({
      ...chartOptions(this.plot.clientWidth || 800, undefined, this.relative ? (value) => `${Math.round(value * 100) / 100} %` : undefined),
      series: [{}, ...this.runs.map((run) => ({stroke: themed(COLORS[run.index % COLORS.length]), width: 1.6, paths: stepped,
        points: {show: false}}))],
    }, data);
  }
}

const largest = (values) => Math.max(...values.map((value) => value ?? 0));

/** Whether it is the largest of values that differ by what is shown of them. */
const stands = (row, i) => row.values[i] === row.most && row.values.some((value) => format.size(value) !== format.size(row.most));

/** "+12.0 MiB (+3.2 %)"; null where there is nothing to compare. */
function difference(value, base) {
  if (value === null || base === null || value === base) return null;
  const sign = value > base ? '+' : '−';
  const share = base > 0 ? ` (${sign}${(100 * Math.abs(value - base) / base).toFixed(1)} %)` : '';
  return `${sign}${format.size(Math.abs(value - base))}${share}`;
}

/**
 * One column a run, with the difference to the first of those that ended in order; the largest of a row stands out. What a
 * run that did not end in order took is the least that its peaks would have been (`atLeast`): it is compared with nothing, and
 * never looks best.
 */
function columnsOf(runs, atLeast = true) {
  const base = runs.findIndex((run) => run.ended);
  return runs.map((run, i) => ({key: `run${i}`, label: run.ended ? run.shortName() : `${run.shortName()}: ${run.exit}`, number: true,
    cell: (row) => {
      const value = row.values[i];
      if (!run.ended) return h('span', {class: 'died', title: run.exit}, value === null || !atLeast ? format.size(value) : `≥ ${format.size(value)}`);
      const change = i === base ? null : difference(value, row.values[base]);
      return [h('span', {class: stands(row, i) ? 'most' : null}, format.size(value)), change && h('div', {class: 'faint'}, change)];
    }}));
}
function rowOf(title, values) {
  const row = {title, values};
  values.forEach((value, i) => { row[`run${i}`] = value ?? -1; });
  row.most = largest(values);
  return row;
}

function siteRows(runs, scope) {
  const sites = new Map();
  runs.forEach((run, i) => {
    const found = run.scopeByName.get(scope);
    if (!found) return;
    for (const row of run.table(found, 'site').rows) {
      const key = `${row.title}\u0000${row.kind}`;
      if (!sites.has(key)) sites.set(key, {title: row.title, values: runs.map(() => null)});
      sites.get(key).values[i] = (sites.get(key).values[i] ?? 0) + row.bytes;
    }
  });
  return [...sites.values()].map((site) => rowOf(site.title, site.values)).sort((a, b) => b.most - a.most).slice(0, MOST_SITES);
}

function phaseRows(runs, scope) {
  const metric = scope.startsWith('host') ? 'host.peak_bytes' : 'device.peak_bytes';
  const names = [...new Set(runs.flatMap((run) => run.summary.phases.map((phase) => phase.name)))];
  return names.map((name) => rowOf(name, runs.map((run) => {
    const values = run.summary.phases.filter((phase) => phase.name === name).map((phase) => phase.metrics[metric] ?? null);
    return values.length === 0 ? null : values.reduce((most, value) => value === null ? most : Math.max(most ?? 0, value), null);
  }))).filter((row) => row.most > 0);
}

export function compare(runs, onrun, drawn) {
  const scopes = commonScopes(runs);
  const box = h('div');
  const losses = runs.filter((run) => !run.summary.quality.exact);
  let overlay = null;
  let relative = false;
  const plot = h('div');
  const draw = (scope) => {
    if (overlay) overlay.destroy();
    overlay = new Overlay(runs, scope, relative);
    drawn.push(overlay);
    replace(plot, overlay.element);
    if (plot.isConnected) overlay.draw();
  };
  const show = (scope) => {
    draw(scope);
    const of = (rows, label, title, columns) => rows.length > 0 && h('section', {}, h('h2', {}, title),
      table({label, rows, order: {}, columns: [titleColumn(label), ...columns]}));
    replace(box, h('section', {}, h('div', {class: 'tools'}, choice('Axis', [{value: 'time', text: 'Time'},
      {value: 'share', text: 'Share of the run'}], relative ? 'share' : 'time', (value) => {
      relative = value === 'share';
      draw(scope);
    })), plot),
      of(phaseRows(runs, scope), 'phase', 'Phases', columnsOf(runs)),
      of(siteRows(runs, scope), 'site', 'Largest sites at the peak', columnsOf(runs, false)));
    if (box.isConnected && !overlay.u) overlay.draw();
  };
  const peaks = scopes.map((name) => rowOf(name, runs.map((run) => run.scopeByName.get(name)?.bytes ?? null)));
  if (scopes.length > 0) show(scopes[0]);
  return [
    losses.length > 0 && h('div', {class: 'notice bad'}, h('strong', {}, `Not exact: ${losses.map((run) => run.shortName()).join(', ')}`)),
    h('section', {}, h('h2', {}, `${runs.length} runs`), h('div', {class: 'legend'}, runs.map((run) => h('button', {
      type: 'button', title: run.command, onclick: () => onrun(run)},
    h('span', {class: 'swatch', style: {borderColor: `var(${COLORS[run.index % COLORS.length]})`}}), run.shortName(), ' ',
    h('span', {class: run.ended ? 'faint' : 'died'}, run.exit), ' ', h('span', {class: 'faint'}, run.command)))),
    table({label: 'peak', rows: peaks, search: false, order: {key: 'title', down: false}, columns: [{key: 'title', label: 'peak of'}, ...columnsOf(runs)]})),
    scopes.length > 0 && h('nav', {class: 'sticky', 'aria-label': 'Memory shown below'},
      choice('Memory', scopes.map((name) => ({value: name, text: name})), scopes[0], show)),
    box,
  ];
}
