// "Training": the same prompt and seed, written by each state of training, and when each token was learned.

const PAUSE_MS = 900; // between two states of "Play"

class Replay {
  // request(): the prompt and the settings of the form.
  constructor(client, facts, request) {
    this.client = client;
    this.facts = facts;
    this.snapshots = facts.snapshots;
    this.request = request;
    this.texts = new Map(); // the request and the state → its text
    this.job = null;
    this.before = 0; // the state that was shown before
    this.shown = ""; // the text that is shown
    this.playing = null; // one object for each run of "Play"
    this.turn = 0;
    this.build();
  }

  build() {
    const last = this.snapshots.length - 1;
    this.slider = make("input", { type: "range", id: "snapshot", min: 0, max: last, step: 1, value: 0 });
    this.name = make("output", { for: "snapshot", class: "snapshot-name" });
    this.play = makeButton({ class: "primary" }, () => this.togglePlay(), "Play the training");
    this.dates = make("input", { type: "checkbox", id: "learned" });
    this.statusNode = make("span", { class: "status", role: "status", "aria-live": "polite" });
    this.status = new StatusLine(this.statusNode);
    this.prompt = make("span", { class: "prompt" });
    this.text = make("span", {});
    this.sheet = make("p", { class: "text", dir: "auto" }, this.prompt, this.text);
    this.token = make("p", { class: "learned-token", "aria-live": "polite" });
    this.curve = this.facts.curve.length > 1 ? make("div", { class: "snapshot-curve" }) : null;
    this.slider.addEventListener("input", () => {
      this.stopPlaying();
      this.show(Number(this.slider.value));
    });
    this.dates.addEventListener("change", () => this.showDates());
    const hasDates = this.facts.kind !== "encoder_decoder";
    this.learned = make(
      "div",
      { hidden: true },
      make("label", { class: "check" }, this.dates, "When was each word learned?"),
      make("div", { class: "legend", hidden: true }, ...this.legend()),
      this.token,
    );
    byId("replay").append(
      make(
        "div",
        { class: "replay-controls" },
        make("div", { class: "actions" }, this.play, this.statusNode),
        make("div", { class: "slider" }, make("label", { for: "snapshot" }, "State"), this.slider, this.name),
        this.curve ?? "",
      ),
      make("div", { class: "sheet" }, this.sheet),
      make("div", { class: "replay-side" }, hasDates ? this.learned : ""),
    );
    if (this.curve) watchWidth(this.curve, (width) => this.drawCurve(width));
    this.describe(0);
    this.prompt.textContent = "Play the training, or choose a state with the slider.";
    this.prompt.classList.add("empty");
  }

  // What the colors of the words mean.
  legend() {
    const entry = (step, name) => {
      const swatch = make("span", { class: "swatch", "data-step": step });
      if (step !== "") swatch.style.setProperty("--hue", this.hue(step));
      return make("li", {}, swatch, name);
    };
    const entries = this.snapshots.map(({ step }) => entry(step, `step ${formatInteger(step)}`));
    return [
      make("p", {}, "The color of a word is the step from which its probability was above one half:"),
      make("ul", {}, ...entries, entry("", "in no state")),
    ];
  }

  // From blue, the first state, to red, the last.
  hue(step) {
    const at = this.snapshots.findIndex((snapshot) => snapshot.step === step);
    return String(Math.round(220 * (1 - at / (this.snapshots.length - 1))));
  }

  drawCurve(width) {
    snapshotCurve(this.curve, this.facts, width, Number(this.slider.value));
  }

  describe(index) {
    const { step, seconds } = this.snapshots[index], learned = this.client.learnedSteps;
    const more = learned && index === this.snapshots.length - 1 ? ` and ${formatCount(learned, "step")} of learning` : "";
    this.name.textContent = `step ${formatInteger(step)}${more}${seconds ? `, ${formatSeconds(Math.round(seconds))}` : ""}`;
    this.slider.setAttribute("aria-valuetext", this.name.textContent);
    if (this.curve) markSnapshot(this.curve, index);
  }

