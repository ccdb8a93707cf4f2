// The flame graph of a peak: who called whom, down to those who hold the memory.
import {select} from 'd3-selection';
import flamegraph from 'd3-flame-graph';
import {h} from './dom.js';
import * as format from './format.js';

const FRAME_HEIGHT = 20;

/** A steady colour for each module: a warm hue, so that text is legible on it in both themes. */
function color(place) {
  const module = place.split(' · ')[0];
  let hash = 7;
  for (const letter of module) hash = (hash * 31 + letter.codePointAt(0)) % 997;
  return `hsl(${[22, 36, 48, 8, 200, 165, 265, 330][hash % 8]} ${58 + hash % 18}% ${62 + hash % 12}%)`;
}

export class Flame {
  constructor(run, scope) {
    this.run = run;
    this.scope = scope;
    this.box = h('div', {class: 'flame', tabindex: '0', role: 'group', 'aria-label': `Flame graph of ${scope.text}`,
      onkeydown: (event) => this.key(event)});
    this.details = h('p', {class: 'details', role: 'status'});
    this.search = h('input', {type: 'search', placeholder: 'Search functions', 'aria-label': 'Search functions',
      oninput: () => this.find()});
    this.element = h('div', {},
      h('div', {class: 'tools'}, this.search, h('button', {type: 'button', class: 'plain', onclick: () => this.reset()}, 'Show all')),
      this.box, this.details,
      h('p', {class: 'faint hint'}, 'Click a call to zoom in, or move with ', h('kbd', {}, '↑'), h('kbd', {}, '↓'),
        h('kbd', {}, '←'), h('kbd', {}, '→'), ' and press ', h('kbd', {}, 'Enter'), '; ', h('kbd', {}, 'Esc'), ' shows all.'));
  }

  draw() {
    this.data = this.run.flame(this.scope);
    this.plot();
    this.resize = new ResizeObserver(() => {
      if (Math.abs(this.box.clientWidth - this.width) > 2) this.plot();
    });
    this.resize.observe(this.box);
  }
  destroy() {
    if (this.resize) this.resize.disconnect();
  }

  plot() {
    this.width = this.box.clientWidth || 800;
    this.box.replaceChildren();
    this.chart = flamegraph().width(this.width).cellHeight(FRAME_HEIGHT).transitionDuration(0).minFrameSize(1)
      .inverted(true).sort((a, b) => b.value - a.value)
      .setLabelHandler((node) => this.describe(node))
      .setColorMapper((node) => node.highlight ? 'var(--found)' : node.depth === 0 ? 'var(--root)' : color(node.data.place))
      .setSearchMatch((node, term) => term !== '' && node.data.n.toLowerCase().includes(term.toLowerCase()))
      .setSearchHandler((found, bytes) => { this.say(`${found.length} calls, ${this.amount(bytes)}`); })
      .setDetailsHandler((text) => this.say(text))
      .onHover((node) => { this.current = node; })
      .onClick((node) => { this.current = node; });
    this.root = select(this.box).datum(this.data).call(this.chart);
    this.current = this.root.datum();
    this.say(null);
  }

  amount(bytes) {
    return `${format.size(bytes)}, ${format.percent(bytes, this.scope.bytes)} of the peak`;
  }
  describe(node) {
    return `${node.data.n}\n${this.amount(node.value)}${node.data.place ? `\n${node.data.place}` : ''}`;
  }
  say(text) {
    this.details.textContent = (text || this.describe(this.current || this.root.datum())).replaceAll('\n', '  —  ');
  }

  find() {
    const term = this.search.value.trim();
    if (term === '') this.chart.clear();
    else this.chart.search(term);
    if (term === '') this.say(null);
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
  }
}
