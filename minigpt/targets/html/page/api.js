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

/* Returns the heads and layers that are left out. Throws a TypeError or RangeError that names the option. */
function checkedParts({ withoutHeads = [], withoutLayers = [] }, { kind, model }) {
  const isBelow = (number, end) => Number.isInteger(number) && number >= 0 && number < end;
  const isHead = (pair) =>
    Array.isArray(pair) && pair.length === 2 && isBelow(pair[0], model.num_layers) && isBelow(pair[1], model.num_heads);
  if (!Array.isArray(withoutHeads) || !withoutHeads.every(isHead)) {
    const most = `[${model.num_layers - 1}, ${model.num_heads - 1}]`;
    throw new RangeError(`withoutHeads: ${JSON.stringify(withoutHeads)}: should be pairs from [0, 0] to ${most}`);
  }
  if (!Array.isArray(withoutLayers) || !withoutLayers.every((layer) => isBelow(layer, model.num_layers))) {
    throw new RangeError(
      `withoutLayers: ${JSON.stringify(withoutLayers)}: should be numbers from 0 to ${model.num_layers - 1}`,
    );
  }
  if (kind === "encoder_decoder" && withoutHeads.length + withoutLayers.length) {
    throw new TypeError("withoutHeads, withoutLayers: a model of pairs has all its parts");
  }
  return { withoutHeads, withoutLayers };
}

/* Returns the text of each token, the step at which its probability was first above 1/2 (null: never), and its
   probability in each state of training (null: the token is before the context). */
function datesOf({ tokens, probabilities }, snapshots) {
  return tokens.map(({ text }, at) => {
    const own = probabilities.map((ofModel) => ofModel[at]);
    const first = own.findIndex((probability) => probability > 0.5);
    return { token: text, step: first < 0 ? null : snapshots[first].step, probabilities: own };
  });
}

function installApi(client, facts) {
  /* names: of the options that not all functions have. fit(): resolves to what the request gets in addition. */
  const write = async (options, names, fit) => {
    if (options === null || typeof options !== "object") throw new TypeError("options: should be an object");
    const known = [...names, "onText", "snapshot", "withoutHeads", "withoutLayers", ...SAMPLING_SETTINGS.map(({ option }) => option)];
    const unknown = Object.keys(options).find((name) => !known.includes(name));
    if (unknown) throw new TypeError(`${unknown}: unknown option; should be one of ${known.join(", ")}`);
    const { prompt = "", onText = () => {}, snapshot = null } = options;
    if (typeof prompt !== "string") throw new TypeError("prompt: should be a string");
    if (typeof onText !== "function") throw new TypeError("onText: should be a function");
    if (snapshot !== null && !(Number.isInteger(snapshot) && facts.snapshots[snapshot])) {
      throw new RangeError(`snapshot: ${snapshot}: should be an index into snapshots, of which there are ${facts.snapshots.length}`);
    }
    const checked = { ...checkedOptions(options, facts.sampling), ...checkedParts(options, facts), prompt, snapshot };
    await client.ready;
    const request = { ...checked, ...(await fit()) };
    let shown = 0;
    const onTokens = (_, ready) => {
      shown += ready.length;
      if (ready) onText(ready);
    };
    const { text, tokens } = await client.generate({ ...request, choices: false, onTokens }).done;
    if (text.length > shown) onText(text.slice(shown));
    return { text, tokens: Array.from(tokens) };
  };
  const generate = (options = {}) => write(options, ["prompt"], () => ({}));
  const chat = async (messages, options = {}) => {
    if (!facts.chat) throw new TypeError("chat: the model was not trained on dialogues and has no roles; it continues text: use generate");
    const checked = checkedMessages(messages);
    return write(options, [], () => client.request("fit", { messages: checked, maxNewTokens: options.maxNewTokens ?? null }));
  };
  const learningDates = async (text) => {
    if (typeof text !== "string") throw new TypeError("text: should be a string");
    if (facts.kind === "encoder_decoder") throw new TypeError("learningDates: a model of pairs has none");
    await client.ready;
    return datesOf(await client.learning(text), facts.snapshots);
  };
  const occurrences = async (text) => {
    if (typeof text !== "string") throw new TypeError("text: should be a string");
    if (facts.training_text_bytes === null) {
      throw new Error("occurrences: the page has no training text; export it with --with-text");
    }
    await client.ready;
    return client.matches(text, true);
  };
  const learn = async (options) => {
    if (options === null || typeof options !== "object") throw new TypeError("options: should be an object");
    if (facts.kind === "encoder_decoder") throw new TypeError("learn: only models that continue text can learn");
    const { text, onStep = () => {}, ...settings } = options;
    const known = LEARNING_SETTINGS.map(({ option }) => option);
    const unknown = Object.keys(settings).find((name) => !known.includes(name));
    if (unknown) throw new TypeError(`${unknown}: unknown option; should be one of text, onStep, ${known.join(", ")}`);
    if (typeof text !== "string") throw new TypeError("text: should be a string");
    if (typeof onStep !== "function") throw new TypeError("onStep: should be a function");
    await client.ready;
    const failures = [];
    const job = client.learn({
      text,
      settings,
      onPart: ({ step, loss }) => {
        if (failures.length) return;
        try {
          if (onStep({ step, loss }) === false) job.stop();
        } catch (error) {
          failures.push(error);
          job.stop();
        }
      },
    });
    const { losses } = await job.done;
    if (failures.length) throw failures[0];
    return { losses };
  };
  const saveUrl = async () => {
    if (facts.kind === "encoder_decoder") throw new TypeError("saveUrl: only models that continue text can be saved");
    await client.ready;
    return client.saveUrl();
  };
  const ready = client.ready.then(() => undefined);
  const functions = { generate, chat, learningDates, occurrences, learn, saveUrl };
  window.minigpt = Object.freeze({ ready, info: facts, snapshots: facts.snapshots, ...functions });
  window.minigpt.ready.catch(() => {});
}
