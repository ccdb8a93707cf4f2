// Memory over time: the sum, its kinds, what was observed beside it, the phases, and an instant that
// a click or the arrow keys choose.
import uPlot from 'uplot';
import {chartOptions, stepped, themed} from './chart.js';
import {h, replace} from './dom.js';
import * as format from './format.js';

const KIND_COLORS = ['--line-1', '--line-2', '--line-3', '--line-4', '--line-5', '--line-6'];
const LANE_HEIGHT = 20;
const CLICK_TOLERANCE = 4;

/** The driver's readings on the buckets of the run: the highest in each, else the one before. */
function observedCurve(run, readings) {
  const values = new Array(run.times.length).fill(null);
  let at = 0, last = null;
  for (let b = 0; b < run.times.length - 1; ++b) {
    let highest = last;
    for (; at < readings.length && readings[at][0] < run.times[b + 1]; ++at) {
      highest = highest === null ? readings[at][1] : Math.max(highest, readings[at][1]);
      last = readings[at][1];
    }
    values[b] = highest;
  }
  values[values.length - 1] = last;
  return values;
}

/** What the chart of a scope shows. */
function curvesOf(run, scope) {
  const curves = [];
  const kinds = run.kindsOf(scope).filter((kind) => run.seriesOf(kind.name));
  if (kinds.filter((kind) => kind.counts).length > 1 || kinds.some((kind) => !kind.counts)) {
    kinds.forEach((kind, i) => curves.push({
      label: kind.kind, values: run.seriesOf(kind.name).max, color: KIND_COLORS[i % KIND_COLORS.length],
      width: 1.2, hidden: !kind.counts, title: kind.counts ? '' : 'not in the sum',
    }));
  }
  const device = run.summary.devices.find(({ordinal}) => ordinal === scope.device);
  if (device && device.ledger && scope.kind === '' && device.ledger.readings.length > 0) {
    curves.push({label: 'nvidia-smi', title: 'memory in use as the driver says, by all processes',
      values: observedCurve(run, device.ledger.readings), color: '--observed', dash: [5, 3], width: 1.4});
  }
  const gauges = scope.name === 'host' ? ['host.rss'] : [`${scope.name}/pool reserved`];
  for (const series of gauges.map((name) => run.seriesOf(name)).filter(Boolean)) {
    curves.push({label: series.name.endsWith('rss') ? 'RSS' : 'pool reserved', values: series.max,
      color: '--observed-2', dash: [2, 3], width: 1.4,
      title: series.name.endsWith('rss') ? 'resident memory of the process, from samples' : 'held by the pools'});
  }
  const sum = run.seriesOf(scope.name);  // last, so that it lies above its parts
  if (sum) {
    const low = sum.min.some((value, i) => value !== sum.max[i]) ? sum.min : null;
    curves.push({label: scope.kind || 'sum', values: sum.max, low, color: '--accent', fill: true, width: 1.8});
  }
  return curves;
}

export class Timeline {
  /** `onchoose(index)`: an instant was chosen. */
  constructor(run, scope, onchoose) {
    this.run = run;
    this.scope = scope;
    this.onchoose = onchoose;
    this.index = run.peakInstant(scope);
    this.lanes = h('div', {class: 'lanes', 'aria-hidden': 'true'});
    this.legend = h('div', {class: 'legend'});
    this.plotBox = h('div', {class: 'plot'});
    this.slider = h('div', {
      class: 'timeline', tabindex: '0', role: 'slider', 'aria-label': `${scope.text} over time: the instant shown below`,
      'aria-valuemin': '0', 'aria-valuemax': String(run.instants.list.length - 1),
      onkeydown: (event) => this.key(event),
    }, this.lanes, this.plotBox);
    this.element = h('div', {}, this.legend, this.slider, h('p', {class: 'faint hint'},
      'Click an instant, or use ', h('kbd', {}, '←'), ' ', h('kbd', {}, '→'), ', ', h('kbd', {}, 'P'),
      ' for the peak. Drag to zoom, ', h('kbd', {}, 'Esc'), ' or a double click to see all.'));
  }

