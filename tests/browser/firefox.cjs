// Drives Firefox for firefox.py: one JSON object a line comes in, and events and one answer go out.
// node firefox.cjs NODE_MODULES FIREFOX PROXY

const { createInterface } = require("node:readline");

const [packages, executablePath, proxy] = process.argv.slice(2);
const puppeteer = require(`${packages}/puppeteer-core`);
const address = new URL(proxy);
const tabs = new Map();
const browsers = new Map(); // one for each combination of dark and motion: no page can choose

function say(message) {
  process.stdout.write(JSON.stringify(message) + "\n");
}

function launch(dark, motion) {
  return puppeteer.launch({
    browser: "firefox",
    executablePath,
    headless: true,
    defaultViewport: null,
    timeout: 120000,
    protocolTimeout: 300000,
    extraPrefsFirefox: {
      // Everything goes to the proxy, addresses of this machine too.
      "network.proxy.type": 1,
      "network.proxy.http": address.hostname,
      "network.proxy.http_port": Number(address.port),
      "network.proxy.ssl": address.hostname,
      "network.proxy.ssl_port": Number(address.port),
      "network.proxy.no_proxies_on": "",
      "network.proxy.allow_hijacking_localhost": true,
      "layout.css.prefers-color-scheme.content-override": dark ? 0 : 1,
      "ui.prefersReducedMotion": motion ? 0 : 1,
    },
  });
}

const methods = {
  async new_tab({ tab, width, height, dark, motion }) {
    const key = `${dark} ${motion}`;
    if (!browsers.has(key)) browsers.set(key, await launch(dark, motion));
    const page = await browsers.get(key).newPage();
    await page.setViewport({ width, height });
    page.setDefaultTimeout(120000);
    page.on("console", (message) => say({ event: "messages", tab, text: message.text() }));
    page.on("pageerror", (error) => say({ event: "messages", tab, text: String(error) }));
    page.on("request", (request) => say({ event: "requests", tab, text: request.url() }));
    tabs.set(tab, page);
  },
  async open({ tab, address }) {
    await tabs.get(tab).goto(address);
  },
  async run({ tab, expression }) {
    return tabs.get(tab).evaluate(expression);
  },
  async press({ tab, keys }) {
    const { keyboard } = tabs.get(tab), last = keys.at(-1), held = keys.slice(0, -1);
    for (const key of held) await keyboard.down(key);
    await keyboard.press(last);
    for (const key of held) await keyboard.up(key);
  },
  async type({ tab, text }) {
    await tabs.get(tab).keyboard.type(text);
  },
  async click({ tab, selector }) {
    await tabs.get(tab).click(selector);
  },
  async close({ tab }) {
    await tabs.get(tab).close();
    tabs.delete(tab);
  },
  async quit() {
    await Promise.all(Array.from(browsers.values(), (browser) => browser.close()));
  },
};

async function main() {
  for await (const line of createInterface({ input: process.stdin })) {
    const { method, ...options } = JSON.parse(line);
    try {
      say({ result: (await methods[method](options)) ?? null });
    } catch (error) {
      say({ error: error.message });
    }
    if (method === "quit") process.exit(0);
  }
  // The tests have ended without saying so.
  await methods.quit();
}

main();
