/* window.minigpt: the script interface of the page. docs/model-page.md describes it. */

/* Option → its name in `[sampling]`, whether it is an integer, and its limits. */
const OPTIONS = {
  maxNewTokens: ["max_new_tokens", true, (n) => n >= 0 && n <= 1e6, "should be an integer from 0 to 1000000"],
  temperature: ["temperature", false, (n) => n >= 0, "should be a number of at least 0"],
  topK: ["top_k", true, (n) => n >= 0 && n < 2 ** 31, "should be an integer of at least 0; 0 for no limit"],
  topP: ["top_p", false, (n) => n > 0 && n <= 1, "should be a number above 0 and at most 1"],
  minP: ["min_p", false, (n) => n >= 0 && n <= 1, "should be a number from 0 to 1"],
  repetitionPenalty: ["repetition_penalty", false, (n) => n > 0, "should be a number above 0"],
  seed: ["seed", true, (n) => n >= -(2 ** 31) && n < 2 ** 31, "should be an integer of 32 bits"],
};

/* Returns all options; omitted ones are those of `[sampling]`. Throws a TypeError or RangeError that names the option. */
function checkedOptions(options, sampling) {
  const checked = { stop: sampling.stop ?? [] };
  for (const [name, [setting, isInteger, isAllowed, problem]] of Object.entries(OPTIONS)) {
    const value = options[name] ?? sampling[setting];
    if (typeof value !== "number") throw new TypeError(`${name}: ${problem}`);
    const isPossible = Number.isFinite(value) && (!isInteger || Number.isInteger(value));
    if (!isPossible || !isAllowed(value)) throw new RangeError(`${name}: ${value}: ${problem}`);
    checked[name] = value;
  }
  return checked;
}

function installApi(client, facts) {
  const generate = async (options = {}) => {
    if (options === null || typeof options !== "object") throw new TypeError("options: should be an object");
    const known = ["prompt", "onText", ...Object.keys(OPTIONS)];
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
