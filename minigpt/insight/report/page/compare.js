// Several runs in one page.

const COMPARISON_PARTS = [comparedRuns, comparedFigures, comparedLosses, comparedCertificates, comparedSettings, comparedSamples];
const STYLES = 8;
const DASHES = [null, "7 4", "2 3", "9 3 2 3"];

// Runs may have the same name: a number tells them apart.
function runNames(runs) {
  const names = runs.map(({ name }) => readable(name || "run"));
  return names.map((name, at) => (names.indexOf(name) === names.lastIndexOf(name) ? name : `${name} (${names.slice(0, at + 1).filter((other) => other === name).length})`));
}

// The first four lines have different markers, the next four are dashed, and so on.
function styleOf(index) {
  const markers = Object.keys(MARKERS);
  return { style: `s${index % STYLES}`, marker: markers[index % markers.length], dash: DASHES[Math.floor(index / markers.length) % DASHES.length] };
}

function namedLine(name, index) {
  return make("span", { class: "named-line" }, lineSample(styleOf(index)), make("bdi", {}, name));
}

// All in bits per byte, or all in nats per token.
function commonUnits(runs) {
  const units = runs.map(unitOf);
  return units.every(({ name }) => name === BITS.name) ? units : runs.map(inNats);
}

function comparedRuns(runs) {
  const names = runNames(runs);
  const cards = runs.map((run, at) => make("div", { class: "run-card" }, make("h3", {}, namedLine(names[at], at)), make("p", { class: "note" }, stateLine(run)), verdictList(run)));
  return section("verdicts", "Runs and their diagnoses", make("div", { class: "run-cards" }, ...cards));
}

const COMPARED_FIGURES = [
  ["Best loss", (run, unit) => formatBest(run, unit)],
  ["Best epoch", (run) => (run.best_epoch === null ? null : `${formatInteger(run.best_epoch)} of ${formatInteger(run.epochs)}`)],
  ["Last loss", (run, unit) => formatLast(run, unit)],
  ["Best BLEU", (run) => formatBleu(run)],
  ["Parameters", (run) => (run.parameters === null ? null : formatMillions(run.parameters))],
  ["Tokens trained on", (run) => tokensOf(run)[0]],
  ["Time", (run) => timeOf(run)[0]],
  ["Tokens per second", (run) => formatSpeed(run)],
  ["Copied tokens", (run) => formatCopied(run)],
  ["Training text", (run) => (run.train_bytes === null ? null : formatBytes(run.train_bytes))],
];

function formatBest(run, { factor }) {
  const best = run.metrics.find(({ epoch }) => epoch === run.best_epoch);
  return best ? formatLoss(best.val_loss * factor) : null;
}

function formatLast(run, { factor }) {
  const last = run.metrics.findLast(({ val_loss }) => val_loss !== null);
  return last ? formatLoss(last.val_loss * factor) : null;
}

function formatBleu({ metrics }) {
  const known = metrics.map(({ val_bleu }) => val_bleu).filter((value) => value !== null);
  return known.length ? extreme(Math.max, known).toFixed(1) : null;
}

function formatCopied({ memorization }) {
  const measured = memorization.best ?? memorization.last;
  if (!measured || measured.share === null) return null;
  return measured.held_out_share === null ? formatPercent(measured.share) : `${formatPercent(measured.share)} (held-out ${formatPercent(measured.held_out_share)})`;
}

function comparedFigures(runs) {
  const [names, units] = [runNames(runs), commonUnits(runs)];
  const columns = COMPARED_FIGURES.map(([title, value]) => ({ title, values: runs.map((run, at) => value(run, units[at])) })).filter(({ values }) => values.some((value) => value !== null));
  const rows = runs.map((run, at) => [namedLine(names[at], at), ...columns.map(({ values }) => values[at] ?? "–")]);
  return section("figures", "Key figures", make("p", { class: "note" }, comparisonNote(runs, units)), dataTable("Key figures", ["Run", ...columns.map(({ title }) => title)], rows, "figures-table"));
}

function comparisonNote(runs, units) {
  const parts = [`Losses in ${units[0].name}; lower is better.`];
  if (units[0].name !== BITS.name) parts.push("For at least one run, the bytes of its tokens are not known: losses per token of different tokenizers cannot be compared.");
  const texts = new Set(runs.map(({ train_bytes, val_tokens, description }) => `${train_bytes} ${units[0].name === BITS.name ? "" : val_tokens} ${description}`));
  if (texts.size > 1) parts.push("The runs have different texts, so their losses are of different held-out text.");
  return parts.join(" ");
}

