// The section "Inside the pools", used by keys and pointer: at given instants its figures, blocks and holes are those expected.
import {strict as assert} from 'node:assert';
import {readFileSync} from 'node:fs';

const SECTION = '#pools';

/** Moves the section's instant to the last at or before `ns`, by its arrow keys. False: the pool's first is later. */
export function goTo(page, ns) {
  return page.evaluate((wanted) => {
    const slider = document.querySelector('#pools .timeline');
    const press = (key) => slider.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}));
    const now = () => {
      const [, figure, unit] = /^\+([\d\u202f.]+) (.?s)$/u.exec(slider.getAttribute('aria-valuetext').replaceAll('\u202f', ''));
      return Number(figure) * {s: 1e9, ms: 1e6, 'µs': 1e3, ns: 1}[unit];
    };
    const near = wanted >= 1e9 ? 600 : 0.6;  // six digits are shown
    press('Home');
    for (let last = null; now() <= wanted + near && last !== slider.getAttribute('aria-valuenow');) {
      last = slider.getAttribute('aria-valuenow');
      press('PageDown');
    }
    while (now() > wanted + near && slider.getAttribute('aria-valuenow') !== '0') press('ArrowLeft');
    return now() <= wanted + near;
  }, ns);
}

/** What the keys lead to on the map: [address, whether it is idle] of each piece. */
function walk(page) {
  return page.evaluate(() => {
    const map = document.querySelector('#pools .map'), tip = map.querySelector('.tip'), pieces = [];
    const press = (key) => map.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}));
    press('Escape');
    press('ArrowRight');
    for (let last = null; !tip.hidden && tip.textContent !== last;) {
      last = tip.textContent;
      pieces.push([Number(/0x[0-9a-f]+/.exec(tip.querySelector('.faint').textContent)[0]), / idle$/.test(tip.childNodes[1].textContent)]);
      press('ArrowRight');
    }
    press('Escape');
    return pieces;
  });
}

/** How much of what is drawn is in use, by the colours of the canvas. */
function drawnShare(page) {
  return page.evaluate(() => {
    const canvas = document.querySelector('#pools .map canvas'), probe = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
    const color = (name) => {
      probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
      probe.fillRect(0, 0, 1, 1);
      return probe.getImageData(0, 0, 1, 1).data.join();
    };
    const hole = color('--hole'), edge = color('--hole-edge');
    const copy = Object.assign(document.createElement('canvas'), {width: canvas.width, height: canvas.height}).getContext('2d', {willReadFrequently: true});
    copy.drawImage(canvas, 0, 0);
    const {data} = copy.getImageData(0, 0, canvas.width, canvas.height);
    let used = 0, idle = 0;
    for (let at = 0; at < data.length; at += 4) {
      const seen = data.slice(at, at + 4).join();
      if (seen === hole) ++idle;
      else if (data[at + 3] === 255 && seen !== edge) ++used;
    }
    return used / (used + idle);
  });
}

async function checkPool({page, text}, pool, ns, walks) {
  const where = `${pool.text} at ${ns}`;
  if (!await goTo(page, ns)) return assert.deepEqual([pool.in_use, pool.reserved], [0, 0], where);
  assert.ok((await text(`${SECTION} h3`)).startsWith(`${pool.text} at +`), where);
  const said = (await text(`${SECTION} .sum`)).replaceAll('\u202f', '');
  assert.match(said, /residual 0$/, where);
  assert.deepEqual(said.match(/\d+/g).slice(0, 3).map(Number), [pool.in_use, pool.idle, pool.reserved], `${where}: ${said}`);
  const rows = await page.$$eval(`${SECTION} tfoot tr:last-child`, (lines) => lines.map((line) => line.textContent).join());
  assert.match(rows, /sum = in use, residual 0/, where);
  if (!walks) return;
  const pieces = await walk(page);
  const addresses = (idle) => pieces.filter((piece) => piece[1] === idle).map(([address]) => address);
  assert.deepEqual(addresses(false), pool.blocks, where);
  assert.deepEqual(addresses(true), pool.holes, where);
  const drawn = await drawnShare(page);
  assert.ok(Math.abs(drawn - pool.in_use / pool.reserved) < 0.06, `${where}: ${drawn} of the map is drawn as in use, ${pool.in_use} of ${pool.reserved} are`);
}

