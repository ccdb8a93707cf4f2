// A pool's segments to scale, with their blocks and holes: one after the other like words of a text, in lines.
import {themed} from './chart.js';
import {h, replace} from './dom.js';
import * as format from './format.js';
import {standing, whenUsed} from './uses.js';

const LINE = 22, LINE_GAP = 6, GAP = 4, LEAST = 5;
const NARROW = 500;
const MOST_PIXELS = 16e6;
const HUES = [214, 28, 152, 46, 276, 188, 4, 88, 322, 242, 120, 66];

/** A colour on which nothing is written, for light and dark paper. */
export function siteColor(rank) {
  if (rank === undefined) return 'hsl(215 8% 55%)';
  const round = Math.floor(rank / HUES.length);
  return `hsl(${HUES[rank % HUES.length] + 11 * round} ${62 - 9 * (round % 4)}% ${58 + 7 * (round % 3)}%)`;
}

/** Which part of which segment stands where: {index, line, x, width, begin, bytes}. */
function layout(segments, width) {
  const total = segments.reduce((sum, {bytes}) => sum + bytes, 0);
  const perPixel = Math.max(width, total / (width < NARROW ? 24 : 16)) / width;
  const parts = [];
  let line = 0, x = 0;
  segments.forEach((segment, index) => {
    const whole = Math.max(LEAST, segment.bytes / perPixel);
    if (x > 0 && x + whole > width) {
      ++line;
      x = 0;
    }
    const full = Math.floor(width * perPixel);  // what a line has room for, if the segment has more
    for (let done = 0; done < segment.bytes;) {
      const left = segment.bytes - done, bytes = whole > width ? Math.min(left, full) : left;
      const room = Math.min(width, Math.max(LEAST, bytes / perPixel));
      if (done > 0) {
        ++line;
        x = 0;
      }
      parts.push({index, line, x, width: room, begin: segment.begin + done, bytes});
      x += room + GAP;
      done += bytes;
    }
  });
  return {parts, lines: segments.length > 0 ? line + 1 : 0};
}

export class ArenaMap {
  constructor(run, pool) {
    this.run = run;
    this.pool = pool;
    this.canvas = h('canvas', {'aria-hidden': 'true', onpointermove: (event) => this.point(event), onpointerdown: (event) => this.point(event),
      onpointerleave: () => this.choose(null)});
    this.tip = h('div', {class: 'tip', role: 'status', hidden: true});
    this.element = h('div', {class: 'map', tabindex: '0', role: 'group', 'aria-label': `Segments of ${pool.text}, their blocks and holes`,
      onkeydown: (event) => this.key(event), onblur: () => this.choose(null)}, this.canvas, this.tip);
  }

  draw() {
    this.resize = new ResizeObserver(() => {
      if (Math.abs(this.element.clientWidth - this.width) > 2) this.plot();
    });
    this.resize.observe(this.element);
    this.plot();
  }
  destroy() {
    if (this.resize) this.resize.disconnect();
  }

  show(state) {
    this.state = state;
    this.chosen = null;
    this.tip.hidden = true;
    if (this.width) this.plot();
  }

  plot() {
    this.width = this.element.clientWidth || 800;
    const {parts, lines} = layout(this.state.segments, this.width);
    this.parts = parts;
    const height = Math.max(0, lines * (LINE + LINE_GAP) - LINE_GAP);
    const dense = Math.min(window.devicePixelRatio || 1, Math.sqrt(MOST_PIXELS / Math.max(1, this.width * height)));
    this.canvas.width = Math.round(this.width * dense);
    this.canvas.height = Math.round(height * dense);
    Object.assign(this.canvas.style, {width: `${this.width}px`, height: `${height}px`});
    this.to = this.canvas.getContext('2d');
    this.to.setTransform(dense, 0, 0, dense, 0, 0);
    this.hole = themed('--hole');
    this.edge = themed('--hole-edge');
    parts.forEach((part) => this.paint(part));
  }

  /** Where of a part's line a piece stands; at least a pixel. */
  place(part, piece) {
    const scale = part.width / part.bytes;
    const left = Math.max(0, (piece.begin - part.begin) * scale), right = Math.min(part.width, (piece.begin + piece.bytes - part.begin) * scale);
    return {x: part.x + left, y: part.line * (LINE + LINE_GAP), width: Math.max(1, right - left)};
  }
  inPart(part) {
    return this.state.segments[part.index].pieces.filter((piece) => piece.begin < part.begin + part.bytes && piece.begin + piece.bytes > part.begin);
  }

  paint(part) {
    const y = part.line * (LINE + LINE_GAP);
    this.to.fillStyle = this.hole;
    this.to.fillRect(part.x, y, part.width, LINE);
    for (const piece of this.inPart(part)) {
      if (piece.hole) continue;
      const {x, width} = this.place(part, piece);
      this.to.fillStyle = siteColor(piece.count ? undefined : this.pool.colors.get(piece.row));
      this.to.fillRect(x, y, width > 3 ? width - 0.6 : width, LINE);
    }
    this.to.strokeStyle = this.edge;
    this.to.lineWidth = 1;
    this.to.stroke(this.outline(part, y));
  }

