// The form of the sampling settings.

// The settings that are shown first; the others are in "More settings".
const FIRST_SETTINGS = ["temperature", "top_k", "top_p", "max_new_tokens", "seed"];

class SettingsForm {
  constructor(facts) {
    this.stop = facts.sampling.stop ?? [];
    const isFirst = ({ name }) => FIRST_SETTINGS.includes(name);
    const first = SAMPLING_SETTINGS.filter(isFirst);
    first.sort((a, b) => FIRST_SETTINGS.indexOf(a.name) - FIRST_SETTINGS.indexOf(b.name));
    const others = SAMPLING_SETTINGS.filter((setting) => !isFirst(setting));
    byId("fields").append(...first.map((setting) => this.field(setting, facts)));
    byId("more-fields").append(...others.map((setting) => this.field(setting, facts)));
    byId("glossary").append(
      ...[...first, ...others].flatMap(({ label, description }) => [make("dt", {}, label), make("dd", {}, description)]),
    );
    if (byId("length").value === "0") byId("length").value = "40";
    if (facts.kind === "encoder_decoder") {
      document.querySelectorAll("[data-sampling]").forEach((part) => (part.hidden = true));
    }
    byId("glossary").append(make("dt", {}, "Keep"), make("dd", {}, "Without it, Write draws a new seed for what is already written."));
    byId("settings").open = window.matchMedia("(min-width: 60rem)").matches;
  }

  // Returns the elements of a setting.
  field(setting, facts) {
    const { name, element, label, least, most, step, isInteger } = setting;
    const value = String(facts.sampling[name] ?? setting.default);
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
    const isValid = isAllowed(setting, field.value.trim() === "" ? NaN : Number(field.value));
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

  reveal(field) {
    for (let part = field.closest("details"); part; part = part.parentElement.closest("details")) part.open = true;
    field.focus();
  }
}

// Returns whether a number is a value of a setting, a row of SAMPLING_SETTINGS.
function isAllowed({ isInteger, least, isLeastOpen, most }, value) {
  if (!(isInteger ? Number.isInteger(value) : Number.isFinite(value))) return false;
  return (isLeastOpen ? value > least : value >= least) && (most === null || value <= most);
}
