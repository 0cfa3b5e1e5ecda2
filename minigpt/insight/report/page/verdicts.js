// What the doctor says, and the figures that matter most.

const STATES = {
  training: "Training",
  finished: "Finished",
  interrupted: "Interrupted",
  failed: "Failed",
};

function verdictList(run) {
  if (run.verdicts === null) return make("p", { class: "verdict-none" }, "Not examined yet.");
  if (!run.verdicts.length) return make("p", { class: "verdict-none good" }, "No problems found.");
  const list = make("ul", { class: "verdicts" });
  for (const verdict of run.verdicts) {
    list.append(
      make(
        "li",
        // Not a fault: amber in place of red.
        verdict.id === "too_short" ? { class: "mild" } : {},
        make("h3", { dir: "auto" }, shownText(verdict.title)),
        verdict.evidence && make("p", { dir: "auto" }, shownText(verdict.evidence)),
        verdict.action && make("p", { class: "action", dir: "auto" }, make("strong", {}, "What to do: "), ...withCode(shownText(verdict.action))),
      ),
    );
  }
  return list;
}

// Commands are between backticks.
function withCode(text) {
  return text.split("`").map((part, at) => (at % 2 ? make("code", {}, part) : part));
}

// One sentence, the curve with the best baseline, and what the best model writes.
function overviewSection(run) {
  const best = run.metrics.find(({ epoch }) => epoch === run.best_epoch);
  if (!best) return null;
  const unit = unitOf(run);
  const levels = baselinesOf(run, unit).sort((one, other) => one.value - other.value).slice(0, 1);
  const done = [timeOf(run)[0], best.step !== null && formatCount(lastOf(run, "step"), "step")].filter(Boolean);
  const reached = `${done.length ? `After ${done.join(" and ")}, the` : "The"} best model reaches ${formatLoss(best.val_loss * unit.factor)} ${unit.name} on the held-out text`;
  const baseline = levels.map(({ name, value }) => `; the best baseline, ${baselineName(name)}, reaches ${formatLoss(value)}`);
  const chart = new LineChart("overview-chart", "Loss", OVERVIEW_HEIGHT);
  chart.set({ ...lossChart(run, unit, "step", isWide(run, unit)), levels, marks: [] });
  return section("overview", "Overview", make("p", { class: "lead" }, `${reached}${baseline.join("")}.${learnedFrom(run, best, unit)}`), make("div", { class: "columns" }, make("div", { class: "part" }, chart.node), bestSample(run)));
}

// What the model knew that training began from, and what it learned; "" if it began from nothing.
function learnedFrom({ base, metrics }, best, { factor, name }) {
  const before = metrics.find(({ epoch, val_loss }) => epoch === 0 && val_loss !== null);
  if (!before || !base) return "";
  const learned = best === before ? "no state after it is better" : `training lowered this by ${formatLoss((before.val_loss - best.val_loss) * factor)}`;
  return ` Training began from ${readable(base)}, which has ${formatLoss(before.val_loss * factor)} ${name} on this text; ${learned}.`;
}

function bestSample(run) {
  const group = run.samples.find(({ epochs }) => epochs.length);
  if (!group) return null;
  const sample = group.epochs.find(({ epoch }) => epoch === run.best_epoch) ?? group.epochs.at(-1);
  const title = run.kind === "encoder_decoder" ? "A translation" : "A sample";
  return make("div", { class: "part" }, make("h3", {}, title), pairOf(group), sampleCard(group, sample.epoch, sample, null, "ins", run));
}

function verdictsSection(run) {
  return section("verdicts", "Diagnosis", verdictList(run));
}

// "Training: step 340 of 1,960 (17%), about 4 min left"
function stateLine(run) {
  const step = lastOf(run, "step");
  const state = STATES[run.state] ?? "State not recorded";
  if (step === null) return state;
  const planned = run.planned_steps;
  if (!planned || planned < step || run.state === "finished") return `${state}: ${formatCount(step, "step")}`;
  const seconds = lastOf(run, "seconds");
  const left = run.state === "training" && seconds > 0 && step > 0 ? `, about ${formatDuration(Math.round(((planned - step) * seconds) / step))} left` : "";
  return `${state}: step ${formatInteger(step)} of ${formatInteger(planned)} (${formatPercent(step / planned)})${left}`;
}

