// The form of the sampling settings.

// The settings that come first. The others are under "More settings".
const FIRST_SETTINGS = ["temperature", "top_k", "top_p", "max_new_tokens", "seed"];

// The largest temperature of the slider; its field takes larger ones.
const MOST_ON_SLIDER = 2;

// Characters of a prompt in the address. Many programs cut longer links.
const MOST_IN_ADDRESS = 4000;

class SettingsForm {
  constructor(facts) {
    this.facts = facts;
    this.sampling = facts.sampling;
    this.stop = facts.sampling.stop ?? [];
    this.off = NOTHING_OFF; // heads and layers that are left out while writing
    this.onOff = () => {}; // follows a change of `off`
    const first = FIRST_SETTINGS.map((name) => SAMPLING_SETTINGS.find((setting) => setting.name === name));
    const others = SAMPLING_SETTINGS.filter((setting) => !first.includes(setting));
    byId("fields").append(...first.map((setting) => this.field(setting)));
    byId("more-fields").append(...others.map((setting) => this.field(setting)));
    if (facts.chat) {
      const system = make("textarea", { id: "system", rows: 2, dir: "auto", autocomplete: "off" });
      byId("fields").before(make("div", { class: "field" }, make("label", { for: "system" }, "System message"), system));
    }
    byId("glossary").append(
      ...[...first, ...others].flatMap(({ label, description }) => [make("dt", {}, label), make("dd", {}, description)]),
      make("dt", {}, "Keep"),
      make("dd", {}, "Without it, Write draws a new seed for what is already written."),
    );
    if (facts.kind === "encoder_decoder") {
      document.querySelectorAll("[data-sampling]").forEach((part) => (part.hidden = true));
    }
    byId("settings").addEventListener("beforetoggle", ({ target }) => this.place(target));
  }

  // Puts the other settings below their button, inside the window.
  place(box) {
    const { bottom, left } = byId("settings-button").getBoundingClientRect();
    const { clientWidth } = document.documentElement;
    const width = Math.min(432, clientWidth - 32);
    box.style.setProperty("--top", `${window.scrollY + bottom}px`);
    box.style.setProperty("--left", `${Math.max(16, Math.min(left, clientWidth - width - 16))}px`);
  }

  // Returns the value of a setting before anybody changes it. A text may be as long as the context, so that it ends by itself; an
  // answer a quarter of it, so that a dialogue fits.
  usual({ name, default: value }) {
    const found = this.sampling[name] ?? value;
    const { chat, model } = this.facts, longest = chat ? Math.floor(model.max_len / 4) : model.max_len;
    return String(name === "max_new_tokens" ? Math.max(found, longest) : found);
  }

  // Returns the elements of a setting.
  field(setting) {
    const { name, element, label, least, most, step, isInteger } = setting;
    const value = this.usual(setting);
    const input = make("input", { type: "number", id: element, step, inputmode: isInteger ? "numeric" : "decimal", value });
    if (least !== null) input.min = String(least);
    if (most !== null) input.max = String(most);
    input.addEventListener("input", () => this.check(setting));
    const node = make("div", { class: "field" }, make("label", { for: element }, label), input);
    if (name !== "max_new_tokens") node.dataset.sampling = "";
    if (name === "temperature") {
      this.slider = make("input", { type: "range", id: "temperature-slider", min: 0, max: MOST_ON_SLIDER, step: 0.05, value });
      this.shown = make("output", { for: "temperature-slider" }, value);
      this.slider.addEventListener("input", () => this.set(setting, this.slider.value));
      input.addEventListener("input", () => this.set(setting, input.value));
      const ends = make("span", { class: "slider-ends" }, make("span", {}, "predictable"), make("span", {}, "surprising"));
      const title = make("label", { for: "temperature-slider" }, label, " ", this.shown);
      byId("settings-row").prepend(make("div", { class: "field field-slider", "data-sampling": "" }, title, this.slider, ends));
    }
    if (name === "seed") {
      this.keep = make("input", { type: "checkbox", id: "keep-seed", autocomplete: "off" });
      // A seed that is typed is meant.
      input.addEventListener("input", () => (this.keep.checked = true));
      node.append(make("label", { class: "check" }, this.keep, "Keep"));
      node.classList.add("field-seed");
    }
    return node;
  }

  set(setting, value) {
    if (byId(setting.element).value !== value) byId(setting.element).value = value;
    if (setting.name === "temperature") this.slider.value = this.shown.value = value;
    this.check(setting);
  }

  // Leaves out heads and layers from now on, and says so beside the settings.
  switchOff(off) {
    this.off = off;
    const names = partsOff(off).map(partName).join("; ");
    const allOn = makeButton({ class: "quiet" }, () => this.switchOff(NOTHING_OFF), "Switch all on");
    byId("left-out").replaceChildren(`From now on, texts are written without ${names}. `, allOn);
    byId("left-out").hidden = names === "";
    this.onOff();
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
    const wrong = SAMPLING_SETTINGS.find((setting) => !this.check(setting));
    if (!wrong) return this.values();
    this.reveal(byId(wrong.element));
    throw new Error(`${wrong.label} must be ${wrong.allowed}.`);
  }

  // The same; null if a value is wrong.
  values() {
    const values = SAMPLING_SETTINGS.map((setting) => [setting.option, Number(byId(setting.element).value)]);
    return SAMPLING_SETTINGS.every((setting) => this.check(setting)) ? { stop: this.stop, ...this.off, ...Object.fromEntries(values) } : null;
  }

