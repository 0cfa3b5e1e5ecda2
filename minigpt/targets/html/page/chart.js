// Training curves as SVG.

const CHART_HEIGHT = 300;
const CHART_MARGIN = { top: 14, right: 12, bottom: 40, left: 46 };

// Bits per byte = loss × factor where the file knows the number of bytes; else nats per token.
function lossUnit(metrics) {
  const known = metrics.findLast((record) => record.val_bits_per_byte != null && record.val_loss > 0);
  return known
    ? { factor: known.val_bits_per_byte / known.val_loss, name: "bits per byte" }
    : { factor: 1, name: "nats per token" };
}

// What the chart shows: {unit, lines: [{name, points: [{step, value}]}], baselines: [{name, value}]}.
function lossSeries(facts) {
  const { metrics, baselines, curve } = facts, unit = lossUnit(metrics);
  const line = (name, key) => ({
    name,
    key,
    points: metrics
      .filter((record) => Number.isFinite(record[key]) && record.step != null)
      .map((record) => ({ step: record.step, value: record[key] * unit.factor })),
  });
  const training = line("Training", "train_loss");
  // One epoch is a point; its steps are a line.
  if (training.points.length === 1 && curve.length > 1) training.points = curve.map(({ step, loss }) => ({ step, value: loss * unit.factor }));
  const lines = [training, line("Validation", "val_loss")].filter(({ points }) => points.length);
  const levels = baselines
    ? [
        { name: "Uniform guessing", loss: baselines.uniform },
        { name: "Token frequencies", loss: baselines.unigram },
      ]
        .filter(({ loss }) => Number.isFinite(loss))
        .map(({ name, loss }) => ({ name, value: loss * unit.factor }))
    : [];
  const best = unit.factor !== 1 && bestBaseline(facts);
  return { unit, lines, baselines: best ? [...levels, best] : levels };
}

function seriesValues({ lines, baselines }) {
  return [...lines.flatMap(({ points }) => points), ...baselines].map(({ value }) => value);
}

// With a linear scale the curves of a good model would be flat below its baselines.
function isLogarithmic(series) {
  const values = seriesValues(series);
  return Math.min(...values) > 0 && Math.max(...values) > 4 * Math.min(...values);
}

// {place(value) → pixels from the top, ticks}
function verticalScale(series, top, height) {
  const values = seriesValues(series);
  const largest = Math.max(...values) * 1.08;
  if (!isLogarithmic(series)) {
    return { place: (value) => top + (1 - value / largest) * height, ticks: niceTicks(largest, 5) };
  }
  const least = Math.min(...values) / 1.05;
  const smallest = logarithmicTicks(least / 5, least).at(-1);
  const range = Math.log(largest * 1.1) - Math.log(smallest);
  return {
    place: (value) => top + ((Math.log(largest * 1.1) - Math.log(value)) / range) * height,
    ticks: logarithmicTicks(smallest, largest * 1.1),
  };
}

// The chart at a width in pixels.
function lossChart(series, width) {
  const { top, right, bottom, left } = CHART_MARGIN;
  const { place: y, ticks } = verticalScale(series, top, CHART_HEIGHT - top - bottom);
  const lastStep = Math.max(...series.lines.flatMap(({ points }) => points.map(({ step }) => step)), 1);
  const x = (step) => left + (step / lastStep) * (width - left - right);
  const text = (at, words, attributes) => makeSvg("text", { y: at, ...attributes }, words);
  const level = (value, name) =>
    makeSvg("line", { class: name, x1: left, x2: width - right, y1: y(value), y2: y(value) });
  const chart = makeSvg("svg", {
    class: "chart",
    viewBox: `0 0 ${width} ${CHART_HEIGHT}`,
    width,
    height: CHART_HEIGHT,
    role: "img",
    "aria-label": describeChart(series),
  });
  for (const tick of ticks) {
    chart.append(level(tick, "grid-line"), text(y(tick) + 4, String(tick), { x: left - 8, "text-anchor": "end" }));
  }
  for (const tick of niceTicks(lastStep, width < 480 ? 3 : 6)) {
    const anchor = x(tick) > width - right - 20 ? "end" : "middle";
    chart.append(text(CHART_HEIGHT - bottom + 18, formatInteger(tick), { x: x(tick), "text-anchor": anchor }));
  }
  chart.append(text(CHART_HEIGHT - 4, "Training step", { x: (left + width - right) / 2, "text-anchor": "middle" }));
  for (const line of series.lines) chart.append(chartLine(line, x, y));
  for (const { name, value } of series.baselines) {
    const label = text(y(value) - 6, `${name} ${value.toFixed(2)}`, { class: "chart-label", x: width - right, "text-anchor": "end" });
    chart.append(level(value, "baseline"), label);
  }
  return chart;
}

