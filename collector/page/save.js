// Saves what a chart of the page shows: as SVG in the theme's colours, and as CSV.
import {themed} from './chart.js';
import {h} from './dom.js';

const ROW = 18, LETTER = 7.2, MARGIN = 12;

function save(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], {type}));
  h('a', {href: url, download: name}).click();
  setTimeout(() => URL.revokeObjectURL(url), 60000);
}

/** A colour of the theme, as programs read it that know no newer notation than SVG 1.1's. */
function painted(attribute, name) {
  const [, red, green, blue, percent] = /^rgb\((\d+) (\d+) (\d+) \/ (\d+)%\)$/.exec(themed(name)) || [];
  return percent ? {[attribute]: `rgb(${red},${green},${blue})`, [`${attribute}-opacity`]: `${percent / 100}`} : {[attribute]: themed(name)};
}

/** As collector/text/sanitize.h writes it. */
function field(text) {
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** A row for each time at which a curve changes: what each has from then on, in bytes; nothing where it is not known. */
function csvOf(u, curves) {
  const columns = curves.flatMap((curve) => {
    const own = curve.below ? curve.shown.map((value, i) => value === null ? null : value - (curve.below.shown[i] ?? 0)) : curve.shown;
    return [[curve.label, own], ...(curve.low ? [[`${curve.label}, lowest`, u.data[curve.at + 1]]] : [])];
  });
  const lines = u.data[0].map((seconds, i) => [seconds, ...columns.map(([, values]) => values[i] ?? '')]);
  return [['seconds', ...columns.map(([label]) => field(label))], ...lines].map((line) => `${line.join(',')}\r\n`).join('');
}

function svgOf(u, curves, title) {
  const svg = document.implementation.createDocument('http://www.w3.org/2000/svg', 'svg');
  const add = (to, name, attributes, text) => {
    const element = svg.createElementNS('http://www.w3.org/2000/svg', name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, typeof value === 'number' ? value.toFixed(1) : value);
    if (text !== undefined) element.textContent = text;
    to.append(element);
    return element;
  };
  const {left, top, width, height} = u.bbox, pixels = devicePixelRatio;
  const plot = {left: left / pixels + MARGIN, top: top / pixels + 2 * ROW, width: width / pixels, height: height / pixels};
  const legendTop = plot.top + plot.height + 2.5 * ROW, wide = u.width + 2 * MARGIN, tall = legendTop + curves.length * ROW;
  const root = svg.documentElement;
  Object.entries({viewBox: `0 0 ${wide} ${tall}`, width: wide, height: tall, 'font-family': 'sans-serif', 'font-size': 12})
    .forEach(([key, value]) => root.setAttribute(key, value));
  add(root, 'title', {}, title);
  add(root, 'rect', {width: '100%', height: '100%', fill: themed('--card')});
  add(root, 'text', {x: MARGIN, y: ROW, 'font-weight': 'bold', fill: themed('--ink')}, title);
  add(add(root, 'clipPath', {id: 'plot'}), 'rect', {x: plot.left, y: plot.top, width: plot.width, height: plot.height});
  const x = (seconds) => plot.left + u.valToPos(seconds, 'x'), y = (bytes) => plot.top + u.valToPos(bytes, 'y');
  const axes = [[0, x, (at) => ({x1: at, x2: at, y1: plot.top, y2: plot.top + plot.height}), (at) => ({x: at, y: plot.top + plot.height + ROW, 'text-anchor': 'middle'})],
    [1, y, (at) => ({y1: at, y2: at, x1: plot.left, x2: plot.left + plot.width}), (at) => ({x: plot.left - 8, y: at + 4, 'text-anchor': 'end'})]];
  for (const [axis, place, line, label] of axes) {
    const {_splits: splits, _values: values} = u.axes[axis];
    splits.forEach((split, i) => {
      if (values[i] === null || values[i] === '') return;
      add(root, 'line', {...line(place(split)), stroke: themed('--grid')});
      add(root, 'text', {...label(place(split)), fill: themed('--faint')}, values[i]);
    });
  }
  const shapes = add(root, 'g', {'clip-path': 'url(#plot)'});
  for (const curve of curves) {
    const {color} = curve;
    for (const values of [curve.shown, ...(curve.low ? [u.data[curve.at + 1]] : [])]) {
      let d = '', drawn = null, began = 0;
      const closed = curve.area || (curve.fill && values === curve.shown);
      const close = () => (closed ? `V${y(0).toFixed(1)}H${began.toFixed(1)}Z` : '');
      values.forEach((value, i) => {
        const at = x(u.data[0][i]);
        if (value === undefined || (curve.readings && value === null)) return;
        if (curve.dotted) {
          if (value !== null) add(shapes, 'circle', {cx: at, cy: y(value), r: 2.5, ...painted('fill', color)});
        } else if (value === null) {
          if (drawn !== null) d += close();
          drawn = null;
        } else if (drawn === null) {
          d += `M${at.toFixed(1)} ${y(value).toFixed(1)}`;
          began = at;
          drawn = value;
        } else if (value !== drawn || i === values.length - 1) {
          d += `${curve.straight ? 'L' : 'H'}${at.toFixed(1)}${curve.straight ? ' ' : 'V'}${y(value).toFixed(1)}`;
          drawn = value;
        }
      });
      if (d === '') continue;
      if (closed) add(shapes, 'path', {d: drawn === null ? d : d + close(), ...painted('fill', curve.area ? color : '--area')});
      if (!curve.area) add(shapes, 'path', {d, fill: 'none', ...painted('stroke', values === curve.shown ? color : '--low'), 'stroke-width': curve.width, 'stroke-dasharray': (curve.dash || []).join(' ')});
    }
  }
  const most = Math.floor((wide - 2 * MARGIN - 20) / LETTER);
  curves.forEach((curve, i) => {
    const line = legendTop + (i + 0.5) * ROW, label = `${curve.label} ${curve.figure ? curve.figure.textContent : ''}`;
    add(root, 'rect', {x: MARGIN, y: line - 10, width: 12, height: 10, fill: themed(curve.color)});
    add(root, 'text', {x: MARGIN + 20, y: line, fill: themed('--ink')}, label.length > most ? `${label.slice(0, most - 1)}…` : label);
  });
  return new XMLSerializer().serializeToString(svg);
}

/** Buttons that save a timeline as it is drawn now; `name`: the files', without their ending. */
export function saveButtons(timeline, name, title) {
  const shown = () => timeline.curves.filter(({hidden}) => !hidden);
  const button = (text, type, write) => h('button', {type: 'button', class: 'save',
    onclick: () => save(`${name}.${text.toLowerCase()}`, type, write(timeline.u, shown(), title))}, `Save ${text}`);
  return [button('SVG', 'image/svg+xml', svgOf), button('CSV', 'text/csv', csvOf)];
}
