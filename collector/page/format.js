// How figures are shown: as in the terminal, MiB with thin groups of three.
const KIB = 1024, MIB = KIB * 1024, GIB = MIB * 1024;

function grouped(digits) {
  const [whole, fraction] = digits.split('.');
  const spaced = whole.replace(/\B(?=(\d{3})+(?!\d))/g, '\u202f');
  return fraction === undefined ? spaced : `${spaced}.${fraction}`;
}

export const count = (value) => grouped(String(Math.round(value)));
export const counted = (value, what) => `${count(value)} ${what}${value === 1 ? '' : 's'}`;
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

/** `digits`: how many at most behind the point. */
export function time(ns, digits = 3) {
  const much = Math.abs(ns);
  if (much >= 1e9) return `${trim(ns / 1e9, much >= 1e11 && digits === 3 ? 1 : digits)} s`;
  if (much >= 1e6) return `${trim(ns / 1e6, digits)} ms`;
  if (much >= 1e3) return `${trim(ns / 1e3, Math.min(digits, 3))} µs`;
  return `${ns} ns`;
}
export const instant = (ns, digits = 3) => `+${time(ns, digits)}`;

function trim(value, digits) {
  const text = value.toFixed(digits);
  return grouped(text.includes('.') ? text.replace(/\.?0+$/, '') : text);
}

/** How many digits behind the point tell seconds apart that are `step` apart. */
export const timeDigits = (step) => Math.max(0, Math.min(9, Math.ceil(-Math.log10(step) - 1e-9)));

/** Seconds on an axis whose ticks are `step` apart. */
export function axisTime(seconds, step) {
  if (step >= 1 || seconds >= 1) return `${trim(seconds, timeDigits(step))} s`;
  return `${trim(seconds * 1e3, timeDigits(step * 1e3))} ms`;
}
