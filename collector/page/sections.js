// The parts of the page that only show: each takes a run and gives an element, or null if there is
// nothing to show.
import {h} from './dom.js';
import * as format from './format.js';
import {share, table} from './table.js';

export const titled = (id, title, ...children) =>
  h('section', {id, 'aria-labelledby': `${id}-title`}, h('h2', {id: `${id}-title`}, title), ...children);

export function facts(run) {
  const {run: process, quality, tool} = run.summary;
  const exit = process.exit.kind === 'signal' ? `killed by signal ${process.exit.code}`
    : process.exit.kind === 'exit' ? `exit ${process.exit.code}` : 'no exit seen';
  const started = process.start_time ? process.start_time.replace('T', ' ').replace('Z', ' UTC') : '';
  const pairs = [
    ['Process', `${process.pid}${process.host ? ` on ${process.host}` : ''}${process.rank === null ? '' : `, rank ${process.rank}`}`],
    ['Started', started], ['Ran', `${format.time(process.duration_ns)}, ${exit}`],
    ['Events', `${format.count(quality.device_events)} device, ${format.count(quality.host_events)} host`],
    ['Log', `${run.log} (${format.size(run.log_bytes)}), gpupeak ${tool.version}`],
    ...run.summary.devices.map((device) => [`GPU ${device.ordinal}`, `${device.name || 'name not known'}, ${format.size(device.total_bytes)}`]),
    ...Object.entries(process.labels),
  ];
  return h('div', {class: 'facts'}, h('code', {class: 'command'}, run.command),
    h('dl', {}, pairs.filter(([, text]) => text).map(([name, text]) => h('div', {}, h('dt', {}, name), h('dd', {}, text)))));
}

export function quality(run) {
  const {quality} = run.summary;
  const fine = quality.exact && quality.log_complete;
  const concernsNames = ({code}) => code === 'GP025' || code === 'GP026';  // matters less than losses
  const names = quality.warnings.filter(concernsNames), losses = quality.warnings.filter((warning) => !concernsNames(warning));
  const said = quality.exact ? (quality.log_complete ? 'Nothing was lost: the figures below are exact.'
    : 'The log has no end (killed, or still running). The figures are exact up to there.')
    : quality.dropped_events > 0 ? `${format.count(quality.dropped_events)} events were lost: figures are not exact.`
      : 'Not all figures are exact.';
  return h('div', {class: `notice ${fine ? 'good' : quality.exact ? 'fair' : 'bad'}`, role: 'note'}, h('strong', {}, said),
    notes(losses, !quality.exact, losses.length === 1 ? '1 note' : `${losses.length} notes`),
    notes(names, false, `${names.length} ${names.length === 1 ? 'module' : 'modules'} without names of functions`));
}

const notes = (warnings, open, summary) => warnings.length > 0 && h('details', {open}, h('summary', {}, summary),
  h('ul', {}, warnings.map((warning) => h('li', {}, h('code', {}, warning.code), ' ', warning.message))));

export function cards(run, chosen, onchoose) {
  return h('div', {class: 'cards'}, run.mainScopes().map((scope) => {
    const largest = run.rows(scope.tables.site.rows.slice(0, 1))[0];
    return h('button', {type: 'button', class: 'card', 'aria-pressed': String(scope === chosen), onclick: () => onchoose(scope.name)},
      h('span', {class: 'what'}, scope.text), h('span', {class: 'big'}, format.size(scope.bytes)),
      h('span', {class: 'faint'}, `peak at ${format.instant(scope.time_ns)}${scope.phase ? `, phase ${scope.phase}` : ''}`),
      largest && h('span', {class: 'faint site', title: largest.title}, `${format.percent(largest.bytes, scope.bytes)} ${largest.title}`));
  }), reserve(run));
}

/** What the kernel says of the process, beside the exact figures. */
function reserve(run) {
  const rss = run.summary.metrics['host.rss.peak_bytes'];
  if (rss === null || rss === undefined) return null;
  return h('div', {class: 'card still'}, h('span', {class: 'what'}, 'Resident memory'), h('span', {class: 'big'}, format.size(rss)),
    h('span', {class: 'faint'}, 'peak, as the kernel says'));
}

export function peakLine(run, scope) {
  const trigger = scope.trigger && run.rows([scope.trigger])[0];
  return h('p', {}, h('strong', {}, format.size(scope.bytes)), ` (${format.bytes(scope.bytes)}) of ${scope.text} at `,
    format.instant(scope.time_ns), scope.phase && [', in phase ', h('strong', {}, scope.phase)], '. ',
    trigger && h('span', {class: 'faint'}, `Reached by ${format.size(trigger.bytes)} for `, h('code', {}, trigger.title), '.'));
}