  async show(index) {
    const turn = ++this.turn;
    this.describe(index);
    clearError();
    let request;
    try {
      request = this.request();
    } catch (error) {
      this.stopPlaying();
      showError(error);
      return;
    }
    const key = JSON.stringify(request);
    this.dates.checked = false;
    this.showDates();
    this.prompt.classList.remove("empty");
    this.prompt.textContent = shownPrompt(request.prompt);
    try {
      // The state that was shown before, written for this prompt and these settings.
      const before = this.before === index ? null : await this.write(turn, request, this.before, key);
      const text = await this.write(turn, request, index, key);
      if (turn !== this.turn) return;
      this.showChanges(before, text, index);
      this.shown = this.facts.chat ? [...request.prompt, messageOf("assistant", text)] : request.prompt + text;
      this.before = index;
      this.learned.hidden = false;
    } catch (error) {
      this.stopPlaying();
      if (turn === this.turn) showError(error);
    }
  }

  // The text of a state; it is written once for a request.
  async write(turn, { prompt, settings }, snapshot, key) {
    const name = `${snapshot} ${key}`;
    if (this.texts.has(name) || turn !== this.turn) return this.texts.get(name) ?? "";
    this.job?.stop();
    this.text.textContent = "";
    const job = this.client.generate({
      ...settings,
      prompt,
      snapshot,
      onTokens: (tokens) => {
        if (turn === this.turn) this.text.append(tokens.map((token) => token.text).join(""));
      },
    });
    this.job = job;
    const result = await job.done;
    if (result.end !== "stopped") this.texts.set(name, result.text);
    return result.text;
  }

  showChanges(before, text, index) {
    const name = `Step ${formatInteger(this.snapshots[index].step)}`;
    if (before === null) {
      this.text.textContent = text;
      this.status.say(name);
      return;
    }
    const parts = changedParts(before, text);
    this.text.replaceChildren(...parts.map((part) => (part.changed ? make("ins", {}, part.text) : part.text)));
    const count = countChanged(parts);
    const changes = count === 0 ? "no word" : formatCount(count, "word");
    this.status.say(`${name}: ${changes} changed from step ${formatInteger(this.snapshots[this.before].step)}`);
  }

  // Colors each token by the step at which it was learned, or shows the text as it was.
  async showDates() {
    this.token.replaceChildren();
    this.sheet.classList.toggle("learned", this.dates.checked);
    this.learned.querySelector(".legend").hidden = !this.dates.checked;
    this.colored?.remove();
    this.colored = null;
    this.text.hidden = this.dates.checked;
    this.prompt.hidden = this.dates.checked && !this.facts.chat;
    if (!this.dates.checked) return;
    const tokens = datesOf(await this.client.learning(this.shown), this.snapshots);
    if (!this.dates.checked) return;
    this.colored?.remove();
    const spans = tokens.map((token) => this.dateSpan(token));
    spans[0]?.setAttribute("tabindex", "0");
    this.colored = make("span", {}, ...spans);
    this.colored.addEventListener("keydown", ({ key, target }) => {
      if (key === "ArrowRight") target.nextSibling?.focus();
      if (key === "ArrowLeft") target.previousSibling?.focus();
    });
    this.sheet.append(this.colored);
  }

  dateSpan(token) {
    const { token: text, step } = token, span = make("span", { "data-step": step ?? "", tabindex: "-1" }, text);
    if (step !== null) span.style.setProperty("--hue", this.hue(step));
    const show = () => this.describeToken(token);
    span.addEventListener("pointerenter", show);
    span.addEventListener("focus", show);
    return span;
  }

  describeToken({ token, step, probabilities }) {
    if (probabilities[0] === null) {
      this.token.textContent = `“${token}” is before the context.`;
      return;
    }
    const learned = step === null ? "never above one half" : `above one half since step ${formatInteger(step)}`;
    const shares = probabilities.map((p, at) => `${formatInteger(this.snapshots[at].step)}: ${formatPercent(p)}`);
    this.token.replaceChildren(`“${token}”: ${learned}. By step: ${shares.join(", ")}. `, smallCurve(probabilities));
  }

  togglePlay() {
    if (!this.playing) {
      this.playAll();
      return;
    }
    this.stopPlaying();
    this.turn++;
    this.job?.stop();
  }

  stopPlaying() {
    this.playing = null;
    this.play.textContent = "Play the training";
  }

  async playAll() {
    const playing = {};
    this.playing = playing;
    this.before = 0;
    this.play.textContent = "Stop";
    for (let index = 0; index < this.snapshots.length && this.playing === playing; index++) {
      this.slider.value = String(index);
      await this.show(index);
      if (index < this.snapshots.length - 1) await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
    if (this.playing === playing) this.stopPlaying();
  }
}