  draw() {
    this.curves = curvesOf(this.run, this.scope);
    this.resize = new ResizeObserver(() => this.fit());
    this.resize.observe(this.plotBox);
    this.plot();
  }

  destroy() {
    if (this.resize) this.resize.disconnect();
    if (this.u) this.u.destroy();
    this.u = null;
  }

  plot() {
    if (this.u) this.u.destroy();
    const seconds = this.run.times.map((ns) => ns / 1e9);
    const data = [seconds], series = [{}];
    this.curves.forEach((curve) => {
      curve.at = series.length;
      const common = {paths: stepped, show: !curve.hidden, points: {show: false}};
      series.push({...common, label: curve.label, stroke: themed(curve.color), width: curve.width, dash: curve.dash,
        fill: curve.fill ? themed('--area') : undefined});
      data.push(curve.values);
      if (!curve.low) return;
      series.push({...common, label: 'lowest', stroke: themed('--low'), width: 1});
      data.push(curve.low);
    });
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
      this.choose(this.run.nearestInstant(this.u.posToVal(left, 'x') * 1e9));
    });
  }

  key(event) {
    const last = this.run.instants.list.length - 1;
    const to = {ArrowLeft: this.index - 1, ArrowRight: this.index + 1, PageUp: this.index - 10, PageDown: this.index + 10,
      Home: 0, End: last, p: this.run.peakInstant(this.scope)}[event.key];
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
    const seconds = this.run.instants.list[index][0] / 1e9;
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
    const put = (mark, ns) => {
      const x = left(ns);
      mark.hidden = x < -1 || x > width + 1;
      mark.style.left = `${x}px`;
      mark.classList.toggle('flip', x > width * 0.7);
      return x > width * 0.7;
    };
    const highest = format.size(this.scope.bytes);
    this.peak.firstChild.textContent = put(this.peak, this.scope.time_ns) ? `${highest} ▼` : `▼ ${highest}`;
    if (this.run.instants.list.length > 0) {
      const ns = this.run.instants.list[this.index][0];
      put(this.mark, ns);
      this.slider.setAttribute('aria-valuenow', String(this.index));
      this.slider.setAttribute('aria-valuetext', format.instant(ns));
    }
    this.placePhases(left, width);
  }

  placePhases(left, width) {
    const lanes = 1 + Math.max(-1, ...this.run.phases.map((phase) => phase.lane));
    this.lanes.style.height = `${lanes * LANE_HEIGHT}px`;
    this.lanes.style.marginLeft = `${this.u.over.offsetLeft}px`;
    this.lanes.style.width = `${width}px`;
    replace(this.lanes, this.run.phases.map((phase, i) => {
      const from = Math.max(0, left(phase.begin_ns)), to = Math.min(width, left(phase.end_ns));
      if (to < 0 || from > width) return null;
      return h('div', {
        class: `phase tint-${i % 4}`,
        title: `${phase.name}: ${format.instant(phase.begin_ns)} to ${format.instant(phase.end_ns)}`,
        style: {left: `${from}px`, width: `${Math.max(1, to - from - 1)}px`, top: `${phase.lane * LANE_HEIGHT}px`},
      }, to - from > 24 ? phase.name : '');
    }));
  }

  writeLegend() {
    replace(this.legend, [...this.curves].reverse().map((curve) => {
      curve.figure = h('span', {class: 'figure'});
      return h('button', {
        type: 'button', 'aria-pressed': String(!curve.hidden), title: curve.title || null,
        onclick: (event) => {
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
      const at = bucket === null || bucket === undefined ? null : curve.values[bucket];
      const highest = curve.values.reduce((most, value) => Math.max(most, value ?? 0), 0);
      curve.figure.textContent = at === null ? `≤ ${format.size(highest)}` : format.size(at);
    }
  }
}
