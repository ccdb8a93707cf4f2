// The lines of source around a call, each with what it held at the peak.
import {h} from './dom.js';
import * as format from './format.js';

/** `source`: as Run.source() gives it, or null. */
export function sourceView(source) {
  if (!source) return null;
  if (source.changed) return h('p', {class: 'faint'}, `${source.path} has changed since: its lines are not shown.`);
  const name = `${source.path}:${source.line}`;
  return h('figure', {class: 'source'}, h('figcaption', {}, h('code', {}, name), h('span', {class: 'faint'}, ' held at the peak, with all that each line calls:')),
    h('div', {class: 'scroll', tabindex: '0', role: 'region', 'aria-label': name}, h('table', {'aria-label': name}, h('tbody', {}, source.lines.map(({number, text, bytes}) =>
      h('tr', {class: number === source.line ? 'here' : null}, h('td', {class: 'number'}, bytes > 0 ? format.size(bytes) : ''),
        h('th', {class: 'number faint', scope: 'row'}, String(number)), h('td', {}, h('code', {}, text))))))));
}

/** The same, folded up until it is asked for. */
export function foldedSource(source, open) {
  if (!source) return null;
  if (source.changed) return sourceView(source);
  const box = h('details', {class: 'folded', open, ontoggle: () => {
    if (box.open && box.childElementCount === 1) box.append(sourceView(source));
  }}, h('summary', {}, 'source'), open && sourceView(source));
  return box;
}
