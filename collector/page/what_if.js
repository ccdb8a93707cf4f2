// The page of `gpupeak whatif --html`: memory over time as recorded and with the change, both peaks, and who would hold the
// new one. collector/views/fit.cc writes its data.
import {aligned, Chart, chartOptions, place, stepped, themed} from './chart.js';
import {choice, h, replace} from './dom.js';
import * as format from './format.js';
import {titled} from './sections.js';
import {countColumn, sumTable, table, titleColumn} from './table.js';

const whereText = (sum) => sum.scope === 'host' ? 'host memory'
  : `GPU ${sum.scope.slice(sum.scope.indexOf(':') + 1)}${sum.name ? ` (${sum.name})` : ''}`;

/** [times, as recorded, at least, at most] of a packed curve, until the run's end. */
function curvesOf(sum, endNs) {
  const times = [], before = [], least = [], most = [];
  let ns = 0;
  for (const [since, recorded, low, high = low] of sum.curve) {
    ns += since;
    times.push(ns);
    before.push(recorded);
    least.push(low);
    most.push(high);
  }
  if (times.length > 0 && endNs > ns) {
    times.push(endNs);
    for (const values of [before, least, most]) values.push(values.at(-1));
  }
  return {times, before, least, most};
}

class Overlay extends Chart {
  constructor(sum, endNs) {
    super();
    this.sum = sum;
    this.curves = curvesOf(sum, endNs);
    this.isBand = this.curves.most.some((value, i) => value !== this.curves.least[i]);
    this.plot = h('div', {class: 'plot', role: 'img', 'aria-label': `${whereText(sum)} over time, as recorded and with the change`});
    const key = (color, text) => h('span', {class: 'item'}, h('span', {class: 'swatch', style: {borderColor: `var(${color})`}}), text);
    const changed = sum.most_bytes === null ? 'with the change, at least' : this.isBand ? 'with the change, between its bounds' : 'with the change';
    this.element = h('div', {}, h('div', {class: 'legend'}, key('--accent', 'as recorded'), key('--good', changed)), this.plot);
  }
  draw() {
    const {times, before, least, most} = this.curves;
    const drawn = [before, least, ...(this.isBand ? [most] : [])].map((values) => ({times, values}));
    const data = aligned(drawn);
    data[0] = data[0].map((ns) => ns / 1e9);
    const line = (color, width) => ({stroke: themed(color), width, paths: stepped, points: {show: false}});
    this.show({
      ...chartOptions(this.plot.clientWidth || 800),
      series: [{}, {...line('--accent', 1.8), fill: themed('--area')}, line('--good', 1.8), ...(this.isBand ? [line('--good', 1.2)] : [])],
      bands: this.isBand ? [{series: [3, 2], fill: themed('--band')}] : [],
      hooks: {draw: [() => this.place()]},
    }, data);
    const {sum} = this;
    this.marks = [
      this.mark('peak', sum.before.time_ns, `${format.size(sum.before.peak_bytes)} at ${format.instant(sum.before.time_ns)}`),
      this.mark('changed', sum.time_ns, `${format.bounds(sum)} at ${format.instant(sum.time_ns)}`),
    ];
    this.place();
  }
  mark(name, ns, text) {
    const element = h('div', {class: `mark ${name}`}, h('span'));
    this.u.over.append(element);
    return {element, ns, text};
  }
  /** Each peak's mark where its time is now; its text on the side where there is room. */
  place() {
    if (!this.marks) return;
    for (const {element, ns, text} of this.marks) place(this.u, element, ns, text, 0.5);
  }
}

function lossNotice(sum) {
  if (sum.whole) return null;
  const counted = sum.counted_peak_bytes;
  return h('div', {class: 'notice bad'}, h('p', {}, h('strong', {}, 'Of what the log has alone. '),
    counted === null ? null : `The peak that was counted is ${format.size(counted)}: ${counted < sum.before.peak_bytes
      ? 'frees are missing from the log, so that it has too much.' : 'what is not in the log, and what it would be with the change, is in no figure here.'}`),
  h('ul', {}, sum.notes.map((note) => h('li', {}, note))));
}

