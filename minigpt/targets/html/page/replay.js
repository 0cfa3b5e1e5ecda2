// "Epochs": the same prompt and seed, written by the model of each epoch.

const PAUSE_MS = 900; // between two epochs of "Play"

class Replay {
  // request(): the prompt and the settings of the form.
  constructor(client, facts, request) {
    this.client = client;
    this.epochs = facts.epochs;
    this.request = request;
    this.texts = new Map(); // the request and the epoch → its text
    this.job = null;
    this.before = this.epochs[0].epoch; // the epoch that was shown before
    this.playing = null; // one object for each run of "Play"
    this.turn = 0;
    this.build(facts);
  }

  build(facts) {
    const last = this.epochs.length - 1;
    this.slider = make("input", { type: "range", id: "epoch", min: 0, max: last, step: 1, value: 0 });
    this.name = make("output", { for: "epoch", class: "epoch-name" });
    this.loss = make("dl", { class: "epoch-facts" });
    this.play = makeButton({ class: "primary" }, () => this.togglePlay(), "Play all epochs");
    this.statusNode = make("span", { class: "status", role: "status", "aria-live": "polite" });
    this.status = new StatusLine(this.statusNode);
    this.prompt = make("span", { class: "prompt" });
    this.text = make("span", {});
    this.curve = facts.epochs.every((epoch) => epoch.val_loss !== null) ? make("div", { class: "epoch-curve" }) : null;
    this.slider.addEventListener("input", () => {
      this.stopPlaying();
      this.show(Number(this.slider.value));
    });
    byId("replay").append(
      make(
        "div",
        { class: "replay-controls" },
        make("div", { class: "actions" }, this.play, this.statusNode),
        make("div", { class: "slider" }, make("label", { for: "epoch" }, "Epoch"), this.slider, this.name),
      ),
      make("div", { class: "sheet" }, make("p", { class: "text", dir: "auto" }, this.prompt, this.text)),
      make("div", { class: "replay-side" }, this.curve, this.loss),
    );
    if (this.curve) watchWidth(this.curve, (width) => this.drawCurve(width));
    this.describe(0);
    this.text.textContent = "";
    this.prompt.textContent = "Play all epochs, or choose one with the slider.";
    this.prompt.classList.add("empty");
  }

  drawCurve(width) {
    epochCurve(this.curve, this.epochs, width, Number(this.slider.value));
  }

  describe(index) {
    const epoch = this.epochs[index];
    this.name.textContent = `${epoch.epoch} of ${this.epochs.at(-1).epoch}`;
    this.slider.setAttribute("aria-valuetext", `Epoch ${epoch.epoch}`);
    const facts = [];
    if (epoch.val_loss !== null) facts.push(["Validation loss", `${epoch.val_loss.toFixed(3)} nats per token`]);
    if (epoch.val_bits_per_byte != null) facts.push(["Bits per byte", epoch.val_bits_per_byte.toFixed(3)]);
    this.loss.replaceChildren(
      ...facts.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))),
    );
    if (this.curve) markEpoch(this.curve, index);
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
    const epoch = this.epochs[index].epoch;
    const key = JSON.stringify(request);
    this.prompt.classList.remove("empty");
    this.prompt.textContent = endOfText(request.prompt, SHOWN_PROMPT);
    try {
      // The epoch that was shown before, written for this prompt and these settings.
      let before = null;
      if (this.before !== epoch)
        before = { epoch: this.before, text: await this.write(turn, request, this.before, key) };
      const text = await this.write(turn, request, epoch, key);
      if (turn !== this.turn) return;
      this.showChanges(before, text, epoch);
      this.before = epoch;
    } catch (error) {
      this.stopPlaying();
      if (turn === this.turn) showError(error);
    }
  }

  // The text of an epoch; it is written once for a request.
  async write(turn, { prompt, settings }, epoch, key) {
    const name = `${epoch} ${key}`;
    if (this.texts.has(name) || turn !== this.turn) return this.texts.get(name) ?? "";
    this.job?.stop();
    this.text.textContent = "";
    const job = this.client.generate({
      ...settings,
      prompt,
      model: epoch,
      onTokens: (tokens) => {
        if (turn === this.turn) this.text.append(tokens.map((token) => token.text).join(""));
      },
    });
    this.job = job;
    const result = await job.done;
    if (result.end !== "stopped") this.texts.set(name, result.text);
    return result.text;
  }

  showChanges(before, text, epoch) {
    if (!before) {
      this.text.textContent = text;
      this.status.say(`Epoch ${epoch}`);
      return;
    }
    const parts = changedParts(before.text, text);
    this.text.replaceChildren(...parts.map((part) => (part.changed ? make("ins", {}, part.text) : part.text)));
    const count = countChanged(parts);
    this.status.say(
      `Epoch ${epoch}: ${count === 0 ? "no word" : formatCount(count, "word")} changed from epoch ${before.epoch}`,
    );
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
    this.play.textContent = "Play all epochs";
  }

  async playAll() {
    const playing = {};
    this.playing = playing;
    this.before = this.epochs[0].epoch;
    this.play.textContent = "Stop";
    for (let index = 0; index < this.epochs.length && this.playing === playing; index++) {
      this.slider.value = String(index);
      await this.show(index);
      if (index < this.epochs.length - 1) await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
    if (this.playing === playing) this.stopPlaying();
  }
}
