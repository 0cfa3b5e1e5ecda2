// "Losses" and the smaller charts below it.

const LOSS_HEIGHT = 380;
const SMALL_HEIGHT = 190;
const OVERVIEW_HEIGHT = 220;
// If training diverges, losses above this multiple of the worst baseline would hide all others.
const CEILING = 3;

function lossesSection(run) {
  const unit = unitOf(run);
  if (!run.metrics.length && !run.steps.length) {
    return section("losses", "Losses", make("p", { class: "note" }, "No epoch has ended, and no training loss is recorded."));
  }
  const main = new LineChart("loss-chart", "Loss", LOSS_HEIGHT);
  const small = smallCharts(run);
  const state = {};
  const draw = () => {
    if (!state.axis || !state.scale) return;
    main.set(lossChart(run, unit, state.axis, state.scale === "log"));
    for (const { chart, content } of small) chart.set(content(state.axis));
  };
  const set = (name) => (value) => {
    state[name] = value;
    draw();
  };
  const scales = [
    ["linear", "linear"],
    ["log", "logarithmic"],
  ];
  const controls = make(
    "div",
    { class: "controls" },
    choice("axis", "Against", axesOf(run), set("axis")),
    choice("scale", "Scale", scales, set("scale"), isWide(run, unit) ? "log" : "linear"),
  );
  return section(
    "losses",
    "Losses",
    make("p", { class: "note" }, lossNote(run, unit)),
    controls,
    main.node,
    foldable("numbers", "The numbers", numbersTables(run)),
    make("div", { class: "small-charts" }, ...small.map(({ title, chart }) => make("div", { class: "part" }, make("h3", {}, title), chart.node))),
  );
}

function extreme(choose, values) {
  return values.reduce((best, value) => choose(best, value));
}

function lossValues(run, unit) {
  return [
    ...run.metrics.flatMap(({ train_loss, val_loss }) => [train_loss, val_loss]).map((loss) => (loss === null ? NaN : loss * unit.factor)),
    ...run.steps.map(({ loss }) => (loss === null ? NaN : loss * unit.factor)),
    ...baselinesOf(run, unit).map(({ value }) => value),
  ].filter(Number.isFinite);
}

// Whether a logarithmic scale shows more.
function isWide(run, unit) {
  const values = lossValues(run, unit).filter((value) => value > 0);
  return values.length > 1 && extreme(Math.max, values) > 4 * extreme(Math.min, values);
}

function lossNote(run, unit) {
  const target = run.kind === "encoder_decoder" ? "target " : "";
  const parts =
    unit.name === BITS.name
      ? ["Loss in bits per byte; lower is better. The training loss and the baselines are converted with the bytes per token of the held-out text."]
      : [`Loss in nats per ${target}token; lower is better.`];
  parts.push(
    run.steps.length
      ? "The training loss is the mean between two records; dropout, if any, makes it higher."
      : "The training loss is the mean of each epoch.",
  );
  const ceiling = ceilingOf(run, unit);
  if (lossValues(run, unit).some((value) => value > ceiling)) parts.push(`Losses above ${formatLoss(ceiling)} are drawn at the upper edge.`);
  return parts.join(" ");
}

function ceilingOf(run, unit) {
  const levels = baselinesOf(run, unit).map(({ value }) => value);
  return levels.length ? CEILING * extreme(Math.max, levels) : Infinity;
}

function lossChart(run, unit, axis, logarithmic) {
  const scaled = (key) => (record) => (record[key] === null ? null : record[key] * unit.factor);
  const epochNote = ({ epoch }) => epochName(epoch);
  const training = run.steps.length
    ? pointsOf(run.steps, axis, run, scaled("loss"))
    : pointsOf(run.metrics, axis, run, scaled("train_loss"), epochNote);
  const validation = pointsOf(run.metrics, axis, run, scaled("val_loss"), epochNote);
  const series = [
    { name: "training", style: "training", points: training, marker: run.steps.length ? null : "square" },
    { name: "validation", style: "validation", points: validation, marker: "circle" },
  ].filter(({ points }) => points.some(({ y }) => Number.isFinite(y)));
  const levels = baselinesOf(run, unit);
  const best = run.metrics.find(({ epoch }) => epoch === run.best_epoch);
  const rings = best && placeOn(axis, best, run) !== null ? [{ name: best.epoch === 0 ? "best: before training" : `best epoch: ${best.epoch}`, x: placeOn(axis, best, run), y: best.val_loss * unit.factor }] : [];
  return {
    axis: AXES[axis],
    unit: unit.name,
    format: formatValue,
    logarithmic,
    ceiling: ceilingOf(run, unit),
    series,
    levels,
    rings,
    marks: resumedMarks(run, axis),
  };
}

function resumedMarks(run, axis) {
  const places = run.resumed_at.map((step) => placeOfStep(step, axis, run)).filter((x) => x !== null);
  const name = run.resumed_at.length === 1 ? "training was resumed" : `training was resumed ${run.resumed_at.length} times`;
  return places.map((x) => ({ x, name }));
}

