// The logit lens: the best guesses after each layer, as if the layer were the last one.

const LENS_COLUMN = 128, LENS_ROW = 30; // pixels

// lens: [{guesses: [{id, label, probability}], chosen}], layer 1 first. Returns a picture: columns are layers, rows are ranks, and
// lines join a token with itself in the next layer. The chosen token is below the others where it is not among them.
function lensPicture(lens, chosen) {
  const ranks = Math.max(...lens.map(({ guesses }) => guesses.length));
  const columns = lens.map(({ guesses, chosen: probability }) =>
    guesses.some(({ id }) => id === chosen.id) ? guesses : [...guesses, { ...chosen, probability, isBelow: true }],
  );
  const width = lens.length * LENS_COLUMN, height = (ranks + 2) * LENS_ROW;
  const y = (guess, rank) => LENS_ROW * ((guess.isBelow ? ranks + 0.4 : rank) + 1);
  const picture = makeSvg("svg", {
    class: "lens-picture",
    viewBox: `0 0 ${width} ${height}`,
    width,
    height,
    role: "img",
    "aria-label": `Probability of the chosen token by layer: ${lens.map((layer) => formatPercent(layer.chosen)).join(", ")}`,
  });
  const places = columns.map((guesses) => new Map(guesses.map((guess, rank) => [guess.id, y(guess, rank)])));
  columns.forEach((guesses, layer) => {
    const left = layer * LENS_COLUMN;
    picture.append(makeSvg("text", { class: "faint", x: left + 4, y: 14 }, `Layer ${layer + 1}`));
    for (const { id } of guesses) {
      const from = places[layer].get(id), to = places[layer + 1]?.get(id);
      if (to === undefined) continue;
      const [x1, x2] = [left + LENS_COLUMN - 18, left + LENS_COLUMN];
      const d = `M${x1} ${from + 4}C${x1 + 9} ${from + 4} ${x2 - 9} ${to + 4} ${x2} ${to + 4}`;
      picture.append(makeSvg("path", { class: id === chosen.id ? "chosen" : null, d }));
    }
    guesses.forEach((guess, rank) => picture.append(lensCell(guess, left, y(guess, rank), guess.id === chosen.id)));
  });
  return picture;
}

function lensCell({ label, probability }, left, top, isChosen) {
  const width = LENS_COLUMN - 18, text = readable(label), shown = text.length > 8 ? `${Array.from(text).slice(0, 7).join("")}…` : text;
  const cell = makeSvg(
    "g",
    { class: isChosen ? "chosen" : null },
    makeSvg("title", {}, `${text} ${formatPercent(probability)}`),
    makeSvg("rect", { x: left, y: top - 9, width, height: LENS_ROW - 4, rx: 3 }),
    makeSvg("text", { class: "label", x: left + 5, y: top + 8 }, shown),
    makeSvg("text", { x: left + width - 4, y: top + 8, "text-anchor": "end" }, formatPercent(probability)),
  );
  cell.style.setProperty("--weight", probability.toFixed(3));
  return cell;
}

// The same in words. Returns a table.
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
  return make(
    "td",
    { class: chosen ? "guess chosen" : "guess", title: `${readable(guess.label)} ${formatPercent(guess.probability)}` },
    tokenLabel(guess.label),
    hiddenText(", "),
    make("span", { class: "number" }, formatPercent(guess.probability)),
    chosen ? hiddenText(", the chosen token") : null,
  );
}
