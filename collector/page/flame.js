// A flame graph: who called whom, down to those who hold the memory, at the peak, at another instant or in the end.
import {select} from 'd3-selection';
import flamegraph from 'd3-flame-graph';
import {h, replace} from './dom.js';
import {isInterpreter, isScript} from './model.js';

const FRAME_HEIGHT = 20;

/** Nodes of the same call as one. */
function merged(nodes) {
  const byCall = new Map();
  for (const node of nodes) {
    const key = `${node.n}\u0000${node.place}\u0000${node.at?.file}`;
    const other = byCall.get(key);
    byCall.set(key, other ? {...other, v: other.v + node.v, c: [...other.c, ...node.c]} : node);
  }
  return [...byCall.values()];
}

const hasScript = (node) => isScript(node.place) || node.c.some(hasScript);
/** The calls of a node without those that `skips`: the calls of these take their place. */
const meant = (node, skips) => merged(node.c.flatMap((call) => skips(call) ? meant(call, skips) : [call]));

/** The tree with a single cell for a run of calls of which each only makes the next. `calls`: what a cell stands for. */
function folded(node, skips, isRoot = true) {
  const calls = [{n: node.n, place: node.place, at: node.at}];
  let last = node, below = meant(node, skips);
  while (!isRoot && below.length === 1 && below[0].v === last.v) {
    [last] = below;
    calls.push({n: last.n, place: last.place, at: last.at});
    below = meant(last, skips);
  }
  const name = calls.length === 1 ? node.n : [node.n, calls.length > 2 ? '…' : null, last.n].filter(Boolean).join(' → ');
  return {n: name, v: node.v, place: node.place, calls, c: below.map((call) => folded(call, skips, false))};
}
const whole = (node) => ({...node, calls: [{n: node.n, place: node.place, at: node.at}], c: node.c.map(whole)});

/** A steady colour for each module: a warm hue, so that text is legible on it in both themes. */
function color(place) {
  const module = place.split(' · ')[0];
  let hash = 7;
  for (const letter of module) hash = (hash * 31 + letter.codePointAt(0)) % 997;
  return `hsl(${[22, 36, 48, 8, 200, 165, 265, 330][hash % 8]} ${58 + hash % 18}% ${62 + hash % 12}%)`;
}

export class Flame {
  /** `amount(value)`: what a cell's width stands for, in words. `sourceOf(at)`: the element with a call's lines, or null. */
  constructor(tree, amount, sourceOf) {
    this.tree = tree;
    this.amount = amount;
    this.sourceOf = sourceOf;
    this.lines = h('div');
    this.box = h('div', {class: 'flame', tabindex: '0', role: 'group', 'aria-label': `Flame graph of ${tree.n}`,
      onkeydown: (event) => this.key(event)});
    this.details = h('p', {class: 'details', role: 'status'});
    this.search = h('input', {type: 'search', placeholder: 'Search functions', 'aria-label': 'Search functions',
      oninput: () => this.find()});
    this.every = h('input', {type: 'checkbox', onchange: () => this.rebuild()});
    this.element = h('div', {},
      h('div', {class: 'tools'}, this.search, h('button', {type: 'button', class: 'plain', onclick: () => this.reset()}, 'Show all'),
        h('label', {title: 'also those that only make the next call, and those of the Python interpreter'}, this.every, ' every call')),
      this.box, this.details, this.lines,
      h('p', {class: 'faint hint'}, 'Click a call to zoom in, or move with ', h('kbd', {}, '↑'), h('kbd', {}, '↓'),
        h('kbd', {}, '←'), h('kbd', {}, '→'), ' and press ', h('kbd', {}, 'Enter'), '; ', h('kbd', {}, 'Esc'), ' shows all.'));
  }

  draw() {
    this.rebuild();
    this.resize = new ResizeObserver(() => {
      if (Math.abs(this.box.clientWidth - this.width) > 2) this.plot();
    });
    this.resize.observe(this.box);
  }
  destroy() {
    if (this.resize) this.resize.disconnect();
  }

