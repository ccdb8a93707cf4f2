// The page of `gpupeak report --html`: the verdict first, then failures, who held the peak, what was
// live when, and the lists.
import 'uplot/dist/uPlot.min.css';
import './page.css';
import {buffers} from './buffers.js';
import {compare} from './compare.js';
import {choice, h, replace} from './dom.js';
import {Flame} from './flame.js';
import * as format from './format.js';
import {load} from './model.js';
import {arenaSection} from './arena_section.js';
import {saveButtons} from './save.js';
import * as sections from './sections.js';
import {sourceView} from './source.js';
import {stackedCurves, Timeline} from './timeline.js';
import {whatIf} from './what_if.js';

const GROUPINGS = ['site', 'function', 'line', 'file', 'module', 'phase', 'tag', 'kind', 'thread'];

const page = load();
const state = {run: null, scope: null, by: 'site', view: 'flame', of: 'peak', stack: 'kind'};
let drawn = [];  // what listens to its size and must be told to go

/** What is drawn no more. */
function forget(thing) {
  thing.destroy();
  drawn = drawn.filter((other) => other !== thing);
}

function showRun(run) {
  state.run = run;
  state.of = 'peak';
  state.scope = run.mainScopes()[0] || null;
  render();
}

function showScope(name) {
  state.of = 'peak';
  state.scope = state.run.scopeByName.get(name);
  render(true);
}

function runPicker() {
  if (page.runs.length === 1) return null;
  const options = [{value: 'compare', text: 'Compare'}].concat(page.runs.map((run, i) =>
    ({value: String(i), text: run.shortName(), title: run.command})));
  const chosen = state.run === null ? 'compare' : String(state.run.index);
  return choice('Run', options, chosen, (value) => {
    if (value === 'compare') {
      state.run = null;
      render();
    } else {
      showRun(page.runs[Number(value)]);
    }
  });
}

function scopeName(scope) {
  if (scope.device >= 0) return `GPU ${scope.device}`;
  return {host: 'Host', device: 'All GPUs', total: 'Host and GPUs'}[scope.name] || scope.text;
}

function scopePicker(run) {
  const main = run.mainScopes();
  const options = main.map((scope) => ({value: scope.name, text: scopeName(scope), title: scope.text}));
  const others = run.scopes.filter((scope) => !main.includes(scope) && !run.isWhole(scope));
  const picker = choice('Memory', options, state.scope.name, showScope);
  if (others.length === 0) return picker;
  const select = h('select', {'aria-label': 'Other sums and kinds', onchange: (event) => showScope(event.target.value)},
    h('option', {value: '', disabled: true, selected: !others.includes(state.scope)}, 'one kind …'),
    others.map((scope) => h('option', {value: scope.name, selected: scope === state.scope},
      `${scope.text}: ${format.size(scope.bytes)}`)));
  return h('div', {class: 'pickers'}, picker, select);
}

/** What was live at the chosen instant. */
function liveView(run, scope, moments, index, find) {
  const live = moments.live(index), recorded = moments.reason(index);
  const reason = index === moments.peak ? ' · the peak' : recorded === '' || recorded.startsWith('peak of') ? '' : ` · ${recorded}`;
  return [
    h('h3', {}, `Live at ${format.instant(moments.ns(index), 6)}`, h('span', {class: 'faint'}, reason)),
    h('p', {class: 'total'}, format.size(live.total), h('span', {class: 'faint'}, ` ${scope.text} · `,
      `${format.percent(live.total, scope.bytes)} of its peak`)),
    sections.holderTable(live, live.total, {label: 'What was live', search: false, details: false,
      stackOf: (row) => run.stackOf(row), onfind: find, sourceOf: (at) => run.source(scope, at)}),
  ];
}

