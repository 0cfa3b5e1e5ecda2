// Shades the written text by what the model attended to when it chose a token. Tokens that it did not read are faint.

class ReadingView {
  // box: the text. prompt: the element of the prompt in it. spans(): the elements of the written tokens.
  constructor({ box, prompt, spans }) {
    this.box = box;
    this.prompt = prompt;
    this.spans = spans;
    this.shown = null; // the prompt as it was before
    this.context = null;
  }

  // context: the tokens that were read; the last `index` of them are written tokens. weights: one for each.
  show(context, weights, index) {
    if (this.shown === null) this.shown = this.prompt.textContent;
    const largest = weights.reduce((max, weight) => Math.max(max, weight), 1e-9);
    const shares = Array.from(weights, (weight) => Math.sqrt(weight / largest));
    const ofPrompt = Math.max(0, context.length - index);
    if (this.context !== context) this.showPrompt(context.slice(0, ofPrompt));
    this.context = context;
    this.promptSpans.forEach((span, at) => setShare(span, shares[at]));
    const skipped = index + ofPrompt - context.length; // written tokens before the context
    this.spans().forEach((span, at) =>
      setShare(span, at < index && at >= skipped ? shares[ofPrompt + at - skipped] : null),
    );
    setAttribute(this.box, "data-inside", true);
  }

  // The tokens of the prompt take the place of its end. What comes before them was not read.
  showPrompt(tokens) {
    const text = tokens.map((token) => token.text).join("");
    const before = this.shown.endsWith(text) ? this.shown.slice(0, this.shown.length - text.length) : "";
    this.promptSpans = tokens.map(shadeSpan);
    this.prompt.replaceChildren(before, ...this.promptSpans);
  }

  hide() {
    if (this.shown === null) return;
    this.prompt.textContent = this.shown;
    this.spans().forEach((span) => setShare(span, 0));
    this.box.removeAttribute("data-inside");
    this.shown = null;
    this.context = null;
  }
}

function setShare(span, share) {
  span.classList.toggle("unread", share === null);
  span.style.setProperty("--weight", (share ?? 0).toFixed(3));
}
