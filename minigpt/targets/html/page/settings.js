// The form of the sampling settings.

// The settings that are shown first; the others are in "More settings".
const FIRST_SETTINGS = ["temperature", "top_k", "top_p", "max_new_tokens", "seed"];

// Characters of a prompt in the address. Many programs cut longer links.
const MOST_IN_ADDRESS = 4000;

class SettingsForm {
  constructor(facts) {
    this.sampling = facts.sampling;
    this.stop = facts.sampling.stop ?? [];
    const isFirst = ({ name }) => FIRST_SETTINGS.includes(name);
    const first = SAMPLING_SETTINGS.filter(isFirst);
    first.sort((a, b) => FIRST_SETTINGS.indexOf(a.name) - FIRST_SETTINGS.indexOf(b.name));
    const others = SAMPLING_SETTINGS.filter((setting) => !isFirst(setting));
    byId("fields").append(...first.map((setting) => this.field(setting)));
    byId("more-fields").append(...others.map((setting) => this.field(setting)));
    byId("glossary").append(
      ...[...first, ...others].flatMap(({ label, description }) => [make("dt", {}, label), make("dd", {}, description)]),
    );
    if (facts.kind === "encoder_decoder") {
      document.querySelectorAll("[data-sampling]").forEach((part) => (part.hidden = true));
    }
    byId("glossary").append(make("dt", {}, "Keep"), make("dd", {}, "Without it, Write draws a new seed for what is already written."));
    byId("settings").open = window.matchMedia("(min-width: 60rem)").matches;
  }

  // Returns the value of a setting before anybody changes it.
  usual({ name, default: value }) {
    const found = String(this.sampling[name] ?? value);
    return name === "max_new_tokens" && found === "0" ? "40" : found;
  }

  // Returns the elements of a setting.
  field(setting) {
    const { name, element, label, least, most, step, isInteger } = setting;
    const value = this.usual(setting);
    const input = make("input", { type: "number", id: element, step, inputmode: isInteger ? "numeric" : "decimal", value });
    if (least !== null) input.min = String(least);
    if (most !== null) input.max = String(most);
    input.addEventListener("input", () => this.check(setting));
    const node = make("div", { class: name === "seed" ? "field field-seed" : "field" }, make("label", { for: element }, label), input);
    if (name !== "max_new_tokens") node.dataset.sampling = "";
    if (name === "seed") {
      this.keep = make("input", { type: "checkbox", id: "keep-seed", autocomplete: "off" });
      // A seed that is typed is meant.
      input.addEventListener("input", () => (this.keep.checked = true));
      node.append(make("label", { class: "check" }, this.keep, "Keep"));
    }
    return node;
  }

  // Draws a new seed, unless the seed is kept or has no effect. Returns whether it has drawn one.
  drawSeed() {
    const { temperature, topK } = this.read();
    if (this.keep.checked || temperature === 0 || topK === 1) return false;
    byId("seed").value = String(Math.floor(Math.random() * 1e6));
    return true;
  }

  // Marks a field whose value is not allowed.
  check(setting) {
    const field = byId(setting.element);
    const isValid = isAllowed(setting, numberIn(field.value));
    setAttribute(field, "aria-invalid", isValid ? null : "true");
    return isValid;
  }

  // The values as options of Client.generate. Throws an Error that names the first field with a wrong value.
  read() {
    const options = { stop: this.stop };
    for (const setting of SAMPLING_SETTINGS) {
      const field = byId(setting.element);
      if (!this.check(setting)) {
        this.reveal(field);
        throw new Error(`${setting.label} must be ${setting.allowed}.`);
      }
      options[setting.option] = Number(field.value);
    }
    return options;
  }

  // Fills the form with the prompt and the settings in the fragment of the address. Returns whether there are any.
  readAddress() {
    const state = new URLSearchParams(location.hash.slice(1));
    if (!state.has("prompt")) return false;
    byId("prompt").value = state.get("prompt");
    for (const setting of SAMPLING_SETTINGS) {
      const value = numberIn(state.get(setting.option) ?? "");
      byId(setting.element).value = isAllowed(setting, value) ? String(value) : this.usual(setting);
      this.check(setting);
    }
    return true;
  }

  // Puts a prompt, its seed, and the settings that have been changed into the fragment of the address.
  writeAddress({ prompt, settings }) {
    const state = new URLSearchParams({ prompt });
    for (const setting of SAMPLING_SETTINGS) {
      const value = String(settings[setting.option]);
      if (setting.name === "seed" || value !== this.usual(setting)) state.set(setting.option, value);
    }
    try {
      const address = new URL(location.href);
      address.hash = prompt.length > MOST_IN_ADDRESS ? "" : state;
      history.replaceState(null, "", address);
    } catch {
      // A page inside another page may have no address of its own.
    }
  }

  reveal(field) {
    for (let part = field.closest("details"); part; part = part.parentElement.closest("details")) part.open = true;
    field.focus();
  }
}

function numberIn(text) {
  return text.trim() === "" ? NaN : Number(text);
}

// Returns whether a number is a value of a setting, a row of SAMPLING_SETTINGS.
function isAllowed({ isInteger, least, isLeastOpen, most }, value) {
  if (!(isInteger ? Number.isInteger(value) : Number.isFinite(value))) return false;
  return (isLeastOpen ? value > least : value >= least) && (most === null || value <= most);
}
