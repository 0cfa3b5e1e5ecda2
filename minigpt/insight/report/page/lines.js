// A chart of lines as SVG. A pointer or the arrow keys read its values.

const PLOT_MARGIN = { top: 12, right: 14, bottom: 42, left: 58 };
const LABEL_WIDTH = 132; // of the names of levels beside a wide plot
const LABEL_HEIGHT = 15;
const UNIT_HEIGHT = 18; // of the unit above the plot
const MOST_MARKERS = 40;
const MARKERS = {
  circle: "M-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0z",
  square: "M-3.2-3.2h6.4v6.4h-6.4z",
  triangle: "M0-4.2L4 3.2H-4z",
  diamond: "M0-4.6L4.6 0L0 4.6L-4.6 0z",
};

class LineChart {
  // id: of the part that has the focus. name: of the chart.
  constructor(id, name, height) {
    this.height = height;
    this.name = name;
    this.plot = make("div", { class: "plot-area" });
    this.plot.style.setProperty("height", `${height}px`);
    this.slider = make("div", { class: "plot-slider", id, role: "slider", tabindex: "0", "aria-label": `Values: ${name}` });
    this.readout = make("p", { class: "readout" });
    this.key = make("ul", { class: "chart-key" });
    this.node = make("figure", { class: "line-chart", "aria-label": name }, make("div", { class: "plot-box" }, this.plot, this.slider), this.readout, this.key);
    this.width = 0;
    this.index = null;
    this.slider.addEventListener("pointermove", (event) => this.point(event));
    this.slider.addEventListener("pointerdown", (event) => this.point(event));
    this.slider.addEventListener("keydown", (event) => this.press(event));
    this.slider.addEventListener("focus", () => {
      if (this.index === null && this.slider.matches(":focus-visible")) this.show(this.stops.length - 1);
    });
    watchWidth(this.plot, (width) => {
      this.width = width;
      this.draw();
    });
  }

  // chart: {axis, unit, format, logarithmic, fromZero, ceiling, series, levels, marks, rings}, where series are
  // [{name, style, dash, marker, points: [{x, y, note}]}], levels [{name, value}], marks [{x}], rings [{x, y}].
  set(chart) {
    this.chart = { levels: [], marks: [], rings: [], ...chart };
    this.stops = Array.from(new Set(this.chart.series.flatMap(({ points }) => points.map(({ x }) => x)))).sort((a, b) => a - b);
    this.index = null;
    this.showHint();
    this.key.replaceChildren(...keyEntries(this.chart));
    if (this.width) this.draw();
  }

  showHint() {
    setAttribute(this.slider, "aria-valuemin", 0);
    setAttribute(this.slider, "aria-valuemax", Math.max(0, this.stops.length - 1));
    setAttribute(this.slider, "aria-valuenow", 0);
    setAttribute(this.slider, "aria-valuetext", "Use the arrow keys to read the values.");
    const hint = this.height >= 300 && make("span", { class: "faint" }, "Point at the chart, or use the arrow keys, to read its values.");
    this.readout.replaceChildren(...[hint].filter(Boolean));
  }

