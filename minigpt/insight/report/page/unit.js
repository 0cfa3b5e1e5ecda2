// The unit of losses: bits per byte where the run knows how many bytes its tokens have; else nats per token.

const BITS = { name: "bits per byte", digits: 3 };
const NATS = { name: "nats per token", digits: 3 };

// {name, factor}: a loss in nats per token × factor has the unit.
function unitOf(run) {
  if (run.bytes_per_token) return { ...BITS, factor: 1 / (Math.LN2 * run.bytes_per_token) };
  const known = run.metrics.findLast((record) => record.val_bits_per_byte > 0 && record.val_loss > 0);
  return known ? { ...BITS, factor: known.val_bits_per_byte / known.val_loss } : { ...NATS, factor: 1 };
}

function inNats() {
  return { ...NATS, factor: 1 };
}

function formatLoss(value) {
  if (!Number.isFinite(value)) return "–";
  return Math.abs(value) >= 1e4 ? value.toExponential(2) : value.toFixed(3);
}

// The name of a state that was validated.
function epochName(epoch) {
  return epoch === 0 ? "before training" : `epoch ${formatInteger(epoch)}`;
}

// Ticks of a scale have as many digits as they need.
function formatValue(value, isTick) {
  return isTick ? formatTick(value) : formatLoss(value);
}

function formatTick(value) {
  return Math.abs(value) >= 1e5 || (value !== 0 && Math.abs(value) < 1e-4) ? Number(value.toPrecision(3)).toExponential() : String(Number(value.toPrecision(6)));
}

const BASELINE_NAMES = [
  ["uniform", "uniform"],
  ["unigram", "unigram"],
  ["bigram", "bigram"],
  ["ngram", "7-gram"],
];
const BYTE_BASELINE_NAMES = [
  ["byte_ngram_bits_per_byte", "byte 7-gram"],
  ["ppmd_bits_per_byte", "PPMd"],
];
// Goes on to learn while it reads the held-out text.
const ADAPTIVE = "PPMd";

function baselineName(name) {
  return name === ADAPTIVE ? `${name} (adaptive)` : name;
}

// [{name, value}] in a unit: some are known in bits per byte only.
function baselinesOf(run, unit) {
  const levels = BASELINE_NAMES.map(([key, name]) => ({ name, value: run.baselines[key] == null ? null : run.baselines[key] * unit.factor }));
  const ofBytes = BYTE_BASELINE_NAMES.map(([key, name]) => ({ name, value: run.baselines[key] ?? null }));
  return [...levels, ...(unit.name === BITS.name ? ofBytes : [])].filter(({ value }) => value !== null && value > 0);
}

// The axes on which every one of some records can be placed.
function axesOf(run) {
  const records = [...run.metrics, ...run.steps];
  const axes = [["step", "steps"]];
  if (records.some(({ seconds }) => seconds > 0)) axes.push(["seconds", "time"]);
  if (run.tokens_per_step > 0) axes.push(["tokens", "tokens"]);
  return axes;
}

// The place of a record on an axis; null if it has none.
function placeOn(axis, record, run) {
  if (axis === "tokens") return record.step === null ? null : record.step * run.tokens_per_step;
  return record[axis];
}

// Points of a line. value(record) → the value or null, a gap.
function pointsOf(records, axis, run, value, note = () => null) {
  return records
    .map((record) => ({ x: placeOn(axis, record, run), y: value(record) ?? NaN, note: note(record) }))
    .filter(({ x }) => x !== null && x >= 0)
    .sort((one, other) => one.x - other.x);
}
