/* window.minigpt: the script interface of the page. docs/model-page.md describes it. */

/* Returns all options; omitted ones are those of `[sampling]`. Throws a TypeError or RangeError that names the option. */
function checkedOptions(options, sampling) {
  const checked = { stop: sampling.stop ?? [] };
  for (const setting of SAMPLING_SETTINGS) {
    const { name, option, allowed } = setting;
    const value = options[option] ?? sampling[name] ?? setting.default;
    if (typeof value !== "number") throw new TypeError(`${option}: should be ${allowed}`);
    if (!isAllowed(setting, value)) throw new RangeError(`${option}: ${value}: should be ${allowed}`);
    checked[option] = value;
  }
  return checked;
}

function installApi(client, facts) {
  const generate = async (options = {}) => {
    if (options === null || typeof options !== "object") throw new TypeError("options: should be an object");
    const known = ["prompt", "onText", ...SAMPLING_SETTINGS.map(({ option }) => option)];
    const unknown = Object.keys(options).find((name) => !known.includes(name));
    if (unknown) throw new TypeError(`${unknown}: unknown option; should be one of ${known.join(", ")}`);
    const { prompt = "", onText = () => {} } = options;
    if (typeof prompt !== "string") throw new TypeError("prompt: should be a string");
    if (typeof onText !== "function") throw new TypeError("onText: should be a function");
    const request = { ...checkedOptions(options, facts.sampling), prompt };
    await client.ready;
    let shown = 0;
    const onTokens = (_, ready) => {
      shown += ready.length;
      if (ready) onText(ready);
    };
    const { text, tokens } = await client.generate({ ...request, choices: false, onTokens }).done;
    if (text.length > shown) onText(text.slice(shown));
    return { text, tokens: Array.from(tokens) };
  };
  window.minigpt = Object.freeze({ ready: client.ready.then(() => undefined), info: facts, generate });
  window.minigpt.ready.catch(() => {});
}