  draw() {
    const { chart, width, height } = this;
    const { axis, series, levels } = chart;
    const beside = levels.length > 0 && width >= 640;
    const right = PLOT_MARGIN.right + (beside ? LABEL_WIDTH : 0);
    this.frame = { left: PLOT_MARGIN.left, right: width - right, top: PLOT_MARGIN.top + (chart.unit ? UNIT_HEIGHT : 0), bottom: height - PLOT_MARGIN.bottom };
    const { left, top, bottom } = this.frame;
    const end = this.frame.right;
    const last = this.stops.at(-1) || 1;
    this.x = (value) => left + (value / last) * (end - left);
    const ceiling = chart.ceiling ?? Infinity;
    const values = [...series.flatMap(({ points }) => points.map(({ y }) => Math.min(y, ceiling))), ...levels.map(({ value }) => value)];
    const scale = valueScale(values, { ...chart, count: Math.max(3, Math.round(height / 50)) });
    this.y = (value) => bottom - Math.max(0, Math.min(1, scale.share(value))) * (bottom - top);
    const title = chart.unit ? `${this.name}, ${chart.unit}` : this.name;
    const svg = makeSvg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": describe(title, chart) });
    const line = (name, x1, y1, x2, y2) => makeSvg("line", { class: name, x1, y1, x2, y2 });
    const words = (text, x, y, anchor, name) => makeSvg("text", { x, y, "text-anchor": anchor, class: name }, text);
    for (const tick of scale.ticks) {
      svg.append(line("grid-line", left, this.y(tick), end, this.y(tick)), words(chart.format(tick, true), left - 8, this.y(tick) + 4, "end"));
    }
    for (const tick of axis.ticks(last, end - left < 420 ? 3 : 6)) {
      svg.append(line("tick", this.x(tick), bottom, this.x(tick), bottom + 4));
      svg.append(words(axis.label(tick), this.x(tick), bottom + 19, this.x(tick) > end - 20 ? "end" : "middle"));
    }
    svg.append(words(axis.name, (left + end) / 2, height - 4, "middle"));
    if (chart.unit) svg.append(words(title, 0, PLOT_MARGIN.top, "start"));
    for (const { x } of chart.marks) {
      const at = this.x(x).toFixed(1);
      svg.append(line("mark-line", at, top, at, bottom), makeSvg("path", { class: "mark", d: `M${at} ${bottom - 7}l5 7h-10z` }));
    }
    for (const one of series) svg.append(this.drawSeries(one));
    for (const { x, y } of chart.rings) svg.append(makeSvg("circle", { class: "ring", cx: this.x(x), cy: this.y(y), r: 7 }));
    this.drawLevels(svg, beside);
    this.cursor = makeSvg("g", { class: "cursor", "aria-hidden": "true" });
    svg.append(this.cursor);
    this.plot.replaceChildren(svg);
    if (this.index !== null) this.show(this.index);
  }

  drawSeries({ style, dash, marker, points }) {
    const group = makeSvg("g", { class: `series ${style}` });
    let part = [];
    const flush = () => {
      if (part.length > 1) group.append(makeSvg("polyline", { points: part.join(" "), "stroke-dasharray": dash }));
      part = [];
    };
    for (const { x, y } of points) {
      if (Number.isFinite(y)) part.push(`${this.x(x).toFixed(1)},${this.y(y).toFixed(1)}`);
      else flush();
    }
    flush();
    const known = points.filter(({ y }) => Number.isFinite(y));
    if (marker && (known.length <= MOST_MARKERS || known.length < 2)) {
      for (const { x, y } of known) group.append(this.marker(marker, x, y));
    } else if (marker) {
      // Some markers tell lines apart where colors do not.
      const distance = Math.ceil(known.length / 12);
      known.forEach(({ x, y }, at) => at % distance === 0 && group.append(this.marker(marker, x, y)));
    } else if (known.length === 1) group.append(this.marker("circle", known[0].x, known[0].y));
    return group;
  }

  marker(kind, x, y) {
    return makeSvg("path", { d: MARKERS[kind], transform: `translate(${this.x(x).toFixed(1)} ${this.y(y).toFixed(1)})` });
  }

  drawLevels(svg, beside) {
    const { left, right, top, bottom } = this.frame;
    const levels = this.chart.levels.map((level) => ({ ...level, at: this.y(level.value) })).sort((a, b) => a.at - b.at);
    const above = beside ? 0 : 8;
    const places = apart(levels.map(({ at }) => at - above), LABEL_HEIGHT, top + (beside ? 4 : 2), bottom - 4);
    levels.forEach(({ name, value, at }, index) => {
      const text = `${name} ${this.chart.format(value)}`;
      svg.append(makeSvg("line", { class: "baseline", x1: left, x2: right, y1: at, y2: at }));
      if (beside) {
        svg.append(makeSvg("path", { class: "leader", d: `M${right} ${at}L${right + 10} ${places[index]}` }));
        svg.append(makeSvg("text", { class: "level-name", x: right + 14, y: places[index] + 4 }, text));
      } else {
        svg.append(makeSvg("text", { class: "level-name chart-label", x: right - 4, y: places[index] + 4, "text-anchor": "end" }, text));
      }
    });
  }