/** held: {rows, otherBytes, otherRows}, which add up to whole. */
export function holderTable(held, whole, {label, by = 'site', search = true, details = true}) {
  const columns = [
    {key: 'title', label: by, class: 'title', cell: (row) => [h('span', {title: row.title}, row.title),
      row.temporary && h('span', {class: 'tag'}, 'temporary')]},
    {key: 'bytes', label: 'size', number: true, cell: (row) => share(row.bytes, whole, format.size(row.bytes))},
    {key: 'share', label: '%', number: true, cell: (row) => format.percent(row.bytes, whole)},
    {key: 'count', label: 'blocks', number: true, cell: (row) => format.count(row.count)},
    {key: 'kind', label: 'kind'},
    {key: 'module', label: 'module', class: 'module'},
  ];
  if (details) columns.push({key: 'phase', label: 'phase'}, {key: 'thread', label: 'thread', number: true, cell: (row) => row.thread ?? '–'});
  const rows = held.rows.map((row) => ({...row, share: row.bytes}));
  const shown = columns.filter((column) => column.key !== by || by === 'site');
  shown.sort((a, b) => (b.key === 'bytes') - (a.key === 'bytes'));  // the figure on the left, as in the terminal
  const line = (name, bytes) => [h('td', {class: 'number'}, format.size(bytes)), h('th', {scope: 'row'}, name),
    h('td', {class: 'number'}, format.percent(bytes, whole)), h('td', {colspan: String(shown.length - 3)})];
  const footer = [];
  if (held.otherRows > 0) footer.push(line(`${format.count(held.otherRows)} more`, held.otherBytes));
  const sum = held.rows.reduce((all, row) => all + row.bytes, held.otherBytes);
  footer.push(line(sum === whole ? 'sum = peak, residual 0'.replace('peak', details ? 'peak' : 'live') : 'sum', sum));
  return table({columns: shown, rows, footer, search, label});
}

export function ledger(run, scope) {
  const device = run.summary.devices.find(({ordinal}) => ordinal === scope.device);
  if (!device || !device.ledger || scope.kind !== '') return null;
  const bar = (name, view) => {
    const rows = [{cause: 'handed out to the program', bytes: view.tracked_bytes}, ...view.rows].filter((row) => row.bytes !== 0);
    return h('figure', {class: 'ledger'}, h('figcaption', {}, h('strong', {}, format.size(view.used_bytes)), ` ${name}, `,
      format.instant(view.time_ns)),
    h('div', {class: 'stack'}, rows.filter((row) => row.bytes > 0).map((row) => h('span', {
      class: `part part-${rows.indexOf(row) % 8}`, title: `${row.cause}: ${format.size(row.bytes)}`,
      style: {flexGrow: String(row.bytes)}}))),
    h('ul', {class: 'key'}, rows.map((row, i) => h('li', {}, h('span', {class: `dot part-${i % 8}`}), row.cause.replaceAll('_', ' '), ' ',
      h('strong', {}, format.size(row.bytes))))));
  };
  const {at_peak: atPeak, at_exit: atExit, items = []} = device.ledger;
  return titled('ledger', 'What nvidia-smi shows', h('p', {class: 'faint'},
    `Memory in use of GPU ${device.ordinal} by all processes, as ${device.ledger.source === 'nvml' ? 'NVML' : device.ledger.source} says, and what it is made of.`),
  bar('at the peak', atPeak), bar('at exit', atExit),
  items.length > 0 && table({label: 'What is behind it', rows: items, columns: [
    {key: 'bytes', label: 'size', number: true, cell: (row) => format.size(row.bytes)}, {key: 'cause', label: 'cause'},
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
  const bytes = (key, label) => ({key, label, number: true, cell: (row) => format.size(row[key])});
  return titled('phases', 'Phases', table({label: 'Phases', rows, order: {key: 'order', down: false}, columns: [
    {key: 'name', label: 'phase', cell: (row) => h('span', {style: {paddingLeft: `${row.depth * 1.1}em`}},
      row.name, row.count > 1 && h('span', {class: 'faint'}, ` ×${format.count(row.count)}`))},
    {key: 'order', label: 'begin', number: true, cell: (row) => format.instant(row.begin)},
    {key: 'length', label: 'length', number: true, cell: (row) => row.length === null ? 'no end' : format.time(row.length)},
    ...(device ? [bytes('device', 'device peak'), {key: 'deviceAllocs', label: 'allocations', number: true}] : []),
    bytes('host', 'host peak'),
    {key: 'hostAllocs', label: 'allocations', number: true, cell: (row) => row.hostAllocs === null ? '–' : format.count(row.hostAllocs)},
    {key: 'site', label: 'biggest new site', class: 'title', cell: (row) => h('span', {title: row.site}, row.site || '–')},
  ]}));
}

export function failures(run) {
  const {oom, oom_count: all} = run.summary;
  if (!oom || oom.length === 0) return null;
  return titled('failures', `Failed allocations (${format.count(all)})`, oom.slice(0, 20).map((failed) => h('div', {class: 'notice bad'},
    h('p', {}, h('strong', {}, `${format.size(failed.requested_bytes)} by ${failed.api}: ${failed.result}`), ` at ${format.instant(failed.time_ns)}`,
      failed.phase && `, in phase ${failed.phase}`, `. Live then ${format.size(failed.live_bytes)}, free on the device ${format.size(failed.driver_free_bytes)}.`),
    h('p', {}, 'At ', h('code', {}, failed.site)),
    failed.holders.length > 0 && holderTable({rows: failed.holders.map((row) => ({...row, title: row.site})), otherBytes: 0, otherRows: 0},
      failed.holders.reduce((sum, row) => sum + row.bytes, 0), {label: 'What was live', search: false, details: false}))));
}

export function temporaries(run) {
  if (run.temporaries.length === 0) return null;
  return titled('temporaries', 'Temporaries', h('p', {class: 'faint'}, 'Blocks that were freed at once: where reusing a buffer would pay.'),
    table({label: 'Temporaries', rows: run.rows(run.temporaries), columns: [
      {key: 'count', label: 'blocks', number: true, cell: (row) => format.count(row.count)},
      {key: 'title', label: 'site', class: 'title', cell: (row) => h('span', {title: row.title}, row.title)},
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
        {label: `Live at exit: ${side.text}`, details: false})]));
}
