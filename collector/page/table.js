// A table that sorts by a click on a heading and filters by a search.
import {h, replace} from './dom.js';
import * as format from './format.js';

export const NARROW = matchMedia('(max-width: 640px)');
const firstRows = () => NARROW.matches ? 12 : 25;

/**
 * columns: [{key, by, label, number, help, cell(row)}]; sorted by `order`, else by the first number column, largest first. by: the
 * number that a column of words sorts by. help: what the heading means.
 * order {}: the rows stay as they are. footer: rows of cells below, which neither sort nor filter. detail(row): what makes that to
 * which a row opens, or null.
 */
export function table({columns, rows, footer = [], search = true, label, order: first, detail}) {
  let order = first || {key: (columns.find((column) => column.number) || columns[0]).key, down: true};
  let needle = '', all = false;
  const body = h('tbody'), status = h('span', {class: 'faint', role: 'status'});
  const heads = columns.map((column) => h('th', {scope: 'col', class: column.number ? 'number' : null},
    h('button', {type: 'button', title: column.help, onclick: () => sortBy(column)}, column.label)));
  const element = h('table', {'aria-label': label}, h('thead', {}, h('tr', {}, heads)), body,
    footer.length > 0 && h('tfoot', {}, footer.map((cells) => h('tr', {}, cells))));
  const more = h('button', {type: 'button', class: 'plain', onclick: () => {
    all = true;
    fill();
  }});

  /** A row's title that opens and closes what is behind it, in a row below. */
  function opener(line, row, inside) {
    const makeDetail = detail(row);
    if (!makeDetail) return inside;
    let below = null;  // most rows are never opened
    return h('button', {type: 'button', class: 'opener', 'aria-expanded': 'false', onclick: (event) => {
      below = below || h('tr', {class: 'detail'}, h('td', {colspan: String(columns.length)}, makeDetail()));
      const open = !below.isConnected;
      if (open) line.after(below);
      else below.remove();
      event.currentTarget.setAttribute('aria-expanded', String(open));
    }}, inside);
  }
  function sortBy(column) {
    order = {key: column.key, down: order.key === column.key ? !order.down : Boolean(column.number || column.by)};
    fill();
  }
  function fill() {
    columns.forEach((column, i) => heads[i].setAttribute('aria-sort',
      column.key !== order.key ? 'none' : order.down ? 'descending' : 'ascending'));
    const found = needle === '' ? rows.slice() : rows.filter((row) => columns.some((column) =>
      !column.number && String(row[column.key] ?? '').toLowerCase().includes(needle)));
    const by = columns.find(({key}) => key === order.key)?.by ?? order.key;
    found.sort((a, b) => {
      const [x, y] = [a[by] ?? '', b[by] ?? ''];
      const less = typeof x === 'number' && typeof y === 'number' ? x - y : String(x).localeCompare(String(y));
      return order.down ? -less : less;
    });
    const shown = all || found.length <= firstRows() + 5 ? found : found.slice(0, firstRows());
    replace(body, shown.map((row) => {
      const line = h('tr', {});
      const inside = (column) => column.cell ? column.cell(row) : row[column.key] ?? '–';
      replace(line, columns.map((column, i) => h(i === 0 && !column.number ? 'th' : 'td',
        {class: column.number ? 'number' : column.class, scope: i === 0 && !column.number ? 'row' : null},
        column.class === 'title' && detail ? opener(line, row, inside(column)) : inside(column))));
      return line;
    }));
    more.hidden = shown.length === found.length;
    more.textContent = `Show all ${found.length} rows`;
    status.textContent = needle === '' ? '' : `${found.length} of ${rows.length} rows`;
  }
  const box = search && rows.length > 8 && h('input', {type: 'search', placeholder: 'Search', 'aria-label': `Search ${label}`,
    oninput: (event) => {
      needle = event.target.value.trim().toLowerCase();
      fill();
    }});
  fill();
  return h('div', {class: 'table'}, box && h('div', {class: 'tools'}, box, status),
    h('div', {class: 'scroll'}, element), more);
}

/** A bar as wide as the share, behind the figure. */
function share(part, whole) {
  const width = whole > 0 ? Math.max(0, Math.min(100, 100 * part / whole)) : 0;
  return h('span', {class: 'share'}, h('span', {class: 'bar', style: {width: `${width}%`}}), h('span', {}, format.size(part)));
}

/** The column of sites and the like; wide, with the whole text under the pointer. */
export const titleColumn = (label = 'site', key = 'title') =>
  ({key, label, class: 'title', cell: (row) => h('span', {title: row[key]}, row[key] || '–')});
export const bytesColumn = (key, label) => ({key, label, number: true, cell: (row) => format.size(row[key])});
export const countColumn = (key, label) => ({key, label, number: true, cell: (row) => row[key] === null ? '–' : format.count(row[key])});

/**
 * A table of what adds up to `whole`, which `of` names: with the columns of size and share, and the sum below. rest: what is in
 * no row, [name, bytes]. columns: those on the left of the share, which has the rest of them on its right.
 */
export function sumTable({rows, whole, of, rest = [], left = [], right, ...options}) {
  const columns = [{key: 'bytes', label: 'size', number: true, cell: (row) => share(row.bytes, whole)}, ...left,
    {key: 'share', by: 'bytes', label: '%', number: true, cell: (row) => format.percent(row.bytes, whole)}, ...right];
  const others = rest.filter(([, bytes]) => bytes > 0);
  const sum = [...rows.map(({bytes}) => bytes), ...others.map(([, bytes]) => bytes)].reduce((all, bytes) => all + bytes, 0);
  const figure = (text) => h('td', {class: 'number'}, text);
  const footer = [...others, [sum === whole ? `sum = ${of}, residual 0` : 'sum', sum]].map(([name, bytes]) => columns.map((column) =>
    column.key === 'bytes' ? figure(format.size(bytes)) : column.key === 'share' ? figure(format.percent(bytes, whole))
      : column.class === 'title' ? h('th', {scope: 'row'}, name) : h('td')));
  return table({...options, rows, columns, footer});
}