  // Fills the form with the text that the fragment of the address names. Returns {prompt, path, token}, or null without
  // one. prompt: a text, or messages. path: the settings of the text, then those of each branch on the way to the one that is
  // meant, with `kept` and `id`.
  readAddress() {
    const state = new URLSearchParams(location.hash.slice(1));
    const prompt = this.facts.chat ? messagesIn(state) : state.get("prompt");
    if (prompt === null) return null;
    const usual = SAMPLING_SETTINGS.map((setting) => [setting.option, numberIn(this.usual(setting))]);
    const path = [{ settings: { stop: this.stop, ...NOTHING_OFF, ...Object.fromEntries(usual) } }];
    for (const [name, value] of state) {
      if (name === "branch") {
        const [kept, id] = value.split(".").map(numberIn);
        path.push({ kept, id, settings: { ...path.at(-1).settings } });
      }
      const setting = SAMPLING_SETTINGS.find(({ option }) => option === name);
      if (setting && isAllowed(setting, numberIn(value))) path.at(-1).settings[name] = numberIn(value);
      if (name === "off") Object.assign(path.at(-1).settings, this.partsIn(value));
    }
    if (this.facts.chat) byId("system").value = prompt[0].role === "system" ? prompt[0].content : "";
    else byId("prompt").value = prompt;
    for (const setting of SAMPLING_SETTINGS) this.set(setting, String(path.at(-1).settings[setting.option]));
    const { withoutHeads, withoutLayers } = path.at(-1).settings;
    this.switchOff({ withoutHeads, withoutLayers });
    return { prompt, path, token: numberIn(state.get("token") ?? "") - 1 };
  }

  // "2,3.1" → layer 2, and head 1 of layer 3; what does not exist is left out.
  partsIn(text) {
    const { num_layers: layers, num_heads: heads } = this.facts.model;
    let off = NOTHING_OFF;
    if (this.facts.kind === "encoder_decoder") return off;
    const isBelow = (number, end) => Number.isInteger(number) && number >= 0 && number < end;
    for (const part of text.split(",")) {
      const [layer, head = null] = part.split(".").map((number) => numberIn(number) - 1);
      const exists = isBelow(layer, layers) && (head === null || isBelow(head, heads));
      if (exists && !isOff(off, { layer, head })) off = withSwitched(off, { layer, head });
    }
    return off;
  }

  // Puts a text into the fragment of the address: its prompt, its seed, and the settings that have been changed; for each
  // branch on the way to it the tokens it keeps, the token it chose, and the settings that differ; the token that is looked at.
  writeAddress([text, ...branches], token = null) {
    const { prompt, turn } = text, state = new URLSearchParams(turn ? { messages: JSON.stringify(turn.messages) } : { prompt });
    const isLong = (turn ? state.get("messages") : prompt).length > MOST_IN_ADDRESS;
    const append = (settings, isNew) => {
      for (const setting of SAMPLING_SETTINGS) {
        const value = String(settings[setting.option]);
        if (isNew(setting, value)) state.append(setting.option, value);
      }
    };
    const numbersOf = (off) => partsOff(off).map(({ layer, head }) => (head === null ? layer + 1 : `${layer + 1}.${head + 1}`));
    const appendOff = (settings, before) => {
      const [parts, old] = [settings, before].map((off) => String(numbersOf(off)));
      if (parts !== old) state.append("off", parts);
    };
    append(text.settings, (setting, value) => setting.name === "seed" || value !== this.usual(setting));
    appendOff(text.settings, NOTHING_OFF);
    for (const { parent, keptCount, tokens, instead, settings } of branches) {
      state.append("branch", instead ? `${keptCount}.${tokens[keptCount - 1].id}` : String(keptCount));
      append(settings, ({ option }, value) => value !== String(parent.settings[option]));
      appendOff(settings, parent.settings);
    }
    if (token !== null) state.set("token", token + 1);
    replaceFragment(isLong ? "" : state);
  }

  reveal(field) {
    const box = field.closest("[popover]");
    if (box && !box.matches(":popover-open")) box.showPopover?.();
    if (field.closest("details")) field.closest("details").open = true;
    field.focus();
  }
}

// Changes the fragment of the address.
function replaceFragment(fragment) {
  try {
    const address = new URL(location.href);
    address.hash = fragment;
    history.replaceState(null, "", address);
  } catch {
    // A page inside another page may have no address of its own.
  }
}

// The prompts of the run's samples, or the sources of pairs.
function samplePrompts({ sampling, samples }) {
  const all = [...(sampling.prompts ?? []), ...samples.map(({ prompt, source }) => source ?? prompt)];
  return [...new Set(all)].filter(Boolean).slice(0, 3);
}

// Shows them as buttons. onChoose() follows when one is in the field.
function showChips(prompts, onChoose) {
  const chip = (prompt) =>
    makeButton(
      { class: "chip" },
      () => {
        byId("prompt").value = prompt;
        if (!byId("start").disabled) onChoose();
      },
      make("bdi", {}, startOfText(prompt, 40)),
    );
  byId("chips").append(...prompts.map(chip));
  byId("chips").hidden = prompts.length === 0;
}

function numberIn(text) {
  return text.trim() === "" ? NaN : Number(text);
}

// Returns whether a number is a value of a setting, a row of SAMPLING_SETTINGS.
function isAllowed({ isInteger, least, isLeastOpen, most }, value) {
  if (!(isInteger ? Number.isInteger(value) : Number.isFinite(value))) return false;
  return (isLeastOpen ? value > least : value >= least) && (most === null || value <= most);
}