function answerSection(sum) {
  const rows = [
    {what: 'as recorded', bytes: sum.before.peak_bytes, text: format.size(sum.before.peak_bytes), ns: sum.before.time_ns, change: '', smi: sum.used_before_bytes},
    {what: 'with the change', bytes: sum.most_bytes ?? sum.least_bytes, text: format.bounds(sum), ns: sum.time_ns, change: format.gain(sum.before.peak_bytes, sum), smi: sum.used_bytes},
  ];
  const hasDriver = sum.used_bytes !== null;
  return [lossNotice(sum), table({label: 'Both peaks', rows, search: false, order: {}, columns: [
    {key: 'what', label: whereText(sum)},
    {key: 'bytes', label: 'peak', number: true, cell: (row) => row.text},
    {key: 'ns', label: 'at', number: true, cell: (row) => format.instant(row.ns)},
    {key: 'change', label: 'change', number: true},
    ...(hasDriver ? [{key: 'smi', label: 'nvidia-smi', number: true, cell: (row) => format.size(row.smi)}] : []),
  ]}), sum.whole && sum.notes.map((note) => h('p', {class: 'faint'}, note))];
}

function holdersSection(sum) {
  const whole = sum.most_bytes ?? sum.least_bytes;
  const of = sum.exact || sum.most_bytes === sum.least_bytes ? 'peak' : sum.most_bytes === null ? 'lower bound' : 'upper bound';
  return titled('holders', 'Who would hold it', h('p', {class: 'faint'}, `At ${format.instant(sum.time_ns)}, of the ${of}.`),
    sumTable({label: 'Who would hold it', rows: sum.holders, whole, of, rest: [['more', sum.other_bytes]],
      right: [{key: 'count', label: 'blocks', number: true, cell: (row) => row.count > 0 ? format.count(row.count) : '–'}, titleColumn()]}));
}

function changesSection(answer) {
  const scales = answer.changes.filter((change) => typeof change !== 'string');
  return titled('changes', 'What is changed', h('p', {}, answer.text),
    scales.length > 0 && table({label: 'Patterns', rows: scales, search: false, order: {},
      columns: [titleColumn('blocks of', 'pattern'), {key: 'factor', label: 'times', number: true}, countColumn('blocks', 'blocks')]}),
    h('p', {class: 'faint'}, 'By going through the log once more with the change; the program was not run again.'));
}

/** Gives the elements of an answer; what they draw is added to `drawn`. */
function answerView(answer, drawn) {
  if (answer.sums.length === 0) return [changesSection(answer), h('p', {class: 'notice fair'}, 'No memory of a GPU was recorded.')];
  const box = h('div');
  let overlay = null;
  const show = (scope) => {
    const sum = answer.sums.find((one) => one.scope === scope);
    if (overlay) overlay.destroy();
    overlay = sum.curve.length > 0 ? new Overlay(sum, answer.duration_ns) : null;
    if (overlay) drawn.push(overlay);
    replace(box, h('section', {'aria-label': 'Answer'}, answerSection(sum)),
      overlay && titled('curves', 'Over time', overlay.element), holdersSection(sum));
    if (overlay && box.isConnected) overlay.draw();
  };
  show(answer.sums[0].scope);
  return [changesSection(answer),
    answer.sums.length > 1 && h('nav', {class: 'sticky', 'aria-label': 'Memory shown below'},
      choice('Memory', answer.sums.map((sum) => ({value: sum.scope, text: whereText(sum)})), answer.sums[0].scope, show)), box];
}

/** Shows all answers, one at a time. */
export function whatIf(answers, content, header) {
  const several = new Set(answers.map(({log}) => log)).size > 1;
  let drawn = [];
  const show = (index) => {
    drawn.forEach((thing) => thing.destroy());
    drawn = [];
    const answer = answers[index];
    document.title = `gpupeak: ${answer ? answer.text : 'what if'}`;
    replace(content, answer ? [h('section', {class: 'verdict', 'aria-label': 'In short'},
      answer.sums.map((sum) => h('p', {class: 'said'}, `${whereText(sum)}: peak ${format.bounds(sum)} in place of ${format.size(sum.before.peak_bytes)}, `
        + format.gain(sum.before.peak_bytes, sum) + (sum.exact ? ', exact' : '') + (sum.whole ? '' : ', of what the log has'))),
      h('p', {class: 'faint line'}, `what if: ${answer.text} · ${answer.log}`)), answerView(answer, drawn)]
      : h('p', {class: 'notice fair'}, 'No setting and no site alone would lower the peak of a GPU.'));
    drawn.forEach((thing) => thing.draw());
  };
  header(answers.length > 1 ? choice('Change', answers.map((answer, i) => ({value: String(i), title: answer.log,
    text: several ? `${answer.log.replace(/^.*\//, '')}: ${answer.text}` : answer.text})), '0', (value) => show(Number(value))) : null);
  show(0);
  return () => { drawn.forEach((thing) => { thing.destroy(); thing.plot.replaceChildren(); thing.draw(); }); };
}
