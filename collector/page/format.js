// How figures are shown: as in the terminal (collector/text/text_format.h).
const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
const THREE_DIGITS = 999.5;  // from here on a fourth would be shown

function grouped(digits) {
  const [whole, fraction] = digits.split('.');
  const spaced = whole.replace(/\B(?=(\d{3})+(?!\d))/g, '\u202f');
  return fraction === undefined ? spaced : `${spaced}.${fraction}`;
}

export const count = (value) => grouped(String(Math.round(value)));
export const counted = (value, what) => `${count(value)} ${what}${value === 1 ? '' : 's'}`;
export const bytes = (value) => `${count(value)} bytes`;

/** A half goes to the even digit, as in the terminal: 758.5 is 758. toFixed() makes 759 of it. */
function fixed(value, digits) {
  const scaled = value * 10 ** digits, half = Math.floor(scaled) + 0.5;
  const rounded = scaled === half && Math.floor(scaled) % 2 === 0 ? Math.floor(scaled) : Math.round(scaled);
  return (rounded / 10 ** digits).toFixed(digits);
}

/** With its unit, in three digits; null is what was not measured. */
export function size(value) {
  if (value === null || value === undefined) return '–';
  const sign = value < 0 ? '−' : '';
  if (value === 0) return '0';
  let much = Math.abs(value), unit = 0;
  for (; much >= THREE_DIGITS && unit + 1 < UNITS.length; ++unit) much /= 1024;
  return `${sign}${fixed(much, unit === 0 || much >= 99.95 ? 0 : much >= 9.995 ? 1 : 2)} ${UNITS[unit]}`;
}

/** On an axis, where round figures stand. */
export const axisSize = (value) => size(value).replace(/\.0+ |(\.\d)0 /, '$1 ');

export function percent(part, whole) {
  return whole > 0 && part <= whole ? `${(100 * part / whole).toFixed(1)} %` : '–';
}

/** "1.10 GiB to 1.15 GiB"; one figure where it is exact, as collector/summary/what_if.h has it. */
export function bounds({least_bytes: least, most_bytes: most}) {
  if (most === null) return `at least ${size(least)}`;
  const from = size(least), to = size(most);
  if (from !== to) return `${from} to ${to}`;
  return least === most ? from : `about ${from}`;
}

/** How much less or more than `was` these bounds are. */
export function gain(was, {least_bytes: least, most_bytes: most}) {
  const after = most ?? least;
  if (after === was) return 'no change';
  return `${most === null ? 'at most ' : ''}${after > was ? '+' : '−'}${percent(Math.abs(after - was), Math.max(after, was))}`;
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