function lastOf(run, key) {
  const values = [...run.metrics, ...run.steps].map((record) => record[key]).filter(Number.isFinite);
  return values.length ? extreme(Math.max, values) : null;
}

function median(values) {
  const sorted = values.slice().sort((one, other) => one - other);
  return sorted.length ? sorted[Math.floor(sorted.length / 2)] : null;
}

// [{name, value, note}], the most important first.
function figuresOf(run) {
  const unit = unitOf(run);
  const best = run.metrics.find(({ epoch }) => epoch === run.best_epoch) ?? null;
  const last = run.metrics.findLast(({ val_loss }) => val_loss !== null) ?? null;
  const figures = [];
  const add = (name, value, ...notes) => {
    if (value !== null && value !== undefined) figures.push({ name, value, note: notes.filter(Boolean).join("; ") });
  };
  const loss = (record) => (unit.name === BITS.name ? `${formatLoss(record.val_loss)} nats per token` : record.val_bits_per_byte === null && "");
  const epochOf = ({ epoch }) => epochName(epoch);
  const scope = run.kind === "encoder_decoder" ? "over the held-out pairs" : "over the whole held-out text";
  if (best) add(`Best ${unit.name}`, formatLoss(best.val_loss * unit.factor), epochOf(best), loss(best), scope);
  if (last && last !== best) add(`Last ${unit.name}`, formatLoss(last.val_loss * unit.factor), epochOf(last), loss(last), scope);
  const bleu = run.metrics.map(({ val_bleu }) => val_bleu).filter((value) => value !== null);
  if (bleu.length) add("Best BLEU", extreme(Math.max, bleu).toFixed(1), `last ${bleu.at(-1).toFixed(1)}`);
  add("Time", ...timeOf(run));
  add("Tokens trained on", ...tokensOf(run));
  add("Tokens per second", formatSpeed(run), "over the time of the updates");
  if (run.parameters !== null) add("Parameters", formatMillions(run.parameters));
  if (run.train_bytes !== null) add("Training text", formatBytes(run.train_bytes), run.train_tokens !== null && formatCount(run.train_tokens, "token"));
  return figures;
}

function timeOf(run) {
  const seconds = lastOf(run, "seconds");
  return seconds === null ? [null] : [formatDuration(seconds), formatCount(run.epochs, "epoch")];
}

function tokensOf(run) {
  const step = lastOf(run, "step");
  if (step === null || !run.tokens_per_step) return [null];
  const tokens = Math.round(step * run.tokens_per_step);
  const passes = run.train_tokens ? `${(tokens / run.train_tokens).toFixed(2)} × the training text` : null;
  return [formatMillions(tokens), passes];
}

// All tokens over the time of the updates: of the epochs that have ended; if there are none, of the records.
function formatSpeed({ metrics, steps }) {
  for (const records of [metrics, steps]) {
    let [updates, time, before] = [0, 0, 0];
    for (const { step, tokens_per_second: speed } of records.filter((record) => record.step !== null)) {
      if (speed > 0 && step > before) [updates, time] = [updates + step - before, time + (step - before) / speed];
      before = step;
    }
    if (time > 0) return formatInteger(Math.round(updates / time));
  }
  return null;
}

function figuresSection(run) {
  const figures = figuresOf(run);
  const list = make("dl", { class: "figures" });
  for (const { name, value, note } of figures) {
    list.append(make("div", {}, make("dt", {}, name), make("dd", {}, make("span", { class: "figure-value" }, value), note && make("span", { class: "figure-note" }, note))));
  }
  const unit = unitOf(run);
  const baselines = baselinesOf(run, unit);
  const sentence =
    baselines.length > 0 &&
    make("p", { class: "note" }, `Baselines in ${unit.name}, on the same held-out text: ${baselines.map(({ name, value }) => `${baselineName(name)} ${formatLoss(value)}`).join(", ")}.`);
  if (!figures.length) list.append(make("div", {}, make("dt", {}, "No epoch has ended yet")));
  return section("figures", "Key figures", list, sentence);
}
