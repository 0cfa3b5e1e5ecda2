// The alternatives of a token: up to ten tokens with their probabilities as bars; one of them continues the text.

class AlternativesView {
  // onChoose(alternative) continues with it; null where a text cannot be continued.
  constructor(box, onChoose) {
    this.box = box;
    this.onChoose = onChoose;
  }

  // isPrompt: a token of the prompt is not drawn, and nothing continues from it.
  show(token, isPrompt = false) {
    const listed = token.alternatives.some((alternative) => alternative.id === token.id);
    this.token = token;
    this.tokens = listed ? token.alternatives : [...token.alternatives, token];
    const rest = 1 - this.tokens.reduce((sum, { probability }) => sum + probability, 0);
    this.rows = this.tokens.map((row) => this.row(row, row.id === token.id, isPrompt));
    const list = make("ul", { class: "alternatives" }, ...this.rows.map((row) => make("li", {}, row)));
    if (rest > 0.00005) list.append(make("li", {}, restRow(rest)));
    const bits = isPrompt ? ` The token of the prompt surprises it by ${(-Math.log2(token.probability)).toFixed(1)} bits.` : "";
    this.note = make("p", { class: "note" }, `What the model predicts here.${bits} ${this.signs(isPrompt)}`);
    this.line = make("div", { class: "draw", hidden: true });
    this.box.replaceChildren(this.note, list, this.line);
  }

  // The first token of a prompt.
  showFirst() {
    this.tokens = [];
    this.box.replaceChildren(make("p", { class: "note" }, "The model reads this token first. It has predicted nothing before."));
  }

  signs(isPrompt = false) {
    return `· is a space, ↵ a line break.${this.onChoose && !isPrompt ? " Choose a token to continue from it." : ""}`;
  }

  // Adds what the token was drawn from. draw: see `Engine.describeDraw`; its places are those of `tokens`.
  showDraw({ drawn, places }, isGreedy) {
    this.note.textContent =
      "Pale: what the model predicts. Solid: what the token is drawn from, after temperature, top-k and the other settings; what they " +
      `cut is struck through. ${this.signs()}`;
    this.rows.forEach((row, at) => {
      const { share } = places[at];
      row.classList.toggle("cut", share === 0);
      row.querySelector(".bars").style.setProperty("--drawn", String(share));
      row.querySelector(".drawn").textContent = share === 0 ? "–" : formatPercent(share);
      row.querySelector(".said").textContent = share === 0 ? ", cut" : ", drawn from ";
    });
    const at = places.findIndex(({ start, share }) => drawn >= start && drawn < start + share);
    const found = this.tokens[isGreedy ? places.findIndex(({ share }) => share > 0) : at];
    const parts = places.map(({ start, share }, part) => {
      const node = make("span", { class: this.tokens[part].id === this.token.id ? "chosen" : null });
      node.style.setProperty("--start", String(start));
      node.style.setProperty("--share", String(share));
      return node;
    });
    const mark = isGreedy ? null : make("i", {});
    mark?.style.setProperty("--start", String(drawn));
    const how = isGreedy ? "The most probable token is taken: " : `The seed draws ${drawn.toFixed(2)}, which falls on `;
    const other = this.token.picked ? " You chose another one." : " The text was written with other settings or weights.";
    this.line.replaceChildren(
      make(
        "p",
        { class: "note" },
        how,
        found ? tokenLabel(found.label) : "a token that is not listed",
        found?.id === this.token.id ? "." : `.${other}`,
      ),
      make("div", { class: "draw-line", "aria-hidden": "true" }, ...parts, mark),
    );
    this.line.hidden = false;
  }

  row(token, chosen, isPrompt) {
    const ends = token.label === "<end>" && token.text === "";
    const contents = [
      ends ? make("span", {}, tokenLabel(token.label), " ends the text") : tokenLabel(token.label),
      probabilityBars(token.probability),
      hiddenText(", "),
      make("span", { class: "number" }, formatPercent(token.probability)),
      make("span", { class: "visually-hidden said" }),
      make("span", { class: "number drawn" }),
    ];
    if (chosen) {
      return make("div", { class: "alternative chosen" }, ...contents, hiddenText(", in the text"));
    }
    if (!this.onChoose || ends || isPrompt) {
      return make("div", { class: "alternative" }, ...contents);
    }
    return makeButton({ class: "alternative" }, () => this.onChoose(token), hiddenText("Continue with "), ...contents);
  }

  focus() {
    const button = this.box.querySelector("button");
    button?.focus();
    return Boolean(button);
  }
}

// A pale bar for the probability; the solid one over it is `--drawn`.
function probabilityBars(share) {
  const bars = make("span", { class: "bars", "aria-hidden": "true" });
  bars.style.setProperty("--share", String(Math.max(0, Math.min(1, share))));
  return bars;
}

function restRow(rest) {
  return make(
    "div",
    { class: "alternative rest" },
    make("span", { class: "label" }, "all other tokens"),
    probabilityBars(rest),
    make("span", { class: "number" }, formatPercent(rest)),
  );
}
