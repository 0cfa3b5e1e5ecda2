// The attention of every head as a small picture: rows are layers, columns are heads, and each picture is a toggle.

class HeadGrid {
  // onChange() follows the choice of heads.
  constructor({ layers, heads, name, onChange }) {
    this.layers = layers;
    this.heads = heads;
    this.name = name;
    this.onChange = onChange;
    this.selected = new Set();
    this.attention = new Float32Array(0);
    this.length = 0;
    this.stop = [0, 0]; // row and column that Tab reaches; column 0 is the layer's own button
    this.rows = [];
    this.node = this.build();
    watchWidth(this.node, () => this.draw());
    watchColors(() => this.draw());
  }

  build() {
    const grid = make("div", { class: "heads", role: "group", "aria-label": this.name });
    grid.style.setProperty("--heads", String(this.heads));
    for (let layer = 0; layer < this.layers; layer++) {
      const ofLayer = makeButton({ class: "layer-button" }, () => this.toggleLayer(layer), String(layer + 1));
      nameButton(ofLayer, `Layer ${layer + 1}, all heads`);
      const buttons = [ofLayer];
      for (let head = 0; head < this.heads; head++) {
        const button = makeButton({ class: "head-button" }, () => this.toggle(layer, head));
        button.append(make("canvas", { "aria-hidden": "true" }));
        buttons.push(button);
      }
      buttons.forEach((button, column) => {
        button.tabIndex = layer === 0 && column === 0 ? 0 : -1;
        button.setAttribute("aria-pressed", "false");
        button.addEventListener("keydown", (event) => this.key(event, layer, column));
        button.addEventListener("focus", () => this.moveStop(layer, column));
      });
      this.rows.push(buttons);
      grid.append(...buttons);
    }
    return grid;
  }

  // attention: Float32Array of layers × heads × tokens.
  update(attention, tokens) {
    this.attention = attention;
    this.length = tokens.length;
    this.rows.forEach((buttons, layer) =>
      buttons.slice(1).forEach((button, head) => {
        const weights = this.weights(layer, head);
        const most = weights.indexOf(Math.max(...weights));
        const name = `Layer ${layer + 1}, head ${head + 1}`;
        nameButton(button, `${name}: most attention to “${spoken(tokens[most].label)}”, ${formatPercent(weights[most])}`);
      }),
    );
    this.draw();
  }

  weights(layer, head) {
    const start = (layer * this.heads + head) * this.length;
    return this.attention.subarray(start, start + this.length);
  }

  toggle(layer, head) {
    const index = layer * this.heads + head;
    if (!this.selected.delete(index)) this.selected.add(index);
    this.changed();
  }

  toggleLayer(layer) {
    const indices = Array.from({ length: this.heads }, (_, head) => layer * this.heads + head);
    const all = indices.every((index) => this.selected.has(index));
    for (const index of indices) {
      if (all) this.selected.delete(index);
      else this.selected.add(index);
    }
    this.changed();
  }

  clear() {
    this.selected.clear();
    this.changed();
  }

  changed() {
    this.rows.forEach((buttons, layer) => {
      const pressed = buttons.slice(1).map((_, head) => this.selected.has(layer * this.heads + head));
      pressed.forEach((value, head) => buttons[head + 1].setAttribute("aria-pressed", String(value)));
      buttons[0].setAttribute("aria-pressed", String(pressed.every(Boolean)));
    });
    this.onChange();
  }

  // The mean of the chosen heads over the positions, or of all heads if none is chosen.
  mean() {
    const chosen = this.selected.size
      ? [...this.selected]
      : Array.from({ length: this.layers * this.heads }, (_, at) => at);
    const mean = new Float32Array(this.length);
    for (const index of chosen) {
      for (let at = 0; at < this.length; at++) mean[at] += this.attention[index * this.length + at] / chosen.length;
    }
    return mean;
  }

  description() {
    const count = this.selected.size;
    if (count === 0) return "the mean of all heads";
    if (count > 1) return `the mean of ${count} chosen heads`;
    const [index] = this.selected;
    return `layer ${Math.floor(index / this.heads) + 1}, head ${(index % this.heads) + 1}`;
  }

  draw() {
    if (!this.length || !this.node.isConnected) return;
    const first = this.rows[0][1].firstElementChild;
    const width = Math.round(first.clientWidth * window.devicePixelRatio);
    const height = Math.round(first.clientHeight * window.devicePixelRatio);
    if (!width || !height) return;
    const color = getComputedStyle(first).color;
    this.rows.forEach((buttons, layer) =>
      buttons.slice(1).forEach((button, head) => {
        drawBars(button.firstElementChild, this.weights(layer, head), width, height, color);
      }),
    );
  }

  moveStop(row, column) {
    const [oldRow, oldColumn] = this.stop;
    this.rows[oldRow][oldColumn].tabIndex = -1;
    this.stop = [row, column];
    this.rows[row][column].tabIndex = 0;
  }

  key(event, row, column) {
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

function nameButton(button, name) {
  button.setAttribute("aria-label", name);
  button.title = name;
}

// Bars from the first position at the left to the last at the right. The largest weight has the full height; the height
// is the square root of the weight, so that small weights can be seen. With more positions than pixels, a bar is the
// largest of its positions.
function drawBars(canvas, weights, width, height, color) {
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d");
  context.clearRect(0, 0, width, height);
  context.fillStyle = color;
  const bars = Math.min(weights.length, Math.max(1, Math.floor(width / 2)));
  const gap = width / bars >= 4 ? 1 : 0;
  const largest = weights.reduce((max, weight) => Math.max(max, weight), 1e-9);
  for (let bar = 0; bar < bars; bar++) {
    const from = Math.floor((bar * weights.length) / bars);
    const to = Math.max(from + 1, Math.floor(((bar + 1) * weights.length) / bars));
    let weight = 0;
    for (let at = from; at < to; at++) weight = Math.max(weight, weights[at]);
    const left = Math.round((bar * width) / bars);
    const right = Math.round(((bar + 1) * width) / bars) - gap;
    const size = Math.round(Math.sqrt(weight / largest) * height);
    context.fillRect(left, height - size, Math.max(1, right - left), size);
  }
}