  rebuild() {
    const scripted = !this.every.checked && hasScript(this.tree);
    this.skips = ({place}) => scripted && isInterpreter(place);
    this.data = this.every.checked ? whole(this.tree) : folded(this.tree, this.skips);
    this.plot();
    this.find();
  }

  plot() {
    this.width = this.box.clientWidth || 800;
    this.box.replaceChildren();
    this.chart = flamegraph().width(this.width).cellHeight(FRAME_HEIGHT).transitionDuration(0).minFrameSize(1)
      .inverted(true).sort((a, b) => b.value - a.value)
      .setLabelHandler((node) => this.describe(node))
      .setColorMapper((node) => this.color(node))
      .setSearchMatch((node, term) => term !== '' && node.data.calls.some(({n}) => n.toLowerCase().includes(term.toLowerCase())))
      .setSearchHandler((found, bytes) => { this.say(`${found.length} calls, ${this.amount(bytes)}`); })
      .setDetailsHandler((text) => this.say(text))
      .onHover((node) => { this.current = node; })
      .onClick((node) => {
        this.current = node;
        this.showLines(node);
      });
    this.root = select(this.box).datum(this.data).call(this.chart);
    this.current = this.root.datum();
    this.showLines(this.current);
    this.say(null);
  }

  /** What a search has found stands out: all else is grey while there is one. */
  color(node) {
    if (node.highlight) return 'var(--found)';
    if (node.depth === 0) return 'var(--root)';
    return this.search.value.trim() === '' ? color(node.data.place) : 'var(--unfound)';
  }

  describe(node) {
    const {calls} = node.data;
    const names = calls.length === 1 ? calls[0].n : calls.map(({n}) => n).join(' → ');
    return `${names}\n${this.amount(node.value)}${node.data.place ? `\n${node.data.place}` : ''}`;
  }
  say(text) {
    this.details.textContent = (text || this.describe(this.current || this.root.datum())).replaceAll('\n', '  —  ');
  }

  /** Of the innermost call in the cell whose lines the page has. */
  showLines(node) {
    const {at} = node.data.calls.findLast((call) => call.at) || {};
    replace(this.lines, this.sourceOf(at));
  }

  find() {
    const term = this.search.value.trim();
    if (term === '') this.chart.clear();
    else this.chart.search(term);
    if (term === '') this.say(null);
  }
  /** Zooms into the cell of a stack (innermost first), or of as much of it as is drawn. */
  reveal(stack) {
    const calls = stack.filter((call) => !this.skips(call)).reverse();
    const deepest = (node, at) => {
      let best = {node, at};
      for (const child of node.children || []) {
        const ahead = child.data.calls.findIndex(({n}, i) => calls[at + i]?.n !== n);
        if (ahead === 0) continue;
        const found = ahead < 0 ? deepest(child, at + child.data.calls.length) : {node: child, at: at + ahead};
        if (found.at > best.at) best = found;
      }
      return best;
    };
    this.reset();
    const {node} = deepest(this.root.datum(), 0);
    this.chart.zoomTo(node);
    this.outline(node);
    this.box.focus({preventScroll: true});
  }
  reset() {
    this.search.value = '';
    this.chart.clear();
    this.chart.resetZoom();
    this.outline(this.root.datum());
  }

  key(event) {
    const at = this.current || this.root.datum();
    const beside = (step) => {
      const siblings = at.parent ? at.parent.children : [at];
      return siblings[siblings.indexOf(at) + step];
    };
    const to = {ArrowDown: () => at.children && at.children[0], ArrowUp: () => at.parent, ArrowLeft: () => beside(-1),
      ArrowRight: () => beside(1)}[event.key];
    if (to) this.outline(to() || at);
    else if (event.key === 'Enter') this.chart.zoomTo(at);
    else if (event.key === 'Escape') this.reset();
    else return;
    event.preventDefault();
  }
  outline(node) {
    this.current = node;
    select(this.box).selectAll('g.frame').classed('current', (other) => other === node);
    this.say(this.describe(node));
    this.showLines(node);
  }
}
