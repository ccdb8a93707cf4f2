// Opens a page in headless Chromium and uses it as one would. usage: browse.mjs CASE PAGE CHROMIUM MODULES FOLDER
import {strict as assert} from 'node:assert';
import {existsSync, readFileSync, writeFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import * as inside from './arenas.mjs';
import * as lastUse from './uses.mjs';

const [, , which, file, executablePath, modules, folder] = process.argv;
const puppeteer = createRequire(`${modules}/`)('puppeteer-core');

// On a machine that is busy with other things time says little; the limit is for one that is not.
const BUSY = 6;

const said = [];
const browser = await puppeteer.launch({executablePath, headless: true, args: ['--no-sandbox', '--disable-gpu']});
const page = await browser.newPage();
page.on('console', (message) => said.push(`console: ${message.text()}`));
page.on('pageerror', (error) => said.push(`error: ${error.message}`));
page.on('request', (request) => {
  if (!request.url().startsWith('file:') && !request.url().startsWith('data:')) said.push(`request: ${request.url()}`);
});

const text = (selector) => page.$eval(selector, (element) => element.textContent);
const count = (selector) => page.$$eval(selector, (elements) => elements.length);
const pause = () => new Promise((done) => setTimeout(done, 400));
const press = async (...keys) => {
  for (const key of keys) await page.keyboard.press(key);
};
async function clickChoice(group, value) {
  await page.click(`[aria-label="${group}"] [data-value="${value}"]`);
  await pause();
}
/** What a screen reader, or somebody who sees little, would stumble over. */
async function accessible(where) {
  const axe = `${modules}/axe-core/axe.min.js`;
  if (!existsSync(axe)) return;
  await page.evaluate(readFileSync(axe, 'utf8'));
  const {violations} = await page.evaluate(() => window.axe.run());
  assert.deepEqual(violations.map(({id, nodes}) => `${id}: ${nodes.map((node) => node.html.slice(0, 120)).join(' ')}`), [], where);
}
/** What the buttons beside the curve save: CSV and SVG. */
async function saved() {
  await page.evaluate(() => {
    window.blobs = [];
    URL.createObjectURL = (blob) => `#${window.blobs.push(blob)}`;
    document.querySelectorAll('#timeline .save').forEach((button) => button.click());
  });
  const texts = await page.evaluate(() => Promise.all(window.blobs.map((blob) => blob.text())));
  assert.equal(texts.length, 2);
  writeFileSync(`${folder}/saved_${texts[0].length}.svg`, texts[0]);
  return texts.reverse();
}
/** Where the plot is, scrolled to: the mouse reaches only what is on the screen. */
async function plotBox() {
  await page.$eval('#timeline', (element) => element.scrollIntoView());
  await pause();
  return (await page.$('.u-over')).boundingBox();
}
async function picture(name, width, scheme) {
  await page.setViewport({width, height: 900});
  await page.emulateMediaFeatures([{name: 'prefers-color-scheme', value: scheme}]);
  await pause();
  await pause();
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(wide <= width, `at ${width} the page is ${wide} wide`);
  await accessible(`${name}, ${width} wide`);
  await page.screenshot({path: `${folder}/${name}.png`, fullPage: true});
}
async function open() {
  await page.setViewport({width: 1280, height: 900});
  const began = Date.now();
  await page.goto(`file://${file}`);
  await page.waitForSelector('main > *');
  const took = Date.now() - began;
  await pause();
  return took;
}

async function run() {
  await open();
  assert.match(await text('.verdict'), /no record lost/);  // nobody looked at its other processes
  assert.match(await text('.said'), /^An allocation failed/);
  assert.match(await text('.card .big'), /^728 MiB$/);
  assert.equal(await count('.card'), 4);  // two devices, the host, resident memory

  assert.equal(await count('#uses, #buffers'), 0, 'the log has no uses');

  // The peak is chosen at first; its holders add up to it.
  assert.match(await text('.live h3'), /\+40 ms · the peak/);
  assert.match(await text('.live tfoot'), /728 MiB.*residual 0/);
  assert.match(await text('.mark.peak'), /728 MiB/);
  assert.ok(await count('.phase') >= 3);

  // A click chooses the state at that very time, keys go on to the next change.
  let plot = await plotBox();
  const end = 100;  // ms
  const clickAt = (ms) => page.mouse.click(plot.x + plot.width * ms / end, plot.y + plot.height / 2);
  for (const [ms, since, mib] of [[15.5, 15, 120], [19.5, 19, 200], [26, 19, 200], [30.5, 30.001, 216]]) {
    await clickAt(ms);
    assert.ok((await text('.live h3')).startsWith(`Live at +${since} ms`), `at ${ms}: ${await text('.live h3')}`);
    assert.ok((await text('.live .total')).startsWith(`${mib} MiB`), `at ${ms}: ${await text('.live .total')}`);
    assert.match(await text('.live tfoot'), new RegExp(`${mib} MiB.*residual 0`));
  }
  await page.focus('.timeline');
  await press('ArrowRight');
  assert.match(await text('.live h3'), /\+31 ms/);
  assert.match(await text('.live .total'), /^200 MiB/);
  await press('ArrowLeft', 'ArrowLeft');
  assert.match(await text('.live .total'), /^200 MiB/);
  await press('p');
  assert.match(await text('.live h3'), /the peak/);
  await press('Home');
  assert.match(await page.$eval('.timeline', (element) => element.getAttribute('aria-valuenow')), /^0$/);
  assert.match(await text('.live .total'), /^0 /);

  // The flame graph is that of the chosen instant, the peak's again at the peak.
  const of = () => text('#peak .of');
  const flameCells = () => page.$$eval('.flame g.frame', (all) => all.map((cell) => cell.textContent));
  await press('p');
  assert.match(await of(), /^728 MiB at the peak, \+40 ms$/);
  assert.ok((await flameCells()).some((cell) => cell.includes('+0x400')), `${await flameCells()}`);
  for (const [ms, since, mib, has] of [[15.5, 15, 120, false], [19.5, 19, 200, false], [30.5, 30.001, 216, true]]) {
    await clickAt(ms);
    assert.equal(await of(), `${mib} MiB at +${since} ms`);
    assert.ok((await text('.details')).includes(`${mib} MiB, 100.0 % of what was live then`), await text('.details'));
    assert.equal((await flameCells()).some((cell) => cell.includes('+0x400')), has, `${ms}: ${await flameCells()}`);
  }
  await page.focus('.timeline');
  await press('Home');
  for (let i = 0; i < 30; ++i) {
    await press('ArrowRight');
    assert.equal((await of()).split(' at ')[0], await page.$eval('.live .total', (total) => total.firstChild.textContent));
  }
  await accessible('the flame graph of an instant');
  // A row of the live list leads to the instant's own flame graph.
  await clickAt(19.5);
  await page.click('#timeline .live .opener');
  await page.click('#timeline .live .detail .plain');
  await pause();
  assert.match(await of(), /^200 MiB at \+19 ms/);
  assert.match(await text('.details'), /\+0x200.*200 MiB/);
  await press('Escape');
  await page.click('#timeline .live .opener');

  // … or of what is live at exit, or was freed at once.
  await clickChoice('Flame graph of', 'exit');
  assert.match(await of(), /^200 MiB live at exit$/);
  assert.match(await text('.details'), /200 MiB, 100\.0 % of what is live at exit/);
  await clickChoice('Flame graph of', 'temporaries');
  assert.match(await of(), /^\d+ blocks that were freed at once$/);
  assert.match(await text('.details'), /\d+ blocks, 100\.0 % of those freed at once/);
  await clickChoice('Flame graph of', 'instant');
  assert.match(await of(), /^200 MiB at \+19 ms/);
  await clickChoice('Flame graph of', 'peak');
  assert.match(await of(), /^728 MiB at the peak/);

  // The curve taken apart: at the peak its parts are the holders. Nothing has a tag.
  assert.deepEqual(await page.$$eval('[aria-label="Curve"] button', (all) => all.map((one) => one.dataset.value)), ['kind', 'site']);
  await clickChoice('Curve', 'site');
  assert.match(await text('#timeline .legend'), /^Others.*\+0x200.*≤ 200 MiB.*\+0x400.*≤ 528 MiB/u);
  assert.equal(await count('#timeline canvas'), 1);
  await accessible('a stacked curve');
  await page.screenshot({path: `${folder}/stacked.png`});
  const [saved_rows, drawn] = await saved();
  assert.match(saved_rows, /^seconds,Others,/);
  const most = Math.max(...saved_rows.trim().split('\r\n').slice(1).map((row) => row.split(',').slice(1).reduce((sum, bytes) => sum + Number(bytes), 0)));
  assert.equal(most, 728 * 2 ** 20, 'the parts that are saved add up to the peak');
  assert.match(drawn, /^<svg [^>]*viewBox.*<\/svg>$/s);
  assert.equal(drawn.match(/<path /g).length, await count('#timeline .legend button'));
  await clickChoice('Curve', 'kind');
  assert.match(await text('#timeline .legend'), /nvidia-smi/);
  const [readings, curve] = await saved();
  assert.match(readings, /^seconds,.*nvidia-smi.*,sum/);
  assert.doesNotMatch(curve, /NaN|undefined| \/ \d+%/);
  await page.focus('.timeline');
  await press('Home');
  plot = await plotBox();  // the flame graph above is lower now

  // Each repetition of a phase; their names where there is room for them.
  const titles = () => page.$$eval('.phase', (phases) => phases.map((phase) => phase.title));
  assert.equal((await titles()).filter((title) => /^step\[\d+\]: /.test(title)).length, 20);
  assert.equal(await page.$$eval('.phase', (phases) => phases.filter((phase) => phase.textContent === 'step[3]').length), 0);

  // A drag zooms, down to single changes; Escape shows all.
  await page.mouse.move(plot.x + plot.width * 0.3, plot.y + 50);
  await page.mouse.down();
  await page.mouse.move(plot.x + plot.width * 0.5, plot.y + 50, {steps: 5});
  await page.mouse.up();
  await pause();
  assert.equal(await page.$eval('.mark.chosen', (mark) => mark.hidden), true);  // Home lies outside
  assert.equal(await page.$$eval('.phase', (phases) => phases.filter((phase) => phase.textContent === 'step[3]').length), 1);
  await page.screenshot({path: `${folder}/zoomed.png`});
  await page.focus('.timeline');
  await press('Escape');
  await pause();
  assert.equal(await page.$eval('.mark.chosen', (mark) => mark.hidden), false);
  await press('p');

  // What the driver says: its curve, and bars that add up to it.
  assert.match(await text('.legend'), /nvidia-smi (≤ )?1\.27 GiB/u);
  assert.equal(await count('#ledger .stack'), 2);
  assert.match(await text('#ledger figcaption'), /1\.27 GiB at the peak/u);
  const widths = await page.$$eval('#ledger figure:first-of-type .part', (parts) => parts.map((part) => Number(part.style.flexGrow)));
  assert.ok(widths.length >= 4, 'handed out, before, context, code');
  const {ledger} = await page.evaluate(() => JSON.parse(document.getElementById('data').textContent).runs[0].summary.devices[0]);
  for (const view of [ledger.at_peak, ledger.at_exit]) {
    assert.equal(view.rows.reduce((sum, row) => sum + row.bytes, view.tracked_bytes), view.used_bytes);
  }
  assert.match(await text('#ledger table'), /conv/);

  // Flame graph: a click zooms, the search counts, keys move.
  const frames = await count('.flame g.frame');
  assert.ok(frames >= 4);
  await page.type('[aria-label="Search functions"]', 'libengine');
  assert.match(await text('.details'), /calls, 728 MiB, 100\.0 % of the peak/);
  const fills = () => page.$$eval('.flame rect', (cells) => cells.map((cell) => cell.getAttribute('fill')));
  assert.ok((await fills()).includes('var(--found)'));
  await page.$eval('[aria-label="Search functions"]', (box) => { box.value = ''; });
  await page.type('[aria-label="Search functions"]', '+0x400');
  assert.ok((await fills()).includes('var(--unfound)'), 'what is not found is grey');
  await accessible('a search');
  await page.focus('.flame');
  await press('ArrowDown', 'ArrowDown');
  assert.equal(await count('.flame g.current'), 1);
  await press('Enter');
  await pause();
  assert.ok(await count('.flame g.fade') > 0);
  await press('Escape');
  await pause();

  // Table: every grouping adds up, sorting turns, searching filters.
  await clickChoice('View', 'table');
  for (const by of ['site', 'function', 'module', 'phase', 'kind', 'thread']) {
    await clickChoice('Rows', by);
    assert.match(await text('#peak tfoot'), /728 MiB.*sum = peak, residual 0/, by);
  }
  await clickChoice('Rows', 'site');
  const first = () => text('#peak tbody tr:first-child .number');
  assert.match(await first(), /512 MiB/);
  await page.click('#peak thead th button');
  assert.match(await first(), /16\.0 MiB/);
  // … and by keyboard: Enter on a heading.
  await page.focus('#peak thead th button');
  await press('Enter');
  assert.match(await first(), /512 MiB/);
  assert.equal(await page.$eval('#peak thead th', (head) => head.getAttribute('aria-sort')), 'descending');
  await page.focus('#peak thead th:nth-child(2) button');
  await press('Enter');
  const sites = await page.$$eval('#peak tbody .title', (cells) => cells.map((cell) => cell.textContent));
  assert.deepEqual(sites, [...sites].sort((a, b) => a.localeCompare(b)));

  // A row opens to its whole stack, which leads to its cell of the flame graph.
  const turn = (where, row) => page.evaluate(([selector, part]) => [...document.querySelectorAll(`${selector} .opener`)]
    .find((opener) => opener.textContent.includes(part)).click(), [where, row]);
  await turn('#peak', '+0x400');
  assert.deepEqual(await page.$$eval('#peak .detail code', (calls) => calls.map((call) => call.textContent)),
    ['libengine.so+0x400', 'libengine.so+0x300', 'libengine.so+0x100']);
  await accessible('an open row');
  await turn('#peak', '+0x400');
  assert.equal(await count('#peak .detail'), 0);
  await turn('#peak', '+0x400');
  await page.click('#peak .detail .plain');
  await pause();
  assert.match(await text('.details'), /\+0x400.*528 MiB/);
  assert.ok(await count('.flame g.fade') > 0, 'it is zoomed in');
  await page.focus('.timeline');
  await press('p');
  await turn('#timeline .live', '+0x400');
  assert.equal(await count('#timeline .live .detail li'), 3);
  await turn('#timeline .live', '+0x400');

  // Another memory, then one kind of it. The interpreter's own calls are one line, and no cells.
  await clickChoice('Memory', 'device:1');
  assert.match(await text('#peak'), /12\.0 MiB/);
  const cells = () => page.$$eval('.flame g.frame', (all) => all.map((cell) => cell.textContent));
  assert.ok(!(await cells()).some((cell) => cell.includes('libpython')), `${await cells()}`);
  const few = await count('.flame g.frame');
  await page.click('[title^="also those that only"] input');
  await pause();
  assert.ok(!(await cells()).some((cell) => cell.includes('libpython')), 'where Python has its lines');
  assert.ok(await count('.flame g.frame') > few);
  await clickChoice('View', 'table');
  await turn('#peak', '+0x600');
  assert.match(await text('#peak .detail summary'), /3 calls of the interpreter/);
  assert.match(await text('#peak .detail ol'), /\+0x600.*3 calls of the interpreter.*train train\.py/);
  const kinds = await page.$$eval('.pickers select option', (options) => options.map((option) => option.value));
  assert.ok(kinds.includes('device:0/pool'));
  assert.ok(!kinds.includes('host/heap'), 'a kind that is all of its sum is not offered');
  await page.select('.pickers select', 'device:0/pool');
  await pause();
  assert.match(await text('#peak tfoot'), /16\.0 MiB.*residual 0/);
  await clickChoice('Memory', 'host');
  assert.match(await text('.live tfoot'), /residual 0/);
  const rows = () => count('#peak tbody tr');
  assert.equal(await rows(), 15);
  await page.type('[aria-label="Search Holders by site"]', '+0x5D');
  assert.equal(await rows(), 1);
  assert.match(await text('#peak .tools [role=status]'), /1 of 15 rows/);
  assert.match(await text('#peak tfoot'), /residual 0/, 'a search leaves the sum alone');
  assert.match(await text('#failures'), /CUDA_ERROR_OUT_OF_MEMORY/);
  await clickChoice('Memory', 'device:0');
  for (const [width, scheme] of [[1280, 'light'], [1280, 'dark'], [390, 'light'], [390, 'dark']]) {
    await picture(`${width}-${scheme}`, width, scheme);
  }
}

async function hostile() {
  await open();
  await clickChoice('View', 'table');
  for (const by of ['function', 'module', 'phase', 'thread']) await clickChoice('Rows', by);
  await clickChoice('Memory', 'host');
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  assert.equal(await count('img'), 0);
  assert.ok((await text('.command')).includes('</script><img'), 'the name is shown as it is');
  await picture('hostile', 1280, 'light');
}

async function empty() {
  await open();
  assert.match(await text('main'), /No memory was recorded/);
}

async function compare() {
  await open();
  assert.match(await text('main'), /3 runs/);
  assert.match(await text('.legend'), /exit 0.*exit 0.*killed by SIGSEGV/);
  const row = await page.$$eval('tbody tr:first-child td', (cells) => cells.map((cell) => cell.textContent));
  assert.match(row.join('|'), /^740 MiB\|840 MiB\+100 MiB \(\+13\.5 %\)\|≥ 840 MiB/);
  assert.equal(await count('.plot canvas'), 1);
  assert.match(await text('tbody'), /728 MiB/);
  assert.match(await text('tbody'), /828 MiB/);
  await clickChoice('Memory', 'host');
  assert.equal(await count('.plot canvas'), 1);
  await picture('compare', 1280, 'light');
  await picture('compare-phone', 390, 'dark');
  await clickChoice('Run', '1');
  assert.match(await text('.card .big'), /828 MiB/);
  await clickChoice('Run', 'compare');
  assert.equal(await count('.plot canvas'), 1);
}

async function big() {
  const took = await open();
  console.log(`open after ${took} ms`);
  assert.match(await text('.live tfoot'), /residual 0/);
  await clickChoice('View', 'table');
  assert.match(await text('#peak tfoot'), /residual 0/);
  assert.ok(took < 3 * BUSY * 1000, `it took ${took} ms to open`);
  // There are too many changes for the page: a click takes the nearest instant that was recorded.
  const plot = await plotBox();
  await page.mouse.click(plot.x + plot.width / 2, plot.y + plot.height / 2);
  assert.match(await text('.live tfoot'), /more.*residual 0/);
  await clickChoice('View', 'flame');
  assert.equal((await text('#peak .of')).split(' at ')[0], await page.$eval('.live .total', (total) => total.firstChild.textContent));
  const largest = await page.$$eval('.flame g.frame', (all) => all.map((cell) => cell.textContent));
  assert.ok(largest.some((cell) => cell.startsWith('smaller ones')) && largest.length > 10, `${largest.slice(0, 20)}`);
  await clickChoice('Curve', 'site');
  assert.equal(await count('#timeline .legend button'), 8);
  await picture('big', 1280, 'light');
}

/** Cells of the first table below a selector, row by row. */
const cells = (selector) => page.$$eval(`${selector} tbody tr`, (rows) => rows.map((row) => [...row.children].map((cell) => cell.textContent)));

/** The curves' marks: what stands at each, and where it is as a share of the width. */
const marks = () => page.evaluate(() => [...document.querySelectorAll('.mark')].map((mark) =>
  [mark.textContent, Math.round(100 * parseFloat(mark.style.left) / mark.parentElement.clientWidth), mark.hidden]));

async function whatif() {
  await open();
  assert.match(await text('.said'), /^GPU 0 \(Test GPU\): peak 200 MiB in place of 728 MiB, −72\.5 %, exact$/);
  assert.match(await text('#changes'), /without '\*\+0x400\*'/);
  assert.match((await cells('#changes'))[0].join('|'), /^\*\+0x400\*\|0\|21$/);
  assert.deepEqual((await cells('[aria-label="Answer"]')).map((row) => row.slice(0, 4)),
    [['as recorded', '728 MiB', '+40 ms', ''], ['with the change', '200 MiB', '+19 ms', '−72.5 %']]);
  assert.deepEqual(await marks(), [['▼ 728 MiB at +40 ms', 40, false], ['▼ 200 MiB at +19 ms', 19, false]]);
  assert.match(await text('.legend'), /as recorded.*with the change$/);
  assert.match(await text('#holders tfoot'), /200 MiB.*sum = peak, residual 0/);
  assert.match((await cells('#holders'))[0].join('|'), /^200 MiB\|100\.0 %\|10\|.*0x200/);
  // The curves' points: each step, to the byte.
  const curve = await page.evaluate(() => {
    let ns = 0;
    return JSON.parse(document.getElementById('data').textContent).whatif[0].sums[0].curve.map(([since, ...bytes]) => [ns += since, ...bytes]);
  });
  const at = (ns) => curve.filter(([time]) => time <= ns).at(-1);
  assert.deepEqual(at(19e6).slice(1), [200 << 20, 200 << 20]);
  assert.deepEqual(at(40e6), [40e6, 728 << 20, 200 << 20]);
  assert.deepEqual(at(40.6e6).slice(1), [200 << 20, 200 << 20]);
  await clickChoice('Memory', 'device:1');
  assert.match(await text('[aria-label="Answer"]'), /12\.0 MiB.*12\.0 MiB.*no change/s);
  assert.equal(await count('.plot canvas'), 1);
  await clickChoice('Memory', 'host');
  assert.match(await text('#holders tfoot'), /residual 0/);
  await clickChoice('Memory', 'device:0');
  for (const [width, scheme] of [[1280, 'light'], [1280, 'dark'], [390, 'light']]) await picture(`whatif-${width}-${scheme}`, width, scheme);
}

async function whatif_bounds() {
  await open();
  assert.match(await text('.said'), /peak 39\.0 MiB to 60\.0 MiB in place of 40\.0 MiB, \+33\.3 %$/);
  assert.match(await text('.legend'), /between its bounds/);
  assert.deepEqual((await marks()).map(([what]) => what.replaceAll('▼', '').trim()), ['40.0 MiB at +10 ms', '39.0 MiB to 60.0 MiB at +11 ms']);
  assert.match(await text('#holders tfoot'), /60\.0 MiB.*sum = upper bound, residual 0/);
  await picture('whatif-bounds', 1280, 'light');
}

async function whatif_lost() {
  await open();
  assert.match(await text('.said'), /peak 0 in place of 40\.0 MiB, −100\.0 %, of what the log has$/);
  assert.match(await text('.notice.bad'), /Of what the log has alone.*counted is 140 MiB.*GP001/s);
  assert.deepEqual((await cells('[aria-label="Answer"]')).at(0).slice(0, 2), ['as recorded', '40.0 MiB']);
  await picture('whatif-lost', 1280, 'dark');
}

async function whatif_hostile() {
  await open();
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  assert.equal(await count('img'), 0);
}

async function whatif_each() {
  await open();
  const changes = await page.$$eval('[aria-label="Change"] button', (all) => all.map((one) => one.textContent));
  assert.ok(changes.length >= 2 && changes.every((text) => text.startsWith('without ')), `${changes}`);
  assert.match(await text('.said'), /in place of 728 MiB/);
  const first = await text('.said');
  await clickChoice('Change', '1');
  assert.notEqual(await text('.said'), first);
  assert.equal(await count('.plot canvas'), 1);
  await accessible('several changes');
}

async function grows() {
  await open();
  assert.match(await text('.grows'), /^It grows: \+2\.00 MiB at each step, \d+ times, .*train/);
  assert.match(await text('.legend'), /growth \+2\.00 MiB at each step/);
  await clickChoice('Memory', 'host');
  const [csv, svg] = await saved();
  const lines = csv.split('\r\n').slice(0, -1).map((line) => line.split(',').at(-1));
  assert.equal(lines[0], 'growth');
  const values = lines.slice(1).filter((value) => value !== '').map(Number);
  assert.equal(values.length, 2);
  assert.ok(values[0] >= 64 * 2 ** 20 && values[1] - values[0] >= 50 * 2 ** 20, values);
  assert.match(svg, /d="M[\d. ]+L[\d. ]+"/);
  const ages = await cells('#ages');
  assert.ok(ages.some((row) => row.join('|').match(/^16\.0 MiB\|.*\|8\|8 to 15 steps ago\|16\.0 MiB\|train/)), ages.join('\n'));
  assert.match(await text('#ages tfoot'), /residual 0/);
  assert.match(await text('#ages .key'), /before the first step 64\.\d MiB/);
  await picture('grows', 1280, 'light');
  await picture('grows-dark', 1280, 'dark');
  await picture('grows-phone', 390, 'dark');
}

async function processes() {
  await open();
  const expected = JSON.parse(readFileSync(`${folder}/expected.json`, 'utf8'));
  assert.deepEqual(await page.$$eval('.processes li', (all) => all.map((row) => row.textContent)), expected.rows);
  assert.equal(await text('.verdict .line'), expected.facts);
  await picture('processes', 1280, 'light');
  await picture('processes-phone', 390, 'dark');
}

/** Of the first lines of source below a selector what stands in each row: bytes, number, text. */
const sourceRows = (selector) => page.$eval(`${selector} .source`, (figure) =>
  [...figure.querySelectorAll('tr')].map((row) => [...row.children].map((cell) => cell.textContent)));
const textOf = (rows, number) => rows.find(([, at]) => at === String(number));

async function source() {
  await open();
  // A row opens to its stack, at the line that its title begins with.
  await clickChoice('View', 'table');
  for (const by of ['line', 'file']) {
    await clickChoice('Rows', by);
    assert.match(await text('#peak tfoot'), /sum = peak, residual 0/, by);
  }
  await clickChoice('Rows', 'site');
  const title = await text('#peak tbody tr:first-child .opener');
  assert.match(title, /net::load net\.cc:6 ← net::build net\.cc:11/);
  await page.click('#peak tbody tr:first-child .opener');
  const rows = await sourceRows('#peak');
  assert.match(await text('#peak .source figcaption'), /\/net\.cc:6 held at the peak/);
  assert.deepEqual(rows.map(([, number]) => Number(number)), [2, 3, 4, 5, 6, 7, 8, 9, 10]);
  assert.deepEqual(textOf(rows, 4), ['', '4', '    // weights: 24 MiB, <b>half</b> of a half']);
  assert.deepEqual(textOf(rows, 6), ['28.0 MiB', '6', '  return static_cast<char*>(memset(malloc(bytes), 1, bytes));']);
  assert.match(await text('#peak .source .here'), /28\.0 MiB6/);
  assert.equal(await count('#peak .source'), 1, 'the others are folded up');
  await accessible('lines of source');
  await page.$$eval('#peak .folded summary', (all) => all.find((one) => !one.parentElement.open).click());
  await pause();
  assert.equal(await count('#peak .source'), 2);
  assert.match(await text('#peak li:nth-of-type(2) .here, #peak li:nth-of-type(3) .here'), /24\.0 MiB11/);
  for (const width of [390, 1280]) await picture(`source-${width}`, width, 'light');
  // The flame graph shows the lines of the cell that one stands on.
  await page.click('#peak .detail .plain');
  await pause();
  assert.match(await text('#peak .source figcaption'), /net\.cc:6/);
  assert.match(await text('#peak .source .here'), /28\.0 MiB6/);
  await page.focus('.flame');
  await press('ArrowUp');
  assert.equal(await count('#peak .source'), 0, 'the C library has no source here');
  await press('ArrowDown');
  assert.match(await text('#peak .source figcaption'), /net\.cc:6/);
  await picture('source-flame', 1280, 'light');
}

async function source_script() {
  await open();
  await clickChoice('View', 'table');
  await page.$$eval('#peak .opener', (all) => all.find((one) => one.textContent.includes('train.py')).click());
  await pause();
  assert.match(await text('#peak .source figcaption'), /train\.py:4/);
  const rows = await sourceRows('#peak');
  assert.deepEqual(textOf(rows, 2), ['', '2', '# <script>window.hacked=1</script>']);
  assert.match(textOf(rows, 4).join('|'), /^24\.0 MiB\|4\| {4}return mmap\.mmap\(-1, rows << 20\) {2}# é$/);
  assert.equal(await page.evaluate(() => window.hacked), undefined);
}

const tools = {page, text, count, press, clickChoice, picture};
async function pools() {
  await open();
  await inside.pools(tools, folder);
}
async function pools_wrong() {
  await open();
  await inside.wrong(tools);
}
async function uses_peak() {
  await open();
  await lastUse.peak(tools, folder);
}
async function uses_buffers() {
  await open();
  await lastUse.buffers(tools, folder);
}
async function uses_pools() {
  await open();
  await lastUse.pools(tools, folder);
}

try {
  await {run, hostile, empty, compare, big, pools, pools_wrong, uses_peak, uses_pools, uses_buffers, whatif, whatif_bounds, whatif_lost, whatif_hostile, whatif_each, source, source_script, processes, grows}[which]();
  assert.deepEqual(said, []);
} finally {
  await browser.close();
}
