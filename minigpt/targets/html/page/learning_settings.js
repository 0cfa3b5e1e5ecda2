/* The settings of learning; null: the engine chooses what suits the text and the model. As the arguments of PortableTextModel.learn in minigpt/targets/gguf/text_model.py. */

const LEARNING_SETTINGS = [
  { option: "steps", label: "Steps", default: null, least: 1, most: 2 ** 31 - 1 },
  { option: "learningRate", label: "Learning rate", default: null, least: 0, most: 1e38, isNumber: true },
  { option: "batchSize", label: "Windows in a step", default: 4, least: 1, most: 2 ** 16 },
  { option: "length", label: "Tokens in a window", default: 256, least: 1 },
  { option: "seed", label: "Seed", default: 0, least: 0, most: 2 ** 31 - 1 },
];

/* An option of learning that cannot be used. kind: "TypeError" or "RangeError", what the page throws. */
class OptionError extends Error {
  constructor(kind, message) {
    super(message);
    this.kind = kind;
  }
}

/* Returns the settings with their defaults. Throws an OptionError that names the setting.
   options: values by option; undefined for the default. tokens: those of the text. */
function checkedLearning(options, tokens, maxLen) {
  const longest = Math.min(maxLen, tokens - 1), checked = {};
  if (tokens < 2) throw new OptionError("RangeError", `text: ${tokens} tokens: should have at least 2`);
  for (const { option, default: value, least, most = longest, isNumber } of LEARNING_SETTINGS) {
    const found = options[option] ?? (value === null ? 0 : Math.min(value, most));
    const allowed = isNumber ? "a number above 0" : `an integer from ${least} to ${most}`;
    const why = option === "length" ? `: the text has ${tokens} tokens, and the context ${maxLen}` : "";
    if (typeof found !== "number") throw new OptionError("TypeError", `${option}: should be ${allowed}`);
    const fits = isNumber ? found > 0 && found < most : Number.isInteger(found) && found >= least && found <= most;
    const isAllowed = options[option] == null || fits;
    if (!isAllowed) throw new OptionError("RangeError", `${option}: ${found}: should be ${allowed}${why}`);
    checked[option] = found;
  }
  return checked;
}
