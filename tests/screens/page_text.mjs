// The text of a page as one reads it from top to bottom: page_text.mjs FILE CHROMIUM MODULES
import {createRequire} from 'node:module';

const [file, executablePath, modules] = process.argv.slice(2);
const puppeteer = createRequire(`${modules}/`)('puppeteer-core');
const browser = await puppeteer.launch({executablePath, headless: true, args: ['--no-sandbox', '--disable-gpu']});
try {
  const page = await browser.newPage();
  await page.setViewport({width: 1280, height: 900});
  await page.goto(`file://${file}`);
  await page.waitForSelector('main > *');
  await page.click('[aria-label="View"] [data-value="table"]');  // the flame graph's cells depend on the fonts' widths
  const text = await page.$eval('main', (main) => main.innerText);
  console.log(text.split('\n').map((line) => line.trim()).filter(Boolean).join('\n'));
} finally {
  await browser.close();
}
