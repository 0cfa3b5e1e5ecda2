// The alternatives of a token: up to ten tokens with their probabilities as bars; one of them continues the text.

class AlternativesView {
  // onChoose(alternative) continues with it; null where a text cannot be continued.
  constructor(box, onChoose) {
    this.box = box;
    this.onChoose = onChoose;
  }

  show(token) {
    const listed = token.alternatives.some((alternative) => alternative.id === token.id);
    const rows = token.alternatives.map((alternative, rank) => ({ ...alternative, rank: rank + 1 }));
    if (!listed) rows.push({ ...token, rank: null });
    const rest = 1 - rows.reduce((sum, row) => sum + row.probability, 0);
    const list = make("ul", { class: "alternatives" });
    for (const row of rows) list.append(make("li", {}, this.row(row, row.id === token.id)));
    if (rest > 0.00005) list.append(make("li", {}, restRow(rest)));
    this.box.replaceChildren(make("p", { class: "note" }, this.explanation()), list);
  }

  explanation() {
    const meaning = "What the model predicts here, before temperature and limits change it. · is a space, ↵ a line break.";
    return this.onChoose ? `${meaning} Choose a token to continue from it.` : meaning;
  }

  row(token, chosen) {
    const ends = token.label === "<end>" && token.text === "";
    const contents = [
      ends ? make("span", {}, tokenLabel(token.label), " ends the text") : tokenLabel(token.label),
      probabilityBar(token.probability),
      hiddenText(", "),
      make("span", { class: "number" }, formatPercent(token.probability)),
    ];
    if (chosen) {
      return make("div", { class: "alternative chosen" }, ...contents, hiddenText(", in the text"));
    }
    if (!this.onChoose || ends) {
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

function probabilityBar(share) {
  const bar = make("span", { class: "bar", "aria-hidden": "true" });
  bar.style.setProperty("--share", String(Math.max(0, Math.min(1, share))));
  return bar;
}

function restRow(rest) {
  return make(
    "div",
    { class: "alternative rest" },
    make("span", { class: "label" }, "all other tokens"),
    probabilityBar(rest),
    make("span", { class: "number" }, formatPercent(rest)),
  );
}