function chartLine({ key, points }, x, y) {
  const places = points.map(({ step, value }) => `${x(step).toFixed(1)},${y(value).toFixed(1)}`);
  const group = makeSvg("g", { class: `line ${key}` }, makeSvg("polyline", { points: places.join(" ") }));
  if (points.length <= 40) {
    for (const { step, value } of points) group.append(makeSvg("circle", { cx: x(step), cy: y(value), r: 3 }));
  }
  return group;
}

function describeChart({ unit, lines, baselines }) {
  const parts = lines.map(({ name, points }) => {
    const [first, last] = [points[0], points.at(-1)];
    return `${name} loss: ${first.value.toFixed(2)} at step ${first.step}, ${last.value.toFixed(2)} at step ${last.step}.`;
  });
  parts.push(...baselines.map(({ name, value }) => `${name}: ${value.toFixed(2)}.`));
  return `Loss in ${unit.name}. ${parts.join(" ")}`;
}

function chartKey(series) {
  const list = make("ul", { class: "chart-key" });
  for (const { name, key, points } of series.lines) {
    list.append(
      make(
        "li",
        {},
        make("span", { class: `key ${key}`, "aria-hidden": "true" }),
        `${name} loss, last ${points.at(-1).value.toFixed(3)}`,
      ),
    );
  }
  return list;
}

// The training loss by step, on logarithmic scales, with a point for each state of training in the page.
function snapshotCurve(box, { curve, snapshots }, width, current) {
  const height = 198, left = 44, bottom = 34, top = 28;
  const labels = snapshots.map(({ step }) => formatInteger(step));
  const right = 8 + 4 * labels.at(-1).length; // half of the last label
  const losses = curve.map(({ loss }) => loss);
  const [low, high] = [Math.min(...losses), Math.max(...losses)].map(Math.log);
  const last = Math.log(1 + snapshots.at(-1).step);
  const x = (step) => left + (Math.log(1 + step) / last) * (width - left - right);
  const y = (loss) => top + ((high - Math.log(loss)) / (high - low || 1)) * (height - top - bottom);
  // The loss of the nearest record.
  const lossAt = (step) => curve.reduce((a, b) => (Math.abs(b.step - step) < Math.abs(a.step - step) ? b : a)).loss;
  const chart = makeSvg("svg", {
    viewBox: `0 0 ${width} ${height}`,
    width,
    height,
    role: "img",
    "aria-label": `Training loss from ${losses[0].toFixed(2)} to ${losses.at(-1).toFixed(2)} nats per token`,
  });
  for (const loss of [losses[0], losses.at(-1)]) {
    chart.append(makeSvg("text", { x: left - 10, y: y(loss) + 4, "text-anchor": "end" }, loss.toFixed(2)));
  }
  chart.append(makeSvg("text", { x: 2, y: 12 }, "Training loss in nats per token"));
  let free = Infinity; // where the label before may end: the last one is always there
  for (const [at, label] of [...labels.entries()].reverse()) {
    const middle = x(snapshots[at].step), half = 4 + 4 * label.length;
    if (middle + half > free) continue;
    chart.append(makeSvg("text", { x: middle, y: height - 18, "text-anchor": "middle" }, label));
    free = middle - half;
  }
  chart.append(makeSvg("text", { x: (left + width) / 2, y: height - 3, "text-anchor": "middle" }, "Training step"));
  // A step records the loss before its update: that of step 1 is the loss of step 0.
  const first = { step: Math.min(snapshots[0].step, curve[0].step), loss: curve[0].loss };
  const places = [first, ...curve].map(({ step, loss }) => `${x(step).toFixed(1)},${y(loss).toFixed(1)}`);
  chart.append(makeSvg("polyline", { points: places.join(" ") }));
  for (const { step } of snapshots) {
    const loss = lossAt(step);
    const title = makeSvg("title", {}, `Step ${formatInteger(step)}: ${loss.toFixed(3)} nats per token`);
    chart.append(makeSvg("circle", { cx: x(step), cy: y(loss), r: 3.5 }, title));
  }
  box.replaceChildren(chart);
  markSnapshot(box, current);
}

function markSnapshot(box, current) {
  box.querySelectorAll("circle").forEach((circle, at) => {
    circle.classList.toggle("current", at === current);
    circle.setAttribute("r", at === current ? 6 : 3.5);
  });
}

// The probability of a token in each state of training, or the loss after each step as a share of the largest one, as a small chart.
function smallCurve(probabilities) {
  const width = 160, height = 40;
  const x = (at) => 2 + (at / (probabilities.length - 1)) * (width - 4);
  const places = probabilities.map((p, at) => `${x(at).toFixed(1)},${(2 + (1 - p) * (height - 4)).toFixed(1)}`);
  return makeSvg(
    "svg",
    { class: "probability-curve", viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" },
    makeSvg("line", { x1: 0, x2: width, y1: height / 2, y2: height / 2 }),
    makeSvg("polyline", { points: places.join(" ") }),
  );
}