function timelineSection(run, scope, peak, pools) {
  if (run.instants.list.length === 0) return null;
  const moments = run.momentsOf(scope);
  const live = h('div', {class: 'live', 'aria-live': 'polite'});
  const show = (index) => replace(live, liveView(run, scope, moments, index,
    (stack) => peak.find(stack, index === moments.peak ? 'peak' : 'instant')));
  const box = h('div'), saves = h('span', {class: 'saves'});
  let timeline = null;
  const draw = () => {
    const chosen = timeline ? timeline.index : moments.peak;
    if (timeline) forget(timeline);
    timeline = new Timeline(run, scope, moments, (index) => {
      show(index);
      peak.showInstant(index);
      if (pools) pools.follow(moments.ns(index));
    }, state.stack === 'kind' ? undefined : () => stackedCurves(run, scope, state.stack));
    timeline.index = chosen;
    drawn.push(timeline);
    replace(box, timeline.element);
    const way = state.stack === 'kind' ? '' : `.by_${state.stack}`;
    replace(saves, saveButtons(timeline, `${run.shortName()}.${scope.name.replace(/\W/g, '_')}${way}`, scope.text));
    if (box.isConnected) timeline.draw();
  };
  const ways = [{value: 'kind', text: 'By kind'}, ...['tag', 'site'].filter((way) => run.stackedBy(scope, way))
    .map((way) => ({value: way, text: `Stacked by ${way}`}))];
  if (!ways.some(({value}) => value === state.stack)) state.stack = 'kind';
  draw();
  show(timeline.index);
  return sections.titled('timeline', 'Over time', h('div', {class: 'tools'}, ways.length > 1 && choice('Curve', ways, state.stack, (way) => {
    state.stack = way;
    draw();
  }), saves), box, live);
}

/** Of what the flame graph is: its tree, what it is called, how much there is of it, and the measure of its cells. */
function flameOf(run, scope, moments, of, index) {
  const bytes = (whole, what) => (value) => `${format.size(value)}, ${format.percent(value, whole)} of ${what}`;
  if (of === 'exit') {
    const side = run.live_at_exit.find((one) => one.scope === scope.name);
    return {tree: run.tree(side.flame, scope.text), text: [h('strong', {}, format.size(side.bytes)), ' live at exit'],
      amount: bytes(side.bytes, 'what is live at exit')};
  }
  if (of === 'temporaries') {
    const tree = run.tree(scope.temporaries, scope.text);
    return {tree, text: [h('strong', {}, format.count(tree.v)), ' blocks that were freed at once'],
      amount: (value) => `${format.counted(value, 'block')}, ${format.percent(value, tree.v)} of those freed at once`};
  }
  if (of === 'instant') {
    const tree = moments.tree(index);
    return {tree, text: [h('strong', {}, format.size(tree.v)), ` at ${format.instant(moments.ns(index), 6)}`], amount: bytes(tree.v, 'what was live then')};
  }
  return {tree: run.tree(scope.flame, scope.text), text: [h('strong', {}, format.size(scope.bytes)), ` at the peak, ${format.instant(scope.time_ns)}`],
    amount: bytes(scope.bytes, 'the peak')};
}

/** What the flame graph can be of. */
function flameChoices(run, scope) {
  const side = run.live_at_exit.find((one) => one.scope === scope.name);
  return [{value: 'peak', text: 'Peak'}, run.instants.list.length > 0 && {value: 'instant', text: 'Chosen instant', title: 'the one that is chosen on the curve below'},
    side && side.flame && {value: 'exit', text: 'Live at exit'}, scope.temporaries && {value: 'temporaries', text: 'Temporaries'}].filter(Boolean);
}

