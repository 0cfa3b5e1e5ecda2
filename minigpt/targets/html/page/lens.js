// The logit lens: the best guesses after each layer, as if the layer were the last one.

// lens: [{guesses: [{id, label, probability}], chosen}], layer 1 first. Returns a table.
function lensTable(lens, chosen) {
  const count = Math.max(...lens.map(({ guesses }) => guesses.length));
  const head = make(
    "tr",
    {},
    make("th", { scope: "col" }, "Layer"),
    make("th", { scope: "colgroup", colspan: count }, "Best guesses, the best first"),
    make("th", { scope: "col", class: "lens-chosen" }, tokenLabel(chosen.label)),
  );
  const body = make("tbody");
  lens.forEach((layer, at) => {
    const row = make("tr", {}, make("th", { scope: "row" }, String(at + 1)));
    for (const guess of layer.guesses) row.append(guessCell(guess, guess.id === chosen.id));
    row.append(make("td", { class: "lens-chosen number" }, formatPercent(layer.chosen)));
    body.append(row);
  });
  return make(
    "table",
    { class: "lens" },
    make("caption", { class: "visually-hidden" }, "The five most probable tokens after each layer"),
    make("thead", {}, head),
    body,
  );
}

function guessCell(guess, chosen) {
  const cell = make(
    "td",
    { class: chosen ? "guess chosen" : "guess", title: `${readable(guess.label)} ${formatPercent(guess.probability)}` },
    tokenLabel(guess.label),
    hiddenText(", "),
    make("span", { class: "number" }, formatPercent(guess.probability)),
    chosen ? hiddenText(", the chosen token") : null,
  );
  cell.style.setProperty("--weight", Math.sqrt(guess.probability).toFixed(3));
  return cell;
}
