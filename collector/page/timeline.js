// Memory over time: the sum, its kinds, what was observed beside it, the phases, and a moment that a
// click or the arrow keys choose.
import uPlot from 'uplot';
import {aligned, Chart, chartOptions, place, stepped, themed} from './chart.js';
import {h, replace} from './dom.js';
import * as format from './format.js';
import {rowsOf} from './moments.js';

const KIND_COLORS = ['--line-1', '--line-2', '--line-3', '--line-4', '--line-5', '--line-6'];
const PART_COLORS = ['--accent', '--line-1', '--line-2', '--line-3', '--line-4', '--line-5', '--observed'];
const LANE_HEIGHT = 20;
const CLICK_TOLERANCE = 4, AIM = 2;
const LEAST_INSTANCE_WIDTH = 6;

/** The driver's readings. */
function observedCurve(readings) {
  return {times: readings.map(([ns]) => ns), values: readings.map(([, bytes]) => bytes)};
}

/** A sum over time: each step of it, else the largest and the smallest value of each bucket. */
function sumCurve(run, scope) {
  const moments = run.momentsOf(scope);
  if (moments.every) return moments.curve();
  const series = run.seriesOf(scope.name);
  const varies = series.min.some((value, i) => value !== series.max[i]);
  return {times: run.times, values: series.max, low: varies ? series.min : null};
}

/** What samples say: where they changed, since nothing is known between them. */
function sampledCurve(run, series) {
  const at = series.max.flatMap((value, i) => value !== null && value !== series.max[i - 1] && i < series.max.length - 1 ? [i] : []);
  return {times: at.map((i) => run.times[i]), values: at.map((i) => series.max[i]), readings: true, dotted: true};
}

/** What grows at each step, as a line from where the curve is when that begins. */
function growthCurve(run, scope, sum) {
  const rows = run.growthOf(scope);
  if (rows.length === 0) return [];
  const begin = Math.min(...rows.map((row) => row.begin_ns)), end = Math.max(...rows.map((row) => row.end_ns));
  const each = rows.reduce((bytes, row) => bytes + row.bytes_each, 0), grown = rows.reduce((bytes, row) => bytes + row.grown_bytes, 0);
  const had = (sum.low ?? sum.values)[Math.max(0, sum.times.findLastIndex((time) => time <= begin))] ?? 0;
  return [{label: 'growth', says: `+${format.size(each)} at each ${rows[0].phase}`, title: rows.map(({text}) => text).join('\n'), straight: true,
    readings: true, times: [begin, end], values: [had, had + grown], color: '--found', dash: [6, 4], width: 2.5}];
}

/** What the chart of a scope shows. */
function curvesOf(run, scope) {
  const curves = [];
  const kinds = run.kindsOf(scope).filter((kind) => run.seriesOf(kind.name));
  if (kinds.filter((kind) => kind.counts).length > 1 || kinds.some((kind) => !kind.counts)) {
    kinds.forEach((kind, i) => curves.push({
      ...sumCurve(run, kind), low: null, label: kind.kind, color: KIND_COLORS[i % KIND_COLORS.length],
      width: 1.2, hidden: !kind.counts, title: kind.counts ? '' : 'not in the sum',
    }));
  }
  const device = run.summary.devices.find(({ordinal}) => ordinal === scope.device);
  if (device && device.ledger && scope.kind === '' && device.ledger.readings.length > 0) {
    curves.push({label: 'nvidia-smi', title: 'memory in use as the driver says, by all processes, read at the dots', readings: true,
      ...observedCurve(device.ledger.readings), color: '--observed', dash: [5, 3], width: 1.4});
  }
  const gauges = scope.name === 'host' ? ['host.rss'] : [`${scope.name}/pool reserved`];
  for (const series of gauges.map((name) => run.seriesOf(name)).filter(Boolean)) {
    const isRss = series.name.endsWith('rss');
    curves.push({label: isRss ? 'RSS, sampled' : 'pool reserved', color: '--observed-2', dash: [2, 3], width: 1.4,
      ...(isRss ? sampledCurve(run, series) : {times: run.times, values: series.max}),
      title: isRss ? 'resident memory of the process at the dots: only pages that were touched' : 'held by the pools'});
  }
  if (device && device.total_bytes && scope.kind === '') {
    const highest = Math.max(scope.bytes, ...curves.filter(({readings}) => readings).flatMap(({values}) => values));
    curves.push({label: 'card', title: 'all the memory that the GPU has', times: [0, run.endNs], values: [device.total_bytes, device.total_bytes],
      color: '--faint', dash: [8, 4], width: 1, limit: true, hidden: highest < device.total_bytes / 4});
  }
  if (run.seriesOf(scope.name)) {  // above its parts
    const sum = {...sumCurve(run, scope), label: scope.kind || 'sum', color: '--accent', fill: true, width: 1.8};
    curves.push(sum, ...growthCurve(run, scope, sum));
  }
  return curves;
}

