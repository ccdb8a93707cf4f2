// When blocks were seen used: the section "Last use", and the column of the pools' tables, say what the terminal says.
import {strict as assert} from 'node:assert';
import {readFileSync} from 'node:fs';
import {goTo} from './arenas.mjs';

const WORDS = {over: /^last (.*) before$/, early: /^first (.*) after$/, never: /^not seen$/, idle: /^none for (.*)$/, in_use: /^in use$/,
  not_known: /^not known$/};

const ns = (text) => {
  const [, figure, unit] = /^([\d.]+) (.?s)$/.exec(text.replaceAll('\u202f', ''));
  return Number(figure) * {s: 1e9, ms: 1e6, 'µs': 1e3, ns: 1}[unit];
};
/** What a page shows is rounded to a digit behind the point. */
const isNear = (shown, real) => Math.abs(ns(shown) - real) <= (real >= 1e9 ? 5e7 : real >= 1e6 ? 5e4 : 50) + 1;

/** Whether the cell says this use, of so many of all bytes. */
function says(cell, [use, bytes, shortest, longest], all) {
  const [, words, share] = /^(.*?)(?: \((.*) %\))?$/.exec(cell);
  const found = WORDS[use].exec(words);
  if (!found || (share ?? '100.0') !== (100 * bytes / all).toFixed(1)) return false;
  if (found[1] === undefined) return true;
  const [from, to = from] = found[1].split(' to ');
  return isNear(from, shortest) && isNear(to, longest);
}

/** The cells of each row of a table. */
const rowsOf = (page, selector) => page.$$eval(`${selector} tbody tr`, (lines) => lines.map((line) => [...line.cells].map((cell) => cell.textContent)));

async function checkPools({page, text, count, clickChoice}, instants) {
  const seen = new Set();
  const names = await count('#pools [aria-label="Pool"]') > 0
    ? await page.$$eval('#pools [aria-label="Pool"] [data-value]', (buttons) => buttons.map((button) => button.dataset.value)) : [null];
  for (const name of names) {
    if (name !== null) await clickChoice('Pool', name);
    const shown = (await text('#pools h3')).split(' at +')[0];
    for (const pool of instants.filter((instant) => instant.text === shown)) {
      assert.ok(await goTo(page, pool.ns), shown);
      const rows = await rowsOf(page, '#pools');
      assert.equal(rows.length, Object.keys(pool.sites).length, `${shown} at ${pool.ns}`);
      for (const [, title, , , cell] of rows) {
        const site = pool.sites[title];
        assert.ok(site, `${title} is no site of ${shown}`);
        assert.ok(site.most.some((most) => says(cell, most, site.bytes)), `${shown} at ${pool.ns}, ${title}: ${cell}, ${JSON.stringify(site)} in truth`);
        site.most.forEach(([use]) => seen.add(use));
      }
    }
  }
  return seen;
}

const expectedIn = (folder) => JSON.parse(readFileSync(`${folder}/expected.json`, 'utf8'));

/** The section says what `report --last-use` says, row by row. `tools`: browse.mjs's. */
export async function peak(tools, folder) {
  const {page, text} = tools;
  const {bytes, rows} = expectedIn(folder);
  assert.match(await text('#uses tfoot'), /sum = peak, residual 0/);
  const key = await page.$$eval('#uses .key li', (items) => items.map((item) => item.textContent));
  assert.equal(key.length, Object.values(bytes).filter((sum) => sum > 0).length, `${key}`);
  const shown = await rowsOf(page, '#uses');
  assert.equal(shown.length, rows.length);
  for (const row of rows) {
    const most = [row.use, row.bytes, row.shortest_ns ?? 0, row.longest_ns ?? 0];
    assert.ok(shown.some(([, , blocks, cell, title, kind]) => title === row.title && kind === row.kind && blocks === String(row.blocks) && says(cell, most, row.bytes)),
      `${JSON.stringify(row)} is not among ${JSON.stringify(shown)}`);
  }
  assert.match(await text('#uses'), /lists of pointers, is not seen.*2 launches could not be read.*1 blocks were not followed/);

  // The column says what it means, and sorts by how long blocks were not used: first what was not seen used at all, last what was needed.
  const column = '#uses thead th:nth-child(4)';
  assert.match(await page.$eval(`${column} button`, (button) => button.title), /^used: of most of/);
  const said = async () => {
    await page.click(`${column} button`);
    return (await rowsOf(page, '#uses')).map(([, , , cell]) => cell);
  };
  const falling = await said();
  assert.deepEqual(falling, ['not seen', 'none for 47 ms', 'last 5 ms to 35 ms before', 'first 10 ms after', 'in use', 'in use', 'not known']);
  assert.deepEqual(await said(), [...falling].reverse());
  for (const [width, scheme] of [[1280, 'light'], [390, 'dark']]) await tools.picture(`uses-${width}`, width, scheme);
}

/** Inside the pools, at each instant. */
export async function pools(tools, folder) {
  const seen = await checkPools(tools, expectedIn(folder));
  assert.ok(['over', 'in_use'].every((use) => seen.has(use)) && seen.size > 2, `too little was seen: ${[...seen]}`);
  await tools.page.$eval('#pools .map', (map) => map.focus());
  let said = '';
  for (let i = 0; i < 40 && !/used: /.test(said); ++i) {
    await tools.press('ArrowRight');
    said = await tools.text('#pools .tip');
  }
  assert.match(said, /used: (last|first|none for|not seen|in use|not known)/);
  await tools.picture('uses-pools', 1280, 'light');
}
