// The parts of a model as a picture: rows are layers, columns are heads; the first column is the layer as a whole.

class PartGrid {
  // onPoint(part) follows the part that is pointed at or chosen: {layer, head}, head null for the whole layer; null for none.
  constructor({ layers, heads, name, onPoint }) {
    this.heads = heads;
    this.onPoint = onPoint;
    this.chosen = null; // a button
    this.stop = [0, 0]; // row and column that Tab reaches
    this.rows = Array.from({ length: layers }, (_, layer) =>
      [null, ...Array(heads).keys()].map((head) => this.button({ layer, head })),
    );
    const title = (text) => make("span", { class: "part-title", "aria-hidden": "true" }, text);
    const titles = ["", "Layer", ...Array.from({ length: heads }, (_, head) => `Head ${head + 1}`)];
    this.node = make(
      "div",
      { class: "parts", role: "group", "aria-label": name },
      ...titles.map(title),
      ...this.rows.flatMap((row, layer) => [title(String(layer + 1)), ...row]),
    );
    this.node.style.setProperty("--columns", String(heads + 1));
    this.node.addEventListener("pointerleave", () => this.onPoint(this.part));
    this.rows[0][0].tabIndex = 0;
  }

  // The chosen part.
  get part() {
    return this.chosen?.modelPart ?? null;
  }

  button(part) {
    const button = makeButton({ class: "part-button", tabindex: "-1", "aria-pressed": "false" }, () => this.choose(button));
    button.modelPart = part;
    button.addEventListener("keydown", (event) => this.key(event));
    button.addEventListener("focus", () => {
      this.moveStop(button);
      this.onPoint(part);
    });
    button.addEventListener("pointerenter", () => this.onPoint(part));
    return button;
  }

  // Chooses a part, or none if it is chosen already.
  choose(button) {
    this.chosen?.setAttribute("aria-pressed", "false");
    this.chosen = this.chosen === button ? null : button;
    this.chosen?.setAttribute("aria-pressed", "true");
    this.onPoint(this.part);
  }

  // describe(part) returns {shown, name, change}: what its square says, what a screen reader says, and the color of the square,
  // from -1 to 1.
  update(describe) {
    for (const button of this.rows.flat()) {
      const { shown, name, change } = describe(button.modelPart);
      button.textContent = shown;
      button.setAttribute("aria-label", name);
      button.title = name;
      button.classList.toggle("raises", change > 0);
      button.style.setProperty("--weight", Math.abs(change).toFixed(3));
    }
  }

  moveStop(button) {
    const { layer, head } = button.modelPart, [row, column] = this.stop;
    this.rows[row][column].tabIndex = -1;
    this.stop = [layer, head === null ? 0 : head + 1];
    button.tabIndex = 0;
  }

  key(event) {
    const [row, column] = this.stop;
    const moves = {
      ArrowRight: [row, column + 1],
      ArrowLeft: [row, column - 1],
      ArrowDown: [row + 1, column],
      ArrowUp: [row - 1, column],
      Home: [row, 0],
      End: [row, this.heads],
    };
    const [nextRow, nextColumn] = moves[event.key] ?? [];
    const next = this.rows[nextRow]?.[nextColumn];
    if (!next) return;
    event.preventDefault();
    next.focus();
  }
}

// "layer 2, head 3"
function partName({ layer, head }) {
  return head === null ? `layer ${layer + 1}` : `layer ${layer + 1}, head ${head + 1}`;
}

// A choice of parts that are switched off, as the options withoutHeads and withoutLayers.
const NOTHING_OFF = { withoutHeads: [], withoutLayers: [] };

function isOff({ withoutHeads, withoutLayers }, { layer, head }) {
  return withoutLayers.includes(layer) || withoutHeads.some(([ofLayer, ofHead]) => ofLayer === layer && ofHead === head);
}

// The same with a part switched over.
function withSwitched(off, { layer, head }) {
  const { withoutHeads, withoutLayers } = off;
  if (head === null) {
    const others = withoutLayers.filter((other) => other !== layer);
    return { withoutHeads, withoutLayers: others.length < withoutLayers.length ? others : [...others, layer].sort() };
  }
  const others = withoutHeads.filter(([ofLayer, ofHead]) => ofLayer !== layer || ofHead !== head);
  return { withoutHeads: others.length < withoutHeads.length ? others : [...others, [layer, head]].sort(), withoutLayers };
}

function partsOff({ withoutHeads, withoutLayers }) {
  return [...withoutLayers.map((layer) => ({ layer, head: null })), ...withoutHeads.map(([layer, head]) => ({ layer, head }))];
}