// The time of a step is that of the last record before it.
function placeOfStep(step, axis, run) {
  if (axis !== "seconds") return placeOn(axis, { step }, run);
  const before = [...run.steps, ...run.metrics].filter((record) => record.step !== null && record.step <= step && record.seconds !== null);
  return before.length ? extreme(Math.max, before.map(({ seconds }) => seconds)) : 0;
}

// [{title, chart, content(axis)}]: charts whose values the run has.
function smallCharts(run) {
  const charts = [];
  const add = (id, title, key, format, options = {}) => {
    const records = [run.steps, run.metrics].find((list) => list.some((record) => Number.isFinite(record[key])));
    if (!records) return;
    const name = title.toLowerCase();
    const note = records === run.metrics ? ({ epoch }) => epochName(epoch) : undefined;
    charts.push({
      title,
      chart: new LineChart(`${id}-chart`, title, SMALL_HEIGHT),
      content: (axis) => ({
        axis: AXES[axis],
        format,
        fromZero: true,
        series: [{ name, style: options.style ?? "plain", marker: records === run.metrics ? "circle" : null, points: pointsOf(records, axis, run, (record) => record[key], note).filter(({ y }) => Number.isFinite(y)) }],
      }),
    });
  };
  if (run.kind === "encoder_decoder") add("bleu", "BLEU", "val_bleu", (value) => value.toFixed(1), { style: "validation" });
  add("rate", "Learning rate", "learning_rate", (value, isTick) => (isTick ? formatTick(value) : Number(value.toPrecision(3)).toString()));
  add("speed", "Tokens per second", "tokens_per_second", (value) => formatShort(Math.round(value)));
  add("memory", "Peak memory", "memory_bytes", formatBinary);
  return charts;
}

const METRIC_COLUMNS = [
  ["epoch", "Epoch", formatInteger],
  ["step", "Step", formatInteger],
  ["train_loss", "Training loss, nats", (value) => value.toFixed(4)],
  ["val_loss", "Validation loss, nats", (value) => value.toFixed(4)],
  ["val_bits_per_byte", "Bits per byte", (value) => value.toFixed(4)],
  ["val_bleu", "BLEU", (value) => value.toFixed(1)],
  ["learning_rate", "Learning rate", (value) => Number(value.toPrecision(3)).toString()],
  ["tokens_per_second", "Tokens per second", (value) => formatInteger(Math.round(value))],
  ["seconds", "Time", formatDuration],
];
const STEP_COLUMNS = [
  ["step", "Step", formatInteger],
  ["loss", "Training loss, nats", (value) => value.toFixed(4)],
  ["learning_rate", "Learning rate", (value) => Number(value.toPrecision(3)).toString()],
  ["tokens_per_second", "Tokens per second", (value) => formatInteger(Math.round(value))],
  ["memory_bytes", "Peak memory", formatBinary],
  ["seconds", "Time", formatDuration],
];

function numbersTables(run) {
  const box = make("div", { class: "tables" });
  box.append(make("h3", {}, "Epochs"), make("p", { class: "note" }, "Losses in nats per token."), recordTable(run.metrics, METRIC_COLUMNS, "Numbers of the epochs"));
  const levels = [...BASELINE_NAMES.map(([key, name]) => [name, key, "nats per token"]), ...BYTE_BASELINE_NAMES.map(([key, name]) => [name, key, "bits per byte"])];
  const known = levels.filter(([, key]) => run.baselines[key] != null);
  if (known.length) {
    box.append(
      make("h3", {}, "Baselines"),
      dataTable("Baselines", ["Baseline", "Loss", "Unit"], known.map(([name, key, unit]) => [baselineName(name), formatLoss(run.baselines[key]), unit])),
    );
  }
  if (run.steps.length) box.append(make("h3", {}, "Within the epochs"), recordTable(run.steps, STEP_COLUMNS, "Numbers within the epochs"));
  return box;
}

function recordTable(records, columns, name) {
  const shown = columns.filter(([key]) => records.some((record) => record[key] != null));
  const rows = records.map((record) => shown.map(([key, , format]) => (Number.isFinite(record[key]) ? format(record[key]) : "–")));
  return dataTable(name, shown.map(([, title]) => title), rows, "numbers");
}

// rows: lists of cells, the first of which names the row.
function dataTable(name, columns, rows, style = "") {
  const head = make("tr", {}, ...columns.map((column) => make("th", { scope: "col" }, column)));
  const body = rows.map(([first, ...cells]) => make("tr", {}, make("th", { scope: "row" }, first), ...cells.map((cell) => make("td", {}, cell))));
  const table = make("table", { class: `table ${style}` }, make("caption", { class: "visually-hidden" }, name), make("thead", {}, head), make("tbody", {}, ...body));
  return make("div", { class: "table-scroll", tabindex: "0", role: "group", "aria-label": name }, table);
}

