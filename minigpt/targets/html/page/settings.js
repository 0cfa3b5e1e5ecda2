// The form of the sampling settings.

const SETTING_FIELDS = [
  ["temperature", "temperature", "temperature"],
  ["top-k", "topK", "top_k"],
  ["top-p", "topP", "top_p"],
  ["length", "maxNewTokens", "max_new_tokens"],
  ["seed", "seed", "seed"],
  ["min-p", "minP", "min_p"],
  ["repetition-penalty", "repetitionPenalty", "repetition_penalty"],
];
const NO_LIMITS = { temperature: 1, top_k: 0, top_p: 1, max_new_tokens: 40, seed: 0, min_p: 0, repetition_penalty: 1 };

class SettingsForm {
  constructor(facts) {
    this.stop = facts.sampling.stop ?? [];
    for (const [id, , setting] of SETTING_FIELDS) {
      const field = byId(id);
      const value = facts.sampling[setting] ?? NO_LIMITS[setting];
      field.value = String(value);
      // What the run allows, the page allows.
      if (value < Number(field.min)) field.min = String(value);
      if (value > Number(field.max)) field.max = String(value);
      field.addEventListener("input", () => this.check(field));
    }
    if (byId("length").value === "0") byId("length").value = "40";
    if (facts.kind === "encoder_decoder") {
      document.querySelectorAll("[data-sampling]").forEach((part) => (part.hidden = true));
    }
    byId("new-seed").addEventListener("click", () => {
      const seed = byId("seed");
      seed.value = String(Math.floor(Math.random() * 1e6));
      this.check(seed);
    });
    byId("settings").open = window.matchMedia("(min-width: 60rem)").matches;
  }

  // Marks a field whose value is out of range.
  check(field) {
    const value = field.value.trim() === "" ? NaN : Number(field.value);
    const inRange = value >= Number(field.min) && value <= Number(field.max);
    const valid = inRange && (field.step !== "1" || Number.isInteger(value));
    setAttribute(field, "aria-invalid", valid ? null : "true");
    return valid;
  }

  // The values as options of Client.generate. Throws an Error that names the first field with a wrong value.
  read() {
    const options = { stop: this.stop };
    for (const [id, option] of SETTING_FIELDS) {
      const field = byId(id);
      if (!this.check(field)) {
        this.reveal(field);
        throw new Error(rangeMessage(field));
      }
      options[option] = Number(field.value);
    }
    return options;
  }

  reveal(field) {
    for (let part = field.closest("details"); part; part = part.parentElement.closest("details")) part.open = true;
    field.focus();
  }
}

function rangeMessage(field) {
  const name = field.labels[0].textContent;
  const kind = field.step === "1" ? "a whole number" : "a number";
  return `${name} must be ${kind} from ${formatLimit(field.min)} to ${formatLimit(field.max)}.`;
}

function formatLimit(limit) {
  return Number(limit) >= 10000 ? formatInteger(Number(limit)) : limit;
}
