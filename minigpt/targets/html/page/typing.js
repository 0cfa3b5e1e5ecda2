// Shows the tokens of a text one by one, at a pace that can be read. The model is usually far ahead.

const TOKENS_PER_SECOND = 25;

class Typing {
  // onShow(tokens) shows the next tokens; onEnd() follows the last token of a complete text; onStep() follows "One step";
  // onChange() follows a change of `isOn`.
  constructor({ onShow, onEnd, onStep, onChange }) {
    Object.assign(this, { onShow, onEnd, onStep, onChange });
    this.text = null; // {tokens, end}: what is being shown; null if nothing is
    byId("pause").addEventListener("click", () => this.pause(!this.isPaused));
    byId("step").addEventListener("click", () => this.step());
    byId("at-once").addEventListener("click", () => this.showAll());
  }

  // Whether tokens are held back.
  get isOn() {
    return this.text !== null && !this.isAtOnce;
  }

  // The tokens that the text has now are shown already.
  start(text) {
    this.stop();
    this.text = text;
    this.first = this.count = text.tokens.length;
    this.isAtOnce = prefersReducedMotion();
    if (!this.isAtOnce) this.timer = setInterval(() => !this.isPaused && this.show(1), 1000 / TOKENS_PER_SECOND);
    this.pause(false);
    this.onChange();
  }

  stop() {
    clearInterval(this.timer);
    this.text = null;
  }

  pause(isPaused) {
    this.isPaused = isPaused;
    byId("pause").textContent = isPaused ? "Go on" : "Pause";
  }

  step() {
    this.pause(true);
    this.show(1);
    this.onStep();
  }

  showAll() {
    if (!this.isOn) return;
    clearInterval(this.timer);
    this.isAtOnce = true;
    this.show(Infinity);
    this.onChange();
  }

  // The text has more tokens, or has ended.
  update() {
    if (this.text) this.show(this.isAtOnce ? Infinity : this.count === this.first && !this.isPaused ? 1 : 0);
  }

  show(count) {
    const { tokens, end } = this.text;
    const added = tokens.slice(this.count, this.count + count);
    this.count += added.length;
    if (added.length) this.onShow(added);
    if (end === null || this.count < tokens.length) return;
    this.stop();
    this.onEnd();
    this.onChange();
  }
}

function prefersReducedMotion() {
  return window.matchMedia("(prefers-reduced-motion: reduce)").matches;
}