/** The sum, taken apart by site or tag: areas on top of each other, the uppermost first, each with what lies below it. */
export function stackedCurves(run, scope, way) {
  const {times, parts} = run.stackedBy(scope, way);
  const ends = run.endNs > times.at(-1);
  const total = times.map(() => 0), curves = [];
  parts.forEach((part, i) => {
    part.values.forEach((value, at) => { total[at] += value; });
    curves.unshift({label: part.name, title: i === parts.length - 1 ? 'all that is not named here' : part.name,
      color: i === parts.length - 1 ? '--hole-edge' : PART_COLORS[i], area: true, width: 1,
      times: ends ? [...times, run.endNs] : times, values: ends ? [...total, total.at(-1)] : [...total]});
  });
  curves.forEach((curve, i) => { curve.below = curves[i + 1]; });
  return curves;
}

export class Timeline extends Chart {
  /** `onchoose(index)`: one of the moments was chosen. curves(): what is drawn, from the lowest up. */
  constructor(run, scope, moments, onchoose, curves = () => curvesOf(run, scope)) {
    super();
    this.run = run;
    this.scope = scope;
    this.moments = moments;
    this.onchoose = onchoose;
    this.curvesOf = curves;
    this.index = moments.peak;
    this.lanes = h('div', {class: 'lanes', 'aria-hidden': 'true'});
    this.legend = h('div', {class: 'legend'});
    this.plotBox = h('div', {class: 'plot'});
    this.slider = h('div', {
      class: 'timeline', tabindex: '0', role: 'slider', 'aria-label': `${scope.text} over time: the instant shown below`,
      'aria-valuemin': '0', 'aria-valuemax': String(moments.length - 1),
      onkeydown: (event) => this.key(event),
    }, this.lanes, this.plotBox);
    const grows = run.growthOf(scope).map(({text}) => text).join('; ');
    this.element = h('div', {}, this.legend, this.slider, grows && h('p', {class: 'grows'}, h('strong', {}, 'It grows: '), grows), h('p', {class: 'faint hint'},
      'Click an instant, or use ', h('kbd', {}, '←'), ' ', h('kbd', {}, '→'), ', ', h('kbd', {}, 'P'),
      ' for the peak. Drag to zoom, ', h('kbd', {}, 'Esc'), ' or a double click to see all.'));
  }

  draw() {
    this.curves = this.curvesOf();
    this.resize = new ResizeObserver(() => this.fit());
    this.resize.observe(this.plotBox);
    this.plot();
  }

  plot() {
    if (this.u) this.u.destroy();
    const drawn = [], series = [{}];
    this.curves.forEach((curve) => {
      curve.at = series.length;
      const dots = curve.readings && !curve.straight ? {show: true, size: 5, fill: themed(curve.color)} : {show: false};
      const common = {paths: curve.dotted ? () => null : curve.straight ? uPlot.paths.linear() : stepped, show: !curve.hidden, points: dots, spanGaps: Boolean(curve.readings)};
      series.push({...common, label: curve.label, stroke: themed(curve.color), width: curve.width, dash: curve.dash,
        fill: curve.fill ? themed('--area') : curve.area ? themed(curve.color) : undefined});
      drawn.push(curve);
      if (!curve.low) return;
      series.push({...common, label: 'lowest', stroke: themed('--low'), width: 1});
      drawn.push({times: curve.times, values: curve.low});
    });
    const data = aligned(drawn);
    this.curves.forEach((curve) => { curve.shown = data[curve.at]; });
    data[0] = data[0].map((ns) => ns / 1e9);
    this.u = new uPlot({
      ...chartOptions(this.plotBox.clientWidth || 800, this.height()),
      series,
      hooks: {
        draw: [() => this.place()],
        setCursor: [(u) => this.readLegend(u.cursor.idx)],
      },
    }, data, this.plotBox);
    this.peak = h('div', {class: 'mark peak'}, h('span'));
    this.mark = h('div', {class: 'mark chosen'});
    this.u.over.append(this.peak, this.mark);
    this.catchClicks();
    this.writeLegend();
  }

  height() {
    return Math.max(180, Math.min(320, this.plotBox.clientWidth * 0.45));
  }
  fit() {
    if (!this.u || this.plotBox.clientWidth === this.u.width) return;
    this.u.setSize({width: this.plotBox.clientWidth, height: this.height()});
  }

  catchClicks() {
    let downAt = null;
    this.u.over.addEventListener('mousedown', (event) => { downAt = event.clientX; });
    this.u.over.addEventListener('click', (event) => {
      if (downAt !== null && Math.abs(event.clientX - downAt) > CLICK_TOLERANCE) return;
      const left = event.clientX - this.u.over.getBoundingClientRect().left;
      const ns = this.u.posToVal(left, 'x') * 1e9;
      this.choose(this.moments.pick(ns, this.u.posToVal(left + AIM, 'x') * 1e9 - ns));
    });
  }

