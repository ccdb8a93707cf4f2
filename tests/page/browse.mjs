// Opens a page in headless Chromium and uses it as one would. usage: browse.mjs CASE PAGE CHROMIUM MODULES FOLDER
import {strict as assert} from 'node:assert';
import {createRequire} from 'node:module';

const [, , which, file, executablePath, modules, folder] = process.argv;
const puppeteer = createRequire(`${modules}/`)('puppeteer-core');

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
async function picture(name, width, scheme) {
  await page.setViewport({width, height: 900});
  await page.emulateMediaFeatures([{name: 'prefers-color-scheme', value: scheme}]);
  await pause();
  await pause();
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(wide <= width, `at ${width} the page is ${wide} wide`);
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
  assert.match(await text('.notice'), /Nothing was lost/);
  assert.match(await text('.card .big'), /^728\.0 MiB$/);
  assert.equal(await count('.card'), 4);  // two devices, the host, resident memory

  // The peak is chosen at first; its holders add up to it.
  assert.match(await text('.live h3'), /\+40 ms · the peak/);
  assert.match(await text('.live tfoot'), /728\.0 MiB.*residual 0/);
  assert.match(await text('.mark.peak'), /728\.0 MiB/);
  assert.ok(await count('.phase') >= 3);

  // A click chooses the instant nearest to it, keys go on from there.
  const plot = await (await page.$('.u-over')).boundingBox();
  await page.mouse.click(plot.x + plot.width * 0.155, plot.y + plot.height / 2);
  assert.match(await text('.live h3'), /\+1[4-7](\.\d+)? ms/);
  const before = await text('.live .total');
  await page.focus('.timeline');
  await press('ArrowRight', 'ArrowRight', 'ArrowRight');
  assert.notEqual(await text('.live .total'), before);
  await press('p');
  assert.match(await text('.live h3'), /the peak/);
  await press('Home');
  assert.match(await page.$eval('.timeline', (element) => element.getAttribute('aria-valuenow')), /^0$/);

  // A drag zooms, Escape shows all.
  await page.mouse.move(plot.x + plot.width * 0.3, plot.y + 50);
  await page.mouse.down();
  await page.mouse.move(plot.x + plot.width * 0.5, plot.y + 50, {steps: 5});
  await page.mouse.up();
  await pause();
  assert.equal(await page.$eval('.mark.chosen', (mark) => mark.hidden), true);  // Home lies outside
  await page.focus('.timeline');
  await press('Escape');
  await pause();
  assert.equal(await page.$eval('.mark.chosen', (mark) => mark.hidden), false);

  // Flame graph: a click zooms, the search counts, keys move.
  const frames = await count('.flame g.frame');
  assert.ok(frames >= 4);
  await page.type('[aria-label="Search functions"]', 'libengine');
  assert.match(await text('.details'), /calls, 728\.0 MiB, 100\.0 % of the peak/);
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
    assert.match(await text('#peak tfoot'), /728\.0 MiB.*sum = peak, residual 0/, by);
  }
  await clickChoice('Rows', 'site');
  const first = () => text('#peak tbody tr:first-child .number');
  assert.match(await first(), /512\.0 MiB/);
  await page.click('#peak thead th button');
  assert.match(await first(), /16\.0 MiB/);

  // Another memory, then one kind of it.
  await clickChoice('Memory', 'device:1');
  assert.match(await text('#peak'), /7\.00 MiB/);
  await page.select('.pickers select', 'device:0/pool');
  await pause();
  assert.match(await text('#peak tfoot'), /16\.0 MiB.*residual 0/);
  await clickChoice('Memory', 'host');
  assert.match(await text('.live tfoot'), /residual 0/);
  assert.match(await text('#failures'), /CUDA_ERROR_OUT_OF_MEMORY/);
  await clickChoice('Memory', 'device:0');
  for (const [width, scheme] of [[1280, 'light'], [1280, 'dark'], [390, 'light']]) {
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
  assert.match(await text('main'), /2 runs/);
  assert.equal(await count('.plot canvas'), 1);
  assert.match(await text('tbody'), /728\.0 MiB/);
  assert.match(await text('tbody'), /828\.0 MiB/);
  await clickChoice('Memory', 'host');
  assert.equal(await count('.plot canvas'), 1);
  await picture('compare', 1280, 'light');
  await picture('compare-phone', 390, 'dark');
  await clickChoice('Run', '1');
  assert.match(await text('.card .big'), /828\.0 MiB/);
  await clickChoice('Run', 'compare');
  assert.equal(await count('.plot canvas'), 1);
}

async function big() {
  const took = await open();
  console.log(`open after ${took} ms`);
  assert.match(await text('.live tfoot'), /residual 0/);
  await clickChoice('View', 'table');
  assert.match(await text('#peak tfoot'), /residual 0/);
  await picture('big', 1280, 'light');
}

try {
  await {run, hostile, empty, compare, big}[which]();
  assert.deepEqual(said, []);
} finally {
  await browser.close();
}
