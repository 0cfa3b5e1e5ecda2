// Two texts side by side, from the same prompt and seed: at two temperatures, or by two states of training.

class Comparison {
  // request(): the prompt and the settings of the form.
  constructor(client, facts, request) {
    Object.assign(this, { client, facts, request });
    this.turn = 0;
    this.sides = [
      ["First text", 0.3],
      ["Second text", 1.2],
    ].map(([name, temperature]) => this.side(name, temperature));
    const statusNode = make("span", { class: "status", role: "status", "aria-live": "polite" });
    this.status = new StatusLine(statusNode);
    byId("compare").append(
      make("div", { class: "sides" }, ...this.sides.map(({ node }) => node)),
      make("div", { class: "actions" }, makeButton({ class: "primary" }, () => this.write(), "Write both"), statusNode),
    );
    byId("compare").hidden = false;
  }

  side(name, value) {
    const temperature = make("input", { type: "number", step: 0.1, min: 0, value });
    const states = this.facts.snapshots.map(({ step }, at) => make("option", { value: at }, `step ${formatInteger(step)}`));
    const state = states.length > 1 && make("select", {}, ...states);
    if (state) state.value = String(states.length - 1);
    const box = make("span", {}), prompt = make("span", { class: "prompt" });
    const mark = (index) => this.mark(index);
    const node = make(
      "div",
      { role: "group", "aria-label": name },
      make("div", { class: "fields" }, make("label", {}, "Temperature", temperature), state && make("label", {}, "State of training", state)),
      make("div", { class: "text", dir: "auto" }, prompt, box),
    );
    return { node, temperature, state, prompt, tokens: new TokenText(box, name, { onPoint: mark, onChoose: mark, onOpen: mark }) };
  }

  async write() {
    const turn = ++this.turn;
    clearError();
    this.jobs?.forEach((job) => job.stop());
    try {
      const { prompt, settings } = this.request();
      this.texts = this.sides.map(() => []);
      this.jobs = this.sides.map((side, at) => {
        side.prompt.textContent = shownPrompt(prompt);
        side.tokens.clear();
        return this.client.generate({
          ...settings,
          prompt,
          temperature: temperatureIn(side.temperature),
          snapshot: side.state ? Number(side.state.value) : null,
          onTokens: (tokens) => turn === this.turn && this.texts[at].push(...tokens),
        });
      });
      this.status.say(this.client.isLearning ? "Waiting until the model has learned…" : "Writing…");
      await Promise.all(this.jobs.map(({ done }) => done));
      await this.show(turn);
    } catch (error) {
      if (turn === this.turn) this.status.say("");
      showError(error);
    }
  }

  // Shows both texts in step.
  async show(turn) {
    const [first, second] = this.texts;
    const pause = 1000 / TOKENS_PER_SECOND;
    for (let at = 0; at < Math.max(first.length, second.length); at++) {
      if (!prefersReducedMotion()) await new Promise((resolve) => setTimeout(resolve, pause));
      if (turn !== this.turn) return;
      this.sides.forEach(({ tokens }, side) => tokens.append(this.texts[side].slice(at, at + 1)));
    }
    let same = 0;
    while (same < first.length && first[same].id === second[same]?.id) same++;
    const isSame = same === first.length && same === second.length;
    this.status.say(isSame ? "The texts are the same." : `The first ${formatCount(same, "token")} are the same.`);
  }

  // Marks the tokens in the same place of both texts.
  mark(index) {
    if (index === null) return;
    const parts = this.sides.map(({ tokens }, side) => {
      const token = this.texts[side][index];
      tokens.mark(tokens.spans[index] ? index : null);
      return token ? `“${spoken(token.label)}” ${formatPercent(token.probability)}` : "the end";
    });
    this.status.say(`Token ${formatInteger(index + 1)}: ${parts.join(" and ")}`);
  }
}

function temperatureIn(field) {
  const setting = SAMPLING_SETTINGS.find(({ name }) => name === "temperature");
  const isValid = isAllowed(setting, numberIn(field.value));
  setAttribute(field, "aria-invalid", isValid ? null : "true");
  if (!isValid) throw new Error(`${setting.label} must be ${setting.allowed}.`);
  return Number(field.value);
}
