// The parts of the page that only show: each takes a run and gives an element, or null if there is
// nothing to show.
import {h} from './dom.js';
import * as format from './format.js';
import {isInterpreter, isScript} from './model.js';
import {foldedSource} from './source.js';
import {bytesColumn, countColumn, sumTable, table, titleColumn} from './table.js';
import {used, usedColumn} from './uses.js';

export const titled = (id, title, ...children) =>
  h('section', {id, 'aria-labelledby': `${id}-title`}, h('h2', {id: `${id}-title`}, title), ...children);

/** The first screen: how much, who, why, what next. The terminal says the same (collector/summary/verdict.h). */
export function verdict(run) {
  const {sentences, rows, bar, hints, next, facts: line} = run.verdict;
  const {warnings, exact} = run.summary.quality;
  const steps = next.filter((step) => !step.command.includes(' --html '));  // here it is
  return h('section', {class: 'verdict', 'aria-label': 'In short'},
    sentences.map(({text, alarm}) => h('p', {class: alarm ? 'said alarm' : 'said'}, sentence(text))),
    rows.length > 0 && h('ul', {class: 'processes', 'aria-label': 'Processes'}, rows.map((row) => h('li', {}, row))),
    bar.length > 0 && partsBar(bar.map((part) => ({...part, title: part.name}))),
    hints.length > 0 && h('ul', {class: 'hints'}, hints.map((hint) => h('li', {}, sentence(hint)))),
    h('p', {class: 'faint line'}, line),
    warnings.length > 0 && h('details', {open: !exact}, h('summary', {}, format.counted(warnings.length, 'warning')),
      h('ul', {}, warnings.map((warning) => h('li', {}, h('code', {}, warning.code), ' ', warning.message)))),
    steps.length > 0 && h('p', {class: 'faint line'}, 'Next: ',
      steps.map((step, i) => [i > 0 && ' · ', h('code', {}, step.command), ' ', step.why])));
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** parts: {title, bytes, free}, in the order of the bar; of less than nothing only the key tells. */
function partsBar(parts) {
  const shade = (part, i) => part.free ? 'part-free' : `part-${i % 8}`;
  return [
    h('div', {class: 'stack', role: 'img', 'aria-label': parts.map((part) => `${part.title} ${format.size(part.bytes)}`).join(', ')},
      parts.map((part, i) => part.bytes > 0 && h('span', {class: `part ${shade(part, i)}`,
        title: `${part.title}: ${format.size(part.bytes)}`, style: {flexGrow: String(part.bytes)}}))),
    h('ul', {class: 'key'}, parts.map((part, i) => h('li', {}, h('span', {class: `dot ${shade(part, i)}`}), part.title, ' ',
      h('strong', {}, format.size(part.bytes))))),
  ];
}

/** What was run, where and how it was recorded. */
export function about(run) {
  const {run: process, quality, tool} = run.summary;
  const started = process.start_time ? process.start_time.replace('T', ' ').replace('Z', ' UTC') : '';
  const pairs = [
    ['Process', `${process.pid}${process.host ? ` on ${process.host}` : ''}${process.rank === null ? '' : `, rank ${process.rank}`}`],
    ['Started', started], ['Ran', `${format.time(process.duration_ns)}, ${run.exit}`],
    ['Events', `${format.count(quality.device_events)} device, ${format.count(quality.host_events)} host`],
    ['Log', `${run.log} (${format.size(run.log_bytes)}), gpupeak ${tool.version}`],
    ...run.summary.devices.map((device) => [`GPU ${device.ordinal}`, `${device.name || 'name not known'}, ${format.size(device.total_bytes)}`]),
    ...Object.entries(process.labels),
  ];
  return titled('about', 'This run', h('code', {class: 'command'}, run.command),
    h('dl', {}, pairs.filter(([, text]) => text).map(([name, text]) => h('div', {}, h('dt', {}, name), h('dd', {}, text)))));
}

export function cards(run, chosen, onchoose) {
  return h('div', {class: 'cards'}, run.mainScopes().map((scope) => {
    const largest = run.rows(scope.tables.site.rows.slice(0, 1))[0];
    return h('button', {type: 'button', class: 'card', 'aria-pressed': String(scope === chosen), onclick: () => onchoose(scope.name)},
      h('span', {class: 'what'}, scope.text), h('span', {class: 'big'}, format.size(scope.bytes)),
      h('span', {class: 'faint'}, `peak at ${format.instant(scope.time_ns)}${scope.phase ? `, phase ${scope.phase}` : ''}`),
      largest && h('span', {class: 'faint site', title: largest.title}, `${format.percent(largest.bytes, scope.bytes)} ${largest.title}`));
  }), reserve(run));
}

/** What the kernel says of the process, beside the exact figures. Of one without an end samples alone are known. */
function reserve(run) {
  const rss = run.summary.metrics['host.rss.peak_bytes'];
  if (rss === null || rss === undefined) return null;
  const ended = run.summary.quality.log_complete;
  const host = run.scopeByName.get('host');
  return h('div', {class: 'card still'}, h('span', {class: 'what'}, `Resident memory (RSS)${ended ? '' : ', sampled'}`),
    h('span', {class: 'big'}, `${ended ? '' : '≥ '}${format.size(rss)}`),
    h('span', {class: 'faint'}, `peak, ${ended ? 'as the kernel says' : 'of samples'}; only pages that were touched`,
      run.summary.resident?.length > 0 && `: ${run.summary.resident.slice(0, 5).map(({cause, bytes}) => `${cause} ${format.size(bytes)}`).join(' · ')}`,
      ended && host && rss < host.bytes && `${run.summary.resident?.length > 0 ? '; ' : ': '}of the ${format.size(host.bytes)} of the host, ${format.size(host.bytes - rss)} or more never were`),
    (run.touched ?? []).slice(0, 3).map((text) => h('span', {class: 'faint site', title: text}, text)));
}

export function peakLine(run, scope) {
  const trigger = scope.trigger && run.rows([scope.trigger])[0];
  return h('p', {}, h('strong', {}, format.size(scope.bytes)), ` (${format.bytes(scope.bytes)}) of ${scope.text} at `,
    format.instant(scope.time_ns), scope.phase && [', in phase ', h('strong', {}, scope.phase)], '. ',
    trigger && h('span', {class: 'faint'}, `Reached by ${format.size(trigger.bytes)} for `, h('code', {}, trigger.title), '.'));
}

/** Settings that would lower the device's peak: as the terminal's report has them. */
export function lowering(run, scope) {
  const rows = (run.summary.lowering || []).filter((row) => row.scope === scope.name);
  if (rows.length === 0) return null;
  return titled('lowering', 'What would lower it', h('p', {class: 'faint'}, 'Each setting alone, by replay. Without a site: ',
    h('code', {}, `gpupeak whatif ${run.log}`)),
  table({label: 'What would lower it', rows, search: false, order: {}, columns: [
    {key: 'least_bytes', label: 'peak', number: true, cell: format.bounds}, {key: 'most_bytes', label: 'change', number: true, cell: (row) => format.gain(row.before_bytes, row)},
    {key: 'text', label: 'setting', class: 'title'}]}));
}

/** When what was live at a device's peak was used: as the terminal's `report --last-use`. */
export function lastUse(run, scope) {
  const found = run.usesOf(scope);
  if (!found) return null;
  const parts = [...found.sums.map(({text, bytes}) => ({title: text, bytes})), {title: 'idle in pools', bytes: found.idleBytes, free: true}];
  const rows = found.rows.map((row) => ({...row, ...used(run, row, row.bytes)}));
  return titled('uses', 'Last use', partsBar(parts.filter(({bytes}) => bytes > 0)),
    run.uses.notes.map((note) => h('p', {class: 'faint'}, note)),
    sumTable({label: 'Last use', rows, whole: scope.bytes, of: 'peak',
      rest: [[`${format.count(found.otherRows)} more`, found.otherBytes], ['idle in pools', found.idleBytes]],
      right: [countColumn('count', 'blocks'), usedColumn(run), titleColumn(), {key: 'kind', label: 'kind'}]}));
}

/** When what was live at the peak was allocated: as the terminal's `report --at peak`. */
export function ages(run, scope) {
  const found = run.ages?.[scope.name];
  if (!found || found.rows.length === 0) return null;
  const other = 'not known: mappings, idle in pools';
  return titled('ages', 'By age', h('p', {class: 'faint'}, 'When what was live at the peak was allocated', found.step && found.step !== 'step' && `; a step is one of “${found.step}”`, '.'),
    partsBar([...found.rows.map(({text, bytes}) => ({title: text, bytes})), {title: other, bytes: found.other_bytes, free: true}].filter(({bytes}) => bytes > 0)),
    sumTable({label: 'By age', rows: found.rows, whole: scope.bytes, of: 'peak', search: false, order: {}, rest: [[other, found.other_bytes]],
      right: [countColumn('blocks', 'blocks'), {key: 'text', label: 'allocated'}, bytesColumn('site_bytes', 'most of it'), titleColumn('by', 'site')]}),
    found.odd.length > 0 && h('p', {class: 'odd'}, h('strong', {}, 'Odd: '), found.odd.map((one) => `${format.size(one.bytes)} in ${format.counted(one.blocks, 'block')} by ${one.site}, ` +
      `${format.time(one.oldest_ns)} old; ${format.count(one.freed)} others of this call lived ${format.time(one.longest_ns)} at most`).join('. ')));
}

/** A stack, innermost first. Between a script's calls only how many the interpreter's own are. The lines that `title` begins with are unfolded. */
function stackList(stack, title, onfind, sourceOf) {
  const first = stack.find(({n, at}) => at && title.startsWith(n)) || stack.find(({at}) => at);
  const item = (call) => h('li', {}, h('code', {}, call.n), call.place && h('span', {class: 'faint'}, ` ${call.place}`),
    foldedSource(sourceOf(call.at), call === first));
  const items = [];
  const scripted = stack.some(({place}) => isScript(place));
  for (let i = 0; i < stack.length;) {
    let end = i;
    while (scripted && end < stack.length && isInterpreter(stack[end].place)) ++end;
    if (end - i > 1) {
      items.push(h('li', {class: 'run'}, h('details', {}, h('summary', {}, `${format.count(end - i)} calls of the interpreter`),
        h('ol', {}, stack.slice(i, end).map(item)))));
      i = end;
    } else {
      items.push(item(stack[i++]));
    }
  }
  return h('div', {class: 'whole'}, h('ol', {}, items),
    onfind && h('button', {type: 'button', class: 'plain', onclick: () => onfind(stack)}, 'Show in the flame graph'));
}

/**
 * held: {rows, otherBytes, otherRows}, which add up to whole. stackOf(row), onfind(stack): rows open to their stack, which
 * leads to its place in the flame graph; sourceOf(at): the lines of its calls.
 */
export function holderTable(held, whole, {label, by = 'site', search = true, details = true, stackOf, onfind, sourceOf = () => null}) {
  const title = {key: 'title', label: by, class: 'title', cell: (row) => [h('span', {title: row.title}, row.title),
    row.temporary && h('span', {class: 'tag'}, 'temporary')]};
  const columns = [countColumn('count', 'blocks'), {key: 'kind', label: 'kind'}, {key: 'module', label: 'module', class: 'module'}];
  if (details) columns.push({key: 'phase', label: 'phase'}, {key: 'thread', label: 'thread', number: true, cell: (row) => row.thread ?? '–'});
  const detail = stackOf && by === 'site' && ((row) => {
    const stack = stackOf(row);
    return stack && (() => stackList(stack, row.title, onfind, sourceOf));
  });
  return sumTable({rows: held.rows, whole, of: details ? 'peak' : 'live', rest: [[`${format.count(held.otherRows)} more`, held.otherBytes]],
    left: [title], right: columns.filter(({key}) => key !== by), search, label, detail});
}

/// How near to the peak a reading was: its causes are those of its own instant.
function nearness(view, peak) {
  if (view.by_failed_call) return 'when an allocation failed';
  if (view.read_ns !== undefined)
    return `at the peak, by what was read ${format.time(view.time_ns - view.read_ns)} before and handed out since`;
  if (view.tracked_bytes >= peak.bytes) return 'at the peak';
  const apart = format.time(Math.abs(peak.time_ns - view.time_ns));
  return `read ${apart} ${view.time_ns < peak.time_ns ? 'before' : 'after'} the peak, ` +
    `when ${format.size(view.tracked_bytes)} of ${format.size(peak.bytes)} were handed out`;
}

export function ledger(run, scope) {
  const device = run.summary.devices.find(({ordinal}) => ordinal === scope.device);
  if (!device || !device.ledger || scope.kind !== '') return null;
  const bar = (name, view) => {
    const rows = [{cause: 'handed out to the program', bytes: view.tracked_bytes}, ...view.rows].filter((row) => row.bytes !== 0);
    return h('figure', {class: 'ledger'}, h('figcaption', {}, h('strong', {}, format.size(view.used_bytes)), ` ${name}, `,
      format.instant(view.time_ns)), partsBar(rows.map((row) => ({title: row.cause.replaceAll('_', ' '), bytes: row.bytes}))));
  };
  const {at_peak: atPeak, at_exit: atExit, items = []} = device.ledger;
  return titled('ledger', 'What nvidia-smi shows', h('p', {class: 'faint'},
    `Memory in use of GPU ${device.ordinal} by ${atPeak.of_process ? 'this process' : 'all processes'}, as ${device.ledger.source === 'nvml' ? 'NVML' : device.ledger.source} says, and what it is made of.`),
  bar(nearness(atPeak, scope), atPeak), bar('at exit', atExit),
  atPeak.of_process && atPeak.others_bytes > 0 && h('p', {}, `others ${format.size(atPeak.others_bytes)}: `,
    atPeak.others.map(({pid, name, bytes}) => `pid ${pid}${name && ` ${name}`} ${format.size(bytes)}`).join(', ')),
  items.length > 0 && table({label: 'What is behind it', rows: items, columns: [
    bytesColumn('bytes', 'size'), {key: 'cause', label: 'cause'},
    {key: 'name', label: 'what', class: 'title'}, {key: 'count', label: 'calls', number: true}]}));
}

export function phases(run) {
  const {phases: all} = run.summary;
  if (all.length === 0) return null;
  const device = run.summary.devices.length > 0;
  const depth = new Map();
  const rows = all.map((phase, i) => {
    depth.set(phase.name, phase.parent === null ? 0 : (depth.get(phase.parent) ?? 0) + 1);
    const site = phase.biggest_new_device_site || phase.biggest_new_host_site;
    const figure = (name) => phase.metrics[name] ?? null;
    return {order: i, name: phase.name, depth: depth.get(phase.name), count: phase.count, begin: phase.begin_ns,
      length: phase.end_ns === null ? null : phase.end_ns - phase.begin_ns, site: site ? site.site : '',
      device: figure('device.peak_bytes'), deviceAllocs: figure('device.alloc_count'),
      host: figure('host.peak_bytes'), hostAllocs: figure('host.alloc_count')};
  });
  return titled('phases', 'Phases', table({label: 'Phases', rows, order: {key: 'order', down: false}, columns: [
    {key: 'name', label: 'phase', cell: (row) => h('span', {style: {paddingLeft: `${row.depth * 1.1}em`}},
      row.name, row.count > 1 && h('span', {class: 'faint'}, ` ×${format.count(row.count)}`))},
    {key: 'order', label: 'begin', number: true, cell: (row) => format.instant(row.begin)},
    {key: 'length', label: 'length', number: true, cell: (row) => row.length === null ? 'no end' : format.time(row.length)},
    ...(device ? [bytesColumn('device', 'device peak'), {key: 'deviceAllocs', label: 'allocations', number: true}] : []),
    bytesColumn('host', 'host peak'), countColumn('hostAllocs', 'allocations'), titleColumn('biggest new site', 'site'),
  ]}));
}

/** Those that are alike stand once, with the last of them: programs ask again (collector/summary/verdict.h). */
function foldFailures(oom) {
  const groups = new Map();
  for (const failed of oom) {
    if (failed.told_by_pool) continue;
    const key = JSON.stringify([Boolean(failed.refused_by), failed.device, failed.requested_bytes, failed.result, failed.phase, failed.site]);
    const count = (groups.get(key)?.count ?? 0) + 1;
    groups.delete(key);  // the order is that of the last ones
    groups.set(key, {failed, count});
  }
  return [...groups.values()].reverse();
}

export function failures(run) {
  const {oom, oom_count: all} = run.summary;
  if (!oom || oom.length === 0) return null;
  return titled('failures', `Failed allocations (${format.count(all)})`, foldFailures(oom).slice(0, 10).map(({failed, count}) => h('div', {class: 'notice bad'},
    h('p', {}, h('strong', {}, `${format.size(failed.requested_bytes)} by ${failed.api}: ${failed.result}`), ` at ${format.instant(failed.time_ns)}`,
      failed.phase && `, in phase ${failed.phase}`, count > 1 && `, ${format.count(count)} times`,
      `. Held then ${format.size(failed.live_bytes)}, free ${format.size(failed.driver_free_bytes)}, would have fitted ${format.size(failed.largest_fit_bytes)}.`),
    failed.why && h('p', {}, h('strong', {}, 'Why: '), failed.why, '.', failed.help && [' ', h('strong', {}, 'Try: '), failed.help, '.']),
    h('p', {}, 'At ', h('code', {}, failed.site)),
    failed.holders.length > 0 && holderTable({rows: failed.holders.map((row) => ({...row, title: row.site})), otherBytes: 0, otherRows: 0},
      failed.holders.reduce((sum, row) => sum + row.bytes, 0), {label: 'What was live', search: false, details: false}))));
}

/** What grew at each step (collector/analyze/growth_summary.cc). */
export function growth(run) {
  const rows = run.summary.growth ?? [];
  if (rows.length === 0) return null;
  return titled('growth', 'Growth', h('p', {class: 'faint'}, 'Sites that held more at each end of a repeated phase than at the one before, or of which blocks stay at each step.'),
    table({label: 'Growth', rows, columns: [bytesColumn('bytes_each', 'each time'), countColumn('steps', 'times'),
      bytesColumn('grown_bytes', 'in all'), {key: 'phase', label: 'phase'}, {key: 'side', label: 'memory'}, titleColumn('site', 'site')]}));
}

export function temporaries(run) {
  if (run.temporaries.length === 0) return null;
  return titled('temporaries', 'Temporaries', h('p', {class: 'faint'}, 'Blocks that were freed at once: where reusing a buffer would pay.'),
    table({label: 'Temporaries', rows: run.rows(run.temporaries), columns: [countColumn('count', 'blocks'), titleColumn(),
      {key: 'kind', label: 'kind'}, {key: 'module', label: 'module', class: 'module'}, {key: 'phase', label: 'phase'}]}));
}

export function leaks(run) {
  const sides = run.live_at_exit.filter((side) => side.bytes > 0);
  if (sides.length === 0) return null;
  const ended = run.summary.quality.log_complete;
  return titled('leaks', ended ? 'Live at exit' : 'Live at the last event',
    h('p', {class: 'faint'}, 'Not freed by the end. Most programs leave some memory to the kernel on purpose.'),
    sides.map((side) => [h('h3', {}, side.text, h('span', {class: 'faint'}, ` ${format.size(side.bytes)} in ${format.counted(side.count, 'block')}`)),
      holderTable({rows: run.rows(side.rows), otherBytes: side.other_bytes, otherRows: side.other_rows}, side.bytes,
        {label: `Live at exit: ${side.text}`, details: false, stackOf: (row) => run.stackOf(row)})]));
}
