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

const VERBS = {read: 'read by', written: 'written by', both: 'read and written by', given: 'given to'};
const MARKS = {'read by': 'R', 'written by': 'W', 'read and written by': 'RW', 'given to': 'G'};

/** What the row of `report --json` was used for: of each column the words. */
function usesOf({copied_in, copied_out, filled, kernels}) {
  const uses = {}, seen = {};
  const times = (count) => count > 1 ? `, ${count} times` : '';
  for (const [name, count] of Object.entries({'copied in': copied_in, 'copied out': copied_out, filled})) {
    if (count > 0) uses[name] = name + times(count);
  }
  for (const {name, access, launches} of kernels) {
    const kernel = name.replace(/\(.*/, ''), before = seen[kernel];
    seen[kernel] = before && before !== access ? 'both' : access;
    uses[kernel] = `${VERBS[seen[kernel]]} ${kernel}${times(launches)}`;
  }
  return uses;
}

const ms = (text) => ns(text.replace('+', ''));

/** Buffers × kernels: what the page says of each row, and where its bar has its parts, is what `report --json` says. */
export async function buffers(tools, folder) {
  const {page, text, count, press} = tools;
  const peak = expectedIn(folder);
  const rows = () => page.$$eval('#buffers tbody tr', (lines) => lines.map((line) => ({
    title: line.querySelector('.title span').title, text: line.querySelector('.title span').textContent, life: line.querySelector('.life').ariaLabel,
    parts: [...line.querySelectorAll('.life span')].map((part) => [part.className, part.style.left, part.style.right]),
    uses: [...line.querySelectorAll('.use')].map((use) => [line.closest('table').tHead.rows[0].cells[use.closest('td').cellIndex].textContent, use.ariaLabel, use.textContent])})));
  const heads = () => page.$$eval('#buffers thead th + th', (all) => all.map((one) => one.textContent));
  const check = async (holders) => {
    const shown = await rows(), columns = await heads();
    assert.deepEqual(shown.map(({title}) => title).sort(), holders.map(({site}) => site).sort());
    const begin = Math.min(...holders.map(({role}) => role.allocated_ns)), end = ms((await text('#buffers thead th')).split(' to ')[1]);
    for (const {site, bytes, role} of holders) {
      const {text: said, life, parts, uses} = shown.find(({title}) => title === site);
      assert.equal(parseFloat(said), bytes / 1048576, said);
      assert.ok(said.includes(` MiB ${(100 * bytes / peak.bytes).toFixed(1)}\u00a0% ${site}`), said);
      const expected = usesOf(role);
      assert.deepEqual(uses.map(([name]) => name).sort(), Object.keys(expected).filter((name) => columns.includes(name)).sort(), site);
      for (const [name, words, mark] of uses) {
        assert.equal(words, `${site}: ${expected[name]}`);
        const verb = Object.keys(MARKS).find((one) => expected[name].startsWith(`${one} `));
        if (verb) assert.equal(mark, MARKS[verb]);
      }
      const times = [role.allocated_ns, role.first_use_ns, role.last_use_ns, role.freed_ns].filter((one) => one !== null);
      const told = life.match(/\+[\d.\u202f]+ .?s/g);
      assert.equal(told.length, times.length, life);
      told.forEach((one, i) => assert.ok(Math.abs(ms(one) - times[i]) < 1000, `${life}: ${times}`));
      assert.equal(/never seen used/.test(life), role.unused_bytes === bytes, life);
      assert.equal(/not freed/.test(life), role.freed_ns === null, life);
      assert.deepEqual(parts.map(([name]) => name), role.first_use_ns === null ? ['early'] : ['early', 'needed', 'kept']);
      const marks = role.first_use_ns === null ? [role.allocated_ns] : [role.allocated_ns, role.first_use_ns, role.last_use_ns];
      parts.forEach(([, left], i) => assert.ok(Math.abs(parseFloat(left) - 100 * (marks[i] - begin) / (end - begin)) < 0.1, `${site}: ${parts}`));
    }
  };
  const large = peak.holders.filter(({bytes}) => bytes >= peak.bytes / 20);
  assert.ok(large.length === 5 && peak.holders.length === 6, `${JSON.stringify(peak.holders)}`);
  await check(large);
  assert.equal((await heads()).length, 3 + 12);
  assert.deepEqual((await heads()).slice(0, 3), ['copied in', 'filled', 'copied out']);
  assert.equal((await heads())[3], 'stencil_takes_8_8', 'the kernel that had to do with most bytes comes first');
  assert.match(await text('#buffers tfoot'), /^20\.0 MiB 2\.4\s% the rest$/);
  assert.match(await text('#buffers .line'), /^never seen used: by no copy/);
  for (const [width, scheme] of [[1280, 'light'], [1280, 'dark'], [420, 'light']]) await tools.picture(`buffers-${width}-${scheme}`, width, scheme);

  // The words of a mark stand below, for the pointer and for the keyboard.
  const said = () => text('#buffers .details');
  await page.setViewport({width: 1280, height: 900});
  await page.$eval('#buffers', (section) => section.scrollIntoView());
  await page.hover('#buffers td .RW');
  assert.match(await said(), /: read and written by /);
  await page.focus('#buffers .life');
  assert.match(await said(), /: allocated at .*, first used at .*, last at .*/);
  await press('ArrowRight');
  const first = (await rows())[0];
  assert.equal(await said(), first.uses[0][1]);
  await press('ArrowRight', 'ArrowLeft', 'ArrowLeft');
  assert.equal(await said(), first.life);
  await press('ArrowDown');
  assert.equal(await said(), (await rows())[1].life);

  // A click on a kernel brings the buffers that it was given up; buttons show the rest.
  await page.click('#buffers thead th:nth-child(4) button');
  assert.ok((await rows())[0].uses.some(([name]) => name === 'copied out'));
  await page.$$eval('#buffers .tools button', (all) => all.find((one) => one.textContent.includes('kernel')).click());
  assert.equal((await heads()).length, 3 + 18);
  await page.$$eval('#buffers .tools button', (all) => all.find((one) => one.textContent.includes('smaller')).click());
  await check(peak.holders);
  assert.equal(await count('#buffers tfoot tr, #buffers .tools button'), 0);
  await tools.picture('buffers-all', 1280, 'light');
}