function comparedLosses(runs) {
  if (!runs.some(({ metrics }) => metrics.length)) return null;
  const [names, units] = [runNames(runs), commonUnits(runs)];
  const chart = new LineChart("loss-chart", "Validation loss", LOSS_HEIGHT);
  const state = {};
  const draw = () => {
    if (!state.axis || !state.scale) return;
    const series = runs.map((run, at) => ({
      ...styleOf(at),
      name: names[at],
      points: pointsOf(run.metrics, state.axis, run, ({ val_loss }) => (val_loss === null ? null : val_loss * units[at].factor), ({ epoch }) => epochName(epoch)),
    }));
    chart.set({ axis: AXES[state.axis], unit: units[0].name, format: formatValue, logarithmic: state.scale === "log", series });
  };
  const set = (name) => (value) => {
    state[name] = value;
    draw();
  };
  const axes = axesOf(runs[0]).filter(([axis]) => runs.every((run) => axesOf(run).some(([other]) => other === axis)));
  const scales = [
    ["linear", "linear"],
    ["log", "logarithmic"],
  ];
  const tables = make("div", { class: "tables" }, ...runs.flatMap((run, at) => [make("h3", {}, make("bdi", {}, names[at])), recordTable(run.metrics, METRIC_COLUMNS, `Numbers of the epochs of ${names[at]}`)]));
  return section(
    "losses",
    "Validation loss",
    make("p", { class: "note" }, comparisonNote(runs, units)),
    make("div", { class: "controls" }, choice("axis", "Against", axes, set("axis")), choice("scale", "Scale", scales, set("scale"))),
    chart.node,
    foldable("numbers", "The numbers", tables),
  );
}

function comparedSettings(runs) {
  const names = Array.from(new Set(runs.flatMap(({ settings }) => settings.map(({ name }) => name))));
  const values = runs.map(({ settings }) => new Map(settings.map(({ name, value }) => [name, value])));
  const different = names.filter((name) => new Set(values.map((known) => known.get(name))).size > 1);
  const rows = different.map((name) => [make("code", {}, shownText(name)), ...values.map((known) => make("code", { dir: "auto" }, known.has(name) ? readable(known.get(name)) : "–"))]);
  const labels = runNames(runs).map((name, at) => namedLine(name, at));
  const content = rows.length ? dataTable("Settings that differ", ["Setting", ...labels], rows, "settings") : make("p", { class: "note" }, "All settings are equal.");
  return section("settings", "Settings that differ between the runs", content);
}

// For every prompt that at least two runs have: what each of them wrote.
function comparedSamples(runs) {
  const names = runNames(runs);
  const groups = new Map();
  runs.forEach((run, at) => {
    for (const group of run.samples.filter(({ epochs }) => epochs.length)) {
      const name = group.source ?? group.prompt ?? "";
      if (!groups.has(name)) groups.set(name, []);
      groups.get(name).push({ group, at });
    }
  });
  const shared = Array.from(groups.values()).filter((found) => new Set(found.map(({ at }) => at)).size > 1);
  if (!shared.length) return null;
  const parts = shared.map((found, number) => {
    const [{ group }] = found;
    const id = `sample-${number}`;
    const cards = found.map(({ group: own, at }) => comparedCard(names[at], at, own));
    return make("div", { class: "part sample-group" }, make("h3", { id }, groupTitle(group)), pairOf(group), make("div", { class: "all-samples", tabindex: "0", role: "group", "aria-labelledby": id }, ...cards));
  });
  return section("samples", "Samples", make("p", { class: "note" }, "What each run wrote for prompts that several runs have, after its best epoch."), ...parts);
}

function comparedCard(name, at, group) {
  const { epoch, text } = group.epochs.at(-1);
  const prompt = group.prompt ? make("span", { class: "prompt" }, shownText(group.prompt)) : null;
  return make("div", { class: "sample-card" }, make("h4", {}, namedLine(name, at), `, epoch ${epoch}`), make("p", { class: "sample-text", dir: "auto" }, prompt, shownText(text)));
}