  key(event) {
    const last = this.moments.length - 1, page = Math.max(10, Math.round(last / 20));
    const to = {ArrowLeft: this.index - 1, ArrowRight: this.index + 1, PageUp: this.index - page, PageDown: this.index + page,
      Home: 0, End: last, p: this.moments.peak}[event.key];
    if (event.key === 'Escape') this.showAll();
    else if (to !== undefined && !event.ctrlKey && !event.metaKey) this.choose(Math.max(0, Math.min(last, to)));
    else return;
    event.preventDefault();
  }

  showAll() {
    this.u.setScale('x', {min: 0, max: this.run.endNs / 1e9});
  }

  choose(index) {
    this.index = index;
    const seconds = this.moments.ns(index) / 1e9;
    const {min, max} = this.u.scales.x;
    if (seconds < min || seconds > max) this.showAll();
    this.place();
    this.onchoose(index);
  }

  /** Puts the marks and the phases where their times are now. */
  place() {
    if (!this.u || !this.mark) return;
    const left = (ns) => this.u.valToPos(ns / 1e9, 'x');
    const width = this.u.over.clientWidth;
    place(this.u, this.peak, this.scope.time_ns, format.size(this.scope.bytes), 0.7);
    const ns = this.moments.ns(this.index);
    place(this.u, this.mark, ns, '', 0.7);
    this.slider.setAttribute('aria-valuenow', String(this.index));
    this.slider.setAttribute('aria-valuetext', format.instant(ns, 6));
    this.placePhases(left, width);
  }

  placePhases(left, width) {
    const lanes = 1 + Math.max(-1, ...this.run.phases.map((phase) => phase.lane));
    this.lanes.style.height = `${lanes * LANE_HEIGHT}px`;
    this.lanes.style.marginLeft = `${this.u.over.offsetLeft}px`;
    this.lanes.style.width = `${width}px`;
    replace(this.lanes, this.run.phases.map((phase, i) => {
      const box = (name, begin, end) => {
        const from = Math.max(0, left(begin)), to = Math.min(width, left(end));
        if (to < 0 || from > width) return null;
        return h('div', {
          class: `phase tint-${i % 4}`, title: `${name}: ${format.instant(begin)} to ${format.instant(end)}`,
          style: {left: `${from}px`, width: `${Math.max(1, to - from - 1)}px`, top: `${phase.lane * LANE_HEIGHT}px`},
        }, to - from > 24 ? name : '');
      };
      // None if it has none, or too many for the page.
      const repeated = rowsOf(phase.instances, 2).map(([begin, length]) => [begin, begin + length]);
      const room = (left(phase.end_ns) - left(phase.begin_ns)) / Math.max(1, repeated.length);
      if (repeated.length === 0 || room < LEAST_INSTANCE_WIDTH) return box(phase.label, phase.begin_ns, phase.end_ns);
      return repeated.map(([begin, end], number) => box(`${phase.name}[${number + 1}]`, begin, end));
    }));
  }

  writeLegend() {
    const shown = this.curves.some(({area}) => area) ? this.curves : [...this.curves].reverse();
    replace(this.legend, shown.map((curve) => {
      curve.figure = h('span', {class: 'figure'});
      return h('button', {
        type: 'button', 'aria-pressed': String(!curve.hidden), title: curve.title || null,
        onclick: (event) => {
          if (curve.area) return;  // those above would be drawn where they are not
          curve.hidden = !curve.hidden;
          event.currentTarget.setAttribute('aria-pressed', String(!curve.hidden));
          this.u.setSeries(curve.at, {show: !curve.hidden});
          if (curve.low) this.u.setSeries(curve.at + 1, {show: !curve.hidden});
        },
      }, h('span', {class: `swatch${curve.dash ? ' dashed' : ''}`, style: {borderColor: `var(${curve.color})`}}),
      curve.label, ' ', curve.figure);
    }));
    this.readLegend(null);
  }

  /** The values under the pointer, else the highest. */
  readLegend(bucket) {
    for (const curve of this.curves) {
      if (!curve.figure) return;
      const values = curve.below ? curve.shown.map((value, i) => value === null || value === undefined ? value : value - (curve.below.shown[i] ?? 0)) : curve.shown;
      let at = bucket === null || bucket === undefined ? null : values[bucket];
      for (let i = bucket; at === undefined && i > 0;) at = values[--i];  // the reading before
      const highest = values.reduce((most, value) => Math.max(most, value ?? 0), 0);
      curve.figure.textContent = curve.says ?? (curve.limit ? format.size(highest)
        : at === null || at === undefined ? `≤ ${format.size(highest)}` : format.size(at));
    }
  }
}
