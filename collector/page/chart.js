// What all curves share: colours of the theme, axes of time and size.
import uPlot from 'uplot';
import * as format from './format.js';

const NARROW = 500, HEIGHT = 320;

/** The colour that page.css gives this name: canvas knows no variables. */
export const themed = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export const stepped = uPlot.paths.stepped({align: 1});

/**
 * Curves over one axis, as uPlot wants them: curves are {times, values}, times in rising order. A step holds until the
 * curve's next one, across the times of the others, and ends with its curve. Of `readings` there is nothing between.
 */
export function aligned(curves) {
  const times = [...new Set(curves.flatMap((curve) => curve.times))].sort((a, b) => a - b);
  return [times, ...curves.map((curve) => {
    let at = 0, last = null;
    return times.map((time) => {
      const before = at;
      for (; at < curve.times.length && curve.times[at] <= time; ++at) last = curve.values[at] ?? last;
      if (curve.readings && at === before) return undefined;
      return at < curve.times.length || time === curve.times[at - 1] ? last : null;
    });
  })];
}

/** Options of a chart `width` wide; `time` shows a value of the x axis whose ticks are `step` apart. */
export function chartOptions(width, height = HEIGHT, time = format.axisTime) {
  const grid = {stroke: themed('--grid'), width: 1};
  const axis = {stroke: themed('--faint'), font: '12px system-ui, sans-serif', grid, ticks: grid};
  return {
    width, height,
    legend: {show: false},
    cursor: {y: false, points: {show: false}, drag: {x: true, y: false}},
    scales: {x: {time: false}, y: {range: (u, low, high) => [0, Math.max(1, high * 1.06)]}},
    axes: [
      {...axis, space: (u, index, low, high, pixels) => 56 + 7 * format.timeDigits((high - low) * 80 / pixels),
        values: (u, splits) => splits.map((value) => time(value, splits[1] - splits[0]))},
      {...axis, size: width < NARROW ? 66 : 78, values: (u, splits) => splits.map((value) => format.axisSize(value)),
        incrs: Array.from({length: 45}, (_, i) => 2 ** i)},
    ],
  };
}

/** A chart. show(): in its element `plot`, as wide as that is. */
export class Chart {
  show(options, data) {
    this.u = new uPlot(options, data, this.plot);
    this.resize = new ResizeObserver(() => this.u.setSize({width: this.plot.clientWidth, height: this.u.height}));
    this.resize.observe(this.plot);
  }
  destroy() {
    if (this.resize) this.resize.disconnect();
    if (this.u) this.u.destroy();
    this.u = null;
  }
}

/** Puts a mark where its time is now; its text is on the left of it from `turn` of the width on. */
export function place(u, mark, ns, text, turn) {
  const x = u.valToPos(ns / 1e9, 'x'), width = u.over.clientWidth, flip = x > width * turn;
  mark.hidden = x < -1 || x > width + 1;
  mark.style.left = `${x}px`;
  mark.classList.toggle('flip', flip);
  if (text) mark.firstChild.textContent = flip ? `${text} ▼` : `▼ ${text}`;
}