  point(event) {
    if (!this.stops.length || !this.width) return;
    const place = event.clientX - this.plot.getBoundingClientRect().left;
    let best = 0;
    this.stops.forEach((stop, at) => {
      if (Math.abs(this.x(stop) - place) < Math.abs(this.x(this.stops[best]) - place)) best = at;
    });
    this.show(best);
  }

  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.stops.length) return;
    const last = this.stops.length - 1;
    const at = this.index ?? last;
    const page = Math.max(2, Math.round(last / 10));
    const moves = { ArrowRight: at + 1, ArrowUp: at + 1, ArrowLeft: at - 1, ArrowDown: at - 1, PageUp: at + page, PageDown: at - page, Home: 0, End: last };
    if (!(event.key in moves)) return;
    event.preventDefault();
    this.show(Math.max(0, Math.min(last, moves[event.key])));
  }

  // Shows the values at a stop: of every line the nearest point, and where it was measured if that is elsewhere.
  show(index) {
    this.index = index;
    const x = this.stops[index];
    const { axis, series, format } = this.chart;
    const found = series.map((one) => ({ one, point: nearest(one.points, x) })).filter(({ point }) => point);
    const words = found.map(({ one, point }) => {
      const notes = [point.note, point.x !== x && `${axis.short} ${axis.format(point.x)}`].filter(Boolean);
      return [one, `${format(point.y)}${notes.length ? ` (${notes.join(", ")})` : ""}`];
    });
    const place = axis === AXES.step ? `Step ${axis.format(x)}` : `After ${axis.format(x)}`;
    setAttribute(this.slider, "aria-valuenow", index);
    setAttribute(this.slider, "aria-valuetext", `${place}: ${words.map(([one, value]) => `${one.name} ${value}`).join(", ")}`);
    this.readout.replaceChildren(
      make("strong", {}, place),
      ...words.map(([one, value]) => make("span", { class: "value" }, lineSample(one), make("bdi", {}, one.name), " ", value)),
    );
    if (!this.cursor) return;
    const { top, bottom } = this.frame;
    this.cursor.replaceChildren(
      makeSvg("line", { x1: this.x(x), x2: this.x(x), y1: top, y2: bottom }),
      ...found.map(({ point }) => makeSvg("circle", { cx: this.x(point.x), cy: this.y(point.y), r: 4 })),
    );
  }
}

function nearest(points, x) {
  let best = null;
  for (const point of points) {
    if (Number.isFinite(point.y) && (!best || Math.abs(point.x - x) <= Math.abs(best.x - x))) best = point;
  }
  return best;
}

function keyEntries({ series, marks, rings, levels }) {
  const entries = series.map((one) => make("li", {}, lineSample(one), make("bdi", {}, one.name)));
  if (rings.length) entries.push(make("li", {}, sample(makeSvg("circle", { class: "ring", cx: 12, cy: 7, r: 5.5 })), rings[0].name));
  if (levels.length) entries.push(make("li", {}, sample(makeSvg("line", { class: "baseline", x1: 0, x2: 24, y1: 7, y2: 7 })), levels.length > 1 ? "baselines" : "baseline"));
  if (marks.length) entries.push(make("li", {}, sample(makeSvg("path", { class: "mark", d: "M12 2l5 9h-10z" })), marks[0].name));
  return entries;
}

function lineSample({ style, dash, marker }) {
  const group = makeSvg("g", { class: `series ${style}` }, makeSvg("polyline", { points: "0,7 24,7", "stroke-dasharray": dash }));
  if (marker) group.append(makeSvg("path", { d: MARKERS[marker], transform: "translate(12 7)" }));
  return sample(group);
}

function sample(content) {
  return makeSvg("svg", { class: "line-sample", viewBox: "0 0 24 14", width: 24, height: 14, "aria-hidden": "true" }, content);
}

function describe(name, { series, levels, format }) {
  const parts = series.map(({ name: line, points }) => {
    const known = points.filter(({ y }) => Number.isFinite(y));
    if (!known.length) return `${line}: no values.`;
    return `${line}: first ${format(known[0].y)}, last ${format(known.at(-1).y)}.`;
  });
  return [`${name}.`, ...parts, ...levels.map((level) => `${level.name}: ${format(level.value)}.`)].join(" ");
}
