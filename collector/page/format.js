// How figures are shown: as in the terminal, MiB with thin groups of three.
const KIB = 1024, MIB = KIB * 1024, GIB = MIB * 1024;

function grouped(digits) {
  const [whole, fraction] = digits.split('.');
  const spaced = whole.replace(/\B(?=(\d{3})+(?!\d))/g, '\u202f');
  return fraction === undefined ? spaced : `${spaced}.${fraction}`;
}

export const count = (value) => grouped(String(Math.round(value)));
export const bytes = (value) => `${count(value)} bytes`;

/** With its unit; null is what was not measured. */
export function size(value) {
  if (value === null || value === undefined) return '–';
  const sign = value < 0 ? '−' : '';
  const much = Math.abs(value);
  if (much === 0) return '0';
  if (much < KIB) return `${sign}${much} B`;
  if (much < MIB) return `${sign}${(much / KIB).toFixed(1)} KiB`;
  if (much < 100 * GIB) return `${sign}${grouped((much / MIB).toFixed(much < 10 * MIB ? 2 : 1))} MiB`;
  return `${sign}${grouped((much / GIB).toFixed(1))} GiB`;
}

/** On an axis, where round figures stand. */
export const axisSize = (value) => size(value).replace(/\.0+ /, ' ');

export function percent(part, whole) {
  return whole > 0 ? `${(100 * part / whole).toFixed(1)} %` : '–';
}

export function time(ns) {
  const much = Math.abs(ns);
  if (much >= 1e9) return `${trim(ns / 1e9, much >= 1e11 ? 1 : 3)} s`;
  if (much >= 1e6) return `${trim(ns / 1e6, 3)} ms`;
  if (much >= 1e3) return `${trim(ns / 1e3, 1)} µs`;
  return `${ns} ns`;
}
export const instant = (ns) => `+${time(ns)}`;

function trim(value, digits) {
  const text = value.toFixed(digits);
  return grouped(text.includes('.') ? text.replace(/\.?0+$/, '') : text);
}

/** Seconds on an axis whose ticks are `step` apart. */
export function axisTime(seconds, step) {
  if (step >= 1) return `${trim(seconds, 0)} s`;
  if (step >= 1e-3) return seconds >= 1 ? `${trim(seconds, 3)} s` : `${trim(seconds * 1e3, 3)} ms`;
  return `${trim(seconds * 1e3, 3)} ms`;
}