  /** Open on the side where the segment goes on in another line. */
  outline(part, y) {
    const segment = this.state.segments[part.index];
    const path = new Path2D(), left = part.x + 0.5, right = part.x + Math.max(1, part.width - 0.5), top = y + 0.5, bottom = y + LINE - 0.5;
    const side = (x) => {
      path.moveTo(x, top);
      path.lineTo(x, bottom);
    };
    for (const edge of [top, bottom]) {
      path.moveTo(left, edge);
      path.lineTo(right, edge);
    }
    if (part.begin === segment.begin) side(left);
    if (part.begin + part.bytes === segment.begin + segment.bytes) side(right);
    return path;
  }

  /** segment: its index; at: which of its pieces; null: none. */
  choose(chosen) {
    const before = this.chosen;
    this.chosen = chosen;
    if (before) this.parts.filter(({index}) => index === before.segment).forEach((part) => this.paint(part));
    this.tip.hidden = chosen === null;
    if (chosen === null) return;
    const segment = this.state.segments[chosen.segment], piece = segment.pieces[chosen.at];
    const parts = this.parts.filter(({index, begin, bytes}) => index === chosen.segment && piece.begin < begin + bytes && piece.begin + piece.bytes > begin);
    this.to.strokeStyle = themed('--ink');
    this.to.lineWidth = 2;
    for (const part of parts) {
      const {x, y, width} = this.place(part, piece);
      this.to.strokeRect(x, y + 1, width, LINE - 2);
    }
    replace(this.tip, this.describe(segment, piece));
    const {x, y} = this.place(parts[0], piece);
    const below = parts.at(-1).line * (LINE + LINE_GAP) + LINE + 6;
    this.tip.style.left = `${Math.max(0, Math.min(x, this.width - this.tip.offsetWidth))}px`;
    this.tip.style.top = y > this.tip.offsetHeight + 8 ? `${y - this.tip.offsetHeight - 6}px` : `${below}px`;
  }

  address(offset) {
    return `0x${(this.pool.base + BigInt(Math.round(offset))).toString(16)}`;
  }
  describe(segment, piece) {
    const where = h('div', {class: 'faint'}, `${this.address(piece.begin)}, in a segment of ${format.size(segment.bytes)}`,
      segment.captured && ', kept for a graph');
    if (piece.hole) return [h('strong', {}, format.size(piece.bytes)), ' idle', where];
    if (piece.count) {
      return [h('strong', {}, format.size(piece.used)), ` in ${format.counted(piece.count, 'smaller block')}`,
        piece.bytes > piece.used && `, ${format.size(piece.bytes - piece.used)} idle between them`, where];
    }
    return [h('strong', {}, format.size(piece.bytes)), ' ', this.pool.titleOf(piece.row), where, this.run.uses && h('div', {class: 'faint'}, this.use(piece))];
  }
  /** When the block was used, seen from the instant. */
  use({uses}) {
    const [name, ns] = standing(uses, this.state.ns);
    return `used: ${whenUsed(this.run, {name, shortest: ns, longest: ns})}`;
  }

  point(event) {
    const box = this.canvas.getBoundingClientRect();
    const x = event.clientX - box.left, line = Math.floor((event.clientY - box.top) / (LINE + LINE_GAP));
    const part = this.parts.find((candidate) => candidate.line === line && candidate.x <= x && x <= candidate.x + candidate.width);
    if (!part) return this.choose(null);
    const {pieces} = this.state.segments[part.index];
    const inside = this.inPart(part);
    // What stands under the pointer, the narrow ones first, which are drawn wider than they are.
    const under = inside.filter((piece) => {
      const {x: left, width} = this.place(part, piece);
      return left <= x && x <= left + width;
    });
    const piece = under.sort((a, b) => a.bytes - b.bytes)[0] ?? inside.at(-1);
    return piece && this.choose({segment: part.index, at: pieces.indexOf(piece)});
  }

  key(event) {
    const {segments} = this.state;
    if (segments.length === 0) return;
    const {segment, at} = this.chosen ?? {segment: 0, at: -1};
    const {pieces} = segments[segment];
    const last = segments.length - 1;
    const to = {
      ArrowRight: () => at + 1 < pieces.length ? {segment, at: at + 1} : {segment: Math.min(last, segment + 1), at: segment < last ? 0 : at},
      ArrowLeft: () => at > 0 ? {segment, at: at - 1} : segment > 0 ? {segment: segment - 1, at: segments[segment - 1].pieces.length - 1} : {segment, at: 0},
      ArrowDown: () => ({segment: Math.min(last, at < 0 ? 0 : segment + 1), at: 0}),
      ArrowUp: () => ({segment: Math.max(0, segment - 1), at: 0}),
      Home: () => ({segment: 0, at: 0}),
      End: () => ({segment: last, at: segments[last].pieces.length - 1}),
      Escape: () => null,
    }[event.key];
    if (!to) return;
    event.preventDefault();
    this.choose(to());
  }
}
