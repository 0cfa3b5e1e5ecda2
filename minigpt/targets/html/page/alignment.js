// The picture of a translation: which source tokens each target token looked at.

const CELL = 26; // pixels, as in the style

// Returns the function that draws it again in the colors of the page.
function showAlignment(figure, { source, target, weights }) {
  const canvas = make("canvas", {
    role: "img",
    "aria-label": "Attention of each target token (rows) to each source token (columns)",
  });
  const grid = make("div", { class: "alignment-grid" });
  grid.style.setProperty("--columns", String(source.length));
  grid.style.setProperty("--rows", String(target.length));
  const columns = make("div", { class: "alignment-columns", "aria-hidden": "true" });
  columns.append(...source.map((token) => tokenLabel(token.label)));
  const rows = make("div", { class: "alignment-rows", "aria-hidden": "true" });
  rows.append(...target.map((token) => tokenLabel(token.label)));
  grid.append(columns, rows, canvas);
  figure.replaceChildren(
    make("figcaption", {}, make("h3", {}, "Attention of the translation to the source")),
    make(
      "p",
      { class: "note" },
      "Rows are the tokens of the translation, columns the tokens of the source. The stronger the color of a cell, the more attention, " +
        "as a mean over all layers and heads. Each row has its own scale.",
    ),
    make("div", { class: "alignment-scroll", tabindex: "0", role: "group", "aria-label": "Alignment" }, grid),
    alignmentList(source, target, weights),
  );
  figure.hidden = false;
  const draw = () => drawAlignment(canvas, weights, target.length, source.length);
  draw();
  return draw;
}

function drawAlignment(canvas, weights, rows, columns) {
  const scale = window.devicePixelRatio;
  canvas.width = columns * CELL * scale;
  canvas.height = rows * CELL * scale;
  const context = canvas.getContext("2d");
  context.fillStyle = getComputedStyle(canvas).color;
  const cell = CELL * scale;
  for (let row = 0; row < rows; row++) {
    const largest = Math.max(...weights.subarray(row * columns, (row + 1) * columns), 1e-9);
    for (let column = 0; column < columns; column++) {
      context.globalAlpha = weights[row * columns + column] / largest;
      context.fillRect(column * cell, row * cell, cell - scale, cell - scale);
    }
  }
}

// The same in words.
function alignmentList(source, target, weights) {
  const body = make("tbody");
  target.forEach((token, row) => {
    const entries = source
      .map((from, column) => ({ token: from, weight: weights[row * source.length + column] }))
      .sort((one, other) => other.weight - one.weight)
      .slice(0, 3);
    body.append(
      make("tr", {}, make("th", { scope: "row" }, tokenLabel(token.label)), make("td", {}, weightedTokens(entries))),
    );
  });
  const head = make("tr", {}, make("th", { scope: "col" }, "Token"), make("th", { scope: "col" }, "Most attention"));
  return make(
    "details",
    {},
    make("summary", {}, "As a table"),
    make("table", { class: "table" }, make("thead", {}, head), body),
  );
}