/** The pointer on a block: the tip names its site, in the site's colour. */
async function checkPointer({page, text}) {
  await page.$eval(`${SECTION} .map`, (map) => map.scrollIntoView({block: 'center'}));
  const box = await (await page.$(`${SECTION} .map canvas`)).boundingBox();
  await page.mouse.move(box.x + 2, box.y + 8);
  const tip = await text(`${SECTION} .tip`);
  await page.mouse.move(box.x + 3, box.y - 60);
  assert.equal(await page.$eval(`${SECTION} .tip`, (element) => element.hidden), true, 'the pointer has left');
  if (/ idle0x/.test(tip)) return false;
  const colors = await page.evaluate((said) => {
    const row = [...document.querySelectorAll('#pools .keyed')].find(({textContent}) => said.includes(textContent));
    if (!row) return null;  // a row further down
    const probe = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
    probe.fillStyle = getComputedStyle(row).borderLeftColor;
    probe.fillRect(0, 0, 1, 1);
    probe.drawImage(document.querySelector('#pools .map canvas'), 2, 8, 1, 1, 1, 0, 1, 1);
    return [...probe.getImageData(0, 0, 2, 1).data];
  }, tip);
  if (colors === null) return false;
  assert.ok([0, 1, 2].every((i) => Math.abs(colors[i] - colors[i + 4]) < 8), `${tip} has its site's colour: ${colors}`);
  return true;
}

/** `tools`: browse.mjs's. */
export async function pools(tools, folder) {
  const {page, text, count, press, clickChoice, picture} = tools;
  const {instants, walks, every} = JSON.parse(readFileSync(`${folder}/expected.json`, 'utf8'));
  assert.equal(await count(SECTION), 1);
  assert.equal(/too many changes/.test(await text(SECTION)), !every);
  const choices = (group) => page.$$eval(`[aria-label="${group}"] [data-value]`, (buttons) => buttons.map((button) => button.dataset.value));
  const seen = new Set();
  let pointed = false, several = false;
  for (const memory of await choices('Memory')) {
    await clickChoice('Memory', memory);
    if (await count(SECTION) === 0) continue;
    const names = await count(`${SECTION} [aria-label="Pool"]`) > 0 ? await choices('Pool') : [null];
    for (const name of names) {
      if (name !== null) await clickChoice('Pool', name);
      const shown = (await text(`${SECTION} h3`)).split(' at +')[0];
      seen.add(shown);
      for (const {ns, pools: all} of instants) {
        const pool = all.find((candidate) => candidate.text === shown);
        if (pool) await checkPool(tools, pool, ns, walks);
        several = several || /smaller blocks/.test(await text(`${SECTION} tbody`));
      }
      pointed = await checkPointer(tools) || pointed;
    }
  }
  assert.deepEqual([...seen].sort(), [...new Set(instants.flatMap((instant) => instant.pools.map((pool) => pool.text)))].sort());
  if (walks) assert.ok(pointed, 'no block could be pointed at');

  // What is chosen on the curve of all memory is chosen here, too.
  const now = () => page.$eval(`${SECTION} .timeline`, (slider) => Number(slider.getAttribute('aria-valuenow')));
  await page.focus('#timeline .timeline');
  await press('End');
  const end = await now();
  await press('Home');
  assert.ok(await now() < end, 'the curve of all memory leads');
  await page.focus(`${SECTION} .timeline`);
  await press('p');
  assert.match(await text(`${SECTION} h3`), /its peak$/);
  if (!every) assert.ok(several, 'some blocks are left out');
  for (const [width, scheme] of [[1280, 'light'], [390, 'dark']]) await picture(`pools-${width}`, width, scheme);
}

/** A page whose figures do not add up says so. */
export async function wrong({text}) {
  assert.match(await text(`${SECTION} .sum`), /residual [1-9]/);
}
