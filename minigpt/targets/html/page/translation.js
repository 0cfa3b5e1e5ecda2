// A model of pairs: a source, its translation, and the source tokens that each target token attended to.

class Translator {
  constructor(client, facts) {
    this.client = client;
    this.settings = new SettingsForm(facts);
    this.status = new StatusLine(byId("status"));
    this.job = null;
    this.shown = null; // {prompt, tokens}
    this.alignment = null;
    nameTranslation();
    this.source = new ShadedTokens("Source");
    byId("source-line").replaceWith(this.source.node);
    this.source.node.classList.add("source-line");
    this.source.node.hidden = true;
    this.panel = new TokenPanel({
      onChoose: null,
      onPin: (index) => this.choose(index),
      onClose: () => {
        this.point(null);
        this.tokens.focus();
      },
      inside: new InsideView({ client, kind: facts.kind, off: () => NOTHING_OFF }),
    });
    this.tokens = new TokenText(byId("text-tokens"), "Translation", {
      onPoint: (index) => this.point(index),
      onChoose: (index) => this.choose(index),
      onOpen: (index) => this.choose(index, true),
    });
    this.prompt = byId("prompt");
    this.prompt.value = samplePrompts(facts)[0] ?? "";
    listenToForm(() => this.start());
    showChips(samplePrompts(facts), () => this.start());
    listenToAddress(this);
    byId("stop").addEventListener("click", () => this.job?.stop());
    byId("copy").addEventListener("click", () => this.status.copy(this.shown.text));
    listenToColors();
    watchColors(() => this.draw?.());
  }

  ready() {
    byId("start").disabled = false;
    this.status.say("Ready");
    try {
      if (this.link) this.follow(this.link);
      else this.translate(this.request());
    } catch (error) {
      showError(error);
    }
  }

  request() {
    return { prompt: this.prompt.value, settings: this.settings.read() };
  }

  start() {
    clearError();
    try {
      this.translate(this.request());
      this.settings.writeAddress([this.shown]);
    } catch (error) {
      showError(error);
    }
  }

  async follow({ token }) {
    clearError();
    await this.translate(this.request());
    if (this.shown.tokens[token]) this.choose(token);
  }

  async translate({ prompt, settings }) {
    const translation = { prompt, settings, tokens: [], text: "" };
    this.show(translation);
    this.job?.stop();
    const speedometer = new Speedometer();
    const job = this.client.generate({
      ...settings,
      prompt,
      onTokens: (tokens) => {
        speedometer.add(tokens.length);
        translation.tokens.push(...tokens);
        if (this.shown === translation) this.tokens.append(tokens);
      },
    });
    this.setJob(job);
    this.status.say("Translating…");
    try {
      const result = await job.done;
      translation.text = result.text;
      if (this.job === job) this.status.say(describeEnd(result, speedometer));
      if (this.shown === translation) await this.align(translation);
    } catch (error) {
      if (this.job === job) this.status.say("");
      showError(error);
    } finally {
      if (this.job === job) this.setJob(null);
    }
  }

  setJob(job) {
    this.job = job;
    showWriting(job !== null);
  }

  show(translation) {
    this.shown = translation;
    this.alignment = null;
    this.panel.clear();
    byId("text-empty").hidden = true;
    byId("text-tools").hidden = false;
    byId("legend").hidden = false;
    byId("alignment").hidden = true;
    const source = endOfText(translation.prompt, SHOWN_PROMPT);
    this.source.setTokens([{ text: source, label: source }]);
    this.source.node.hidden = false;
    this.tokens.clear();
  }

  async align(translation) {
    this.tokens.describe(translation.text);
    if (!translation.tokens.length) return;
    const alignment = await this.client.align({
      source: translation.prompt,
      tokens: translation.tokens.map((token) => token.id),
    });
    if (this.shown !== translation) return;
    this.alignment = alignment;
    this.source.setTokens(alignment.source);
    this.draw = showAlignment(byId("alignment"), alignment);
    if (this.panel.shown) this.shadeSource(this.panel.shown.index);
  }

  // The pointer is on a token of the translation, or has left it.
  point(index) {
    if (this.panel.isInside && this.panel.chosen) return;
    this.panel.preview(this.shown, index);
    this.shadeSource(index ?? this.panel.chosen?.index ?? null);
  }

  choose(index, moveFocus = false) {
    this.tokens.mark(index);
    this.panel.choose(this.shown, index);
    this.settings.writeAddress([this.shown], index);
    this.shadeSource(index);
    this.tokens.reveal(byId("panel"));
    if (moveFocus) this.panel.focus();
  }

  shadeSource(index) {
    if (!this.alignment) return;
    const length = this.alignment.source.length;
    this.source.shade(index === null ? null : this.alignment.weights.subarray(index * length, (index + 1) * length));
  }
}

function nameTranslation() {
  byId("write-heading").textContent = "Translate";
  byId("prompt-label").textContent = "Source";
  byId("start").textContent = "Translate";
  for (const name of ["step", "step-note"]) byId(name).hidden = true;
  byId("text-empty").textContent = "The translation will appear here.";
  byId("panel-empty").textContent =
    "Point at a token of the translation, tap it, or reach it with Tab and the arrow keys. The source tokens that the model " +
    "attended to are shaded, and this panel shows the alternatives and, with “Look inside”, what the heads attend to.";
}