/** The section, what shows a stack in its flame graph, and what shows an instant there. */
function peakSection(run, scope) {
  const box = h('div'), said = h('p', {class: 'of', 'aria-live': 'polite'});
  const groupings = GROUPINGS.filter((name) => scope.tables[name]);
  if (!groupings.includes(state.by)) state.by = 'site';  // what another memory had
  const moments = run.instants.list.length > 0 ? run.momentsOf(scope) : null;
  const choices = flameChoices(run, scope);
  if (!choices.some(({value}) => value === state.of)) state.of = 'peak';
  let flame = null, index = moments ? moments.peak : 0;
  const show = () => {
    if (flame) forget(flame);
    flame = null;
    by.hidden = state.view !== 'table';
    of.hidden = said.hidden = state.view === 'table';
    if (state.view === 'flame') {
      const {tree, text, amount} = flameOf(run, scope, moments, state.of, index);
      flame = new Flame(tree, amount, (at) => sourceView(run.source(scope, at)));
      drawn.push(flame);
      replace(said, text);
      replace(box, flame.element);
      if (box.isConnected) flame.draw();
    } else {
      replace(box, sections.holderTable(run.table(scope, state.by), scope.bytes, {label: `Holders by ${state.by}`, by: state.by,
        stackOf: (row) => run.stackOf(row), onfind: (stack) => find(stack, 'peak'), sourceOf: (at) => run.source(scope, at)}));
    }
  };
  const view = choice('View', [{value: 'flame', text: 'Flame graph'}, {value: 'table', text: 'Table'}], state.view,
    (value) => {
      state.view = value;
      show();
    });
  const of = choice('Flame graph of', choices, state.of, (value) => {
    state.of = value;
    show();
  });
  const by = choice('Rows', groupings.map((name) => ({value: name, text: name})), state.by, (value) => {
    state.by = value;
    show();
  });
  const turnTo = (what) => {
    state.of = what;
    of.mark(what);
  };
  const find = (stack, what) => {
    state.view = 'flame';
    view.mark('flame');
    if (what) turnTo(what);
    show();
    flame.element.scrollIntoView({block: 'center'});
    flame.reveal(stack);
  };
  const showInstant = (chosen) => {
    index = chosen;
    turnTo(index === moments.peak ? 'peak' : 'instant');
    if (state.view === 'flame') show();
  };
  show();
  return {find, showInstant, element: sections.titled('peak', 'Who held the peak', sections.peakLine(run, scope),
    h('div', {class: 'tools'}, view, of, by), said, box)};
}

function header(picker) {
  replace(document.getElementById('top'), h('div', {class: 'brand'}, h('span', {class: 'logo', 'aria-hidden': 'true'}, '▲'),
    h('h1', {}, 'gpupeak')), picker);
}

function render(keepPlace = false) {
  const focus = document.activeElement && document.activeElement.closest('[role=radiogroup]');
  const label = focus && focus.getAttribute('aria-label');
  const scroll = window.scrollY;
  drawn.forEach((thing) => thing.destroy());
  drawn = [];
  header(runPicker());
  const content = document.getElementById('content');
  if (state.run === null) {
    document.title = `gpupeak: ${page.runs.length} runs`;
    replace(content, compare(page.runs, showRun, drawn));
  } else {
    const {run, scope} = state;
    document.title = `gpupeak: ${run.shortName()}`;
    const said = [sections.verdict(run), sections.failures(run)];
    const peak = scope && peakSection(run, scope);
    const pools = arenaSection(run, scope);
    if (pools) drawn.push(pools);
    if (!scope) replace(content, said, h('p', {class: 'notice fair'}, 'No memory was recorded.'), pools && pools.element, sections.phases(run), sections.about(run));
    else replace(content, said,
      sections.cards(run, scope, showScope),
      h('nav', {class: 'sticky', 'aria-label': 'Memory shown below'}, scopePicker(run)),
      peak.element,
      buffers(run, scope),
      sections.lastUse(run, scope),
      sections.ages(run, scope),
      sections.lowering(run, scope),
      timelineSection(run, scope, peak, pools),
      pools && pools.element,
      sections.ledger(run, scope),
      sections.phases(run),
      sections.growth(run),
      sections.temporaries(run),
      sections.leaks(run),
      sections.about(run));
  }
  drawn.forEach((thing) => thing.draw());
  if (keepPlace) window.scrollTo(0, scroll);
  if (label) {
    const again = document.querySelector(`[role=radiogroup][aria-label="${label}"] [aria-checked=true]`);
    if (again) again.focus({preventScroll: true});
  }
}

replace(document.getElementById('end'), h('p', {}, `Made by gpupeak ${page.version}. MiB are 2`, h('sup', {}, '20'),
  ' bytes. Charts: uPlot, d3-flame-graph.'));
const onTheme = (redraw) => matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
if (page.answers) {
  onTheme(whatIf(page.answers, document.getElementById('content'), header));
} else {
  onTheme(() => render(true));
  state.run = page.runs.length > 1 ? null : page.runs[0];
  if (state.run) state.scope = state.run.mainScopes()[0] || null;
  render();
}
