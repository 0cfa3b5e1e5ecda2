// "About": the facts of the model, its training, its samples, and its limits.

const TOKENIZER_NAMES = { byte_pair: "byte-pair", character: "character", word: "word", gpt2: "GPT-2" };

function tokenizerName({ kind }) {
  return TOKENIZER_NAMES[kind] ?? String(kind).replaceAll("_", " ");
}

// The line below the title.
function factsLine(facts) {
  const does = facts.kind === "encoder_decoder" ? "translates sentences" : "continues your text";
  const parts = [`A small language model that ${does}. It runs inside this page; nothing is sent anywhere.`];
  if (facts.parameters) parts.push(`${formatMillions(facts.parameters)} parameters`);
  if (facts.val_bits_per_byte != null) parts.push(`${facts.val_bits_per_byte.toFixed(3)} bits per byte`);
  if (facts.text?.train_bytes) parts.push(`trained on ${formatBytes(facts.text.train_bytes)} of text`);
  else if (facts.text?.train_tokens) parts.push(`trained on ${formatMillions(facts.text.train_tokens)} tokens`);
  return parts;
}

function showAbout(box, facts) {
  box.append(
    part("Facts", factList(facts)),
    part("What this model cannot do", listOf(limitsOf(facts))),
    trainingPart(facts),
    ...memorizationParts(facts),
    ...samplesParts(facts),
  );
}

function part(title, ...contents) {
  return make("div", { class: "part" }, make("h3", {}, title), ...contents);
}

function listOf(sentences) {
  return make("ul", { class: "sentences" }, ...sentences.map((sentence) => make("li", {}, sentence)));
}

function factList(facts) {
  const { model, text, tokenizer } = facts;
  const entries = [
    ["Parameters", facts.parameters && `${formatInteger(facts.parameters)}, ${facts.weights} in this page`],
    [
      "Tokenizer",
      `${tokenizerName(tokenizer)}, ${formatInteger(tokenizer.vocab_size)} tokens${tokenizer.lowercase ? ", lower case" : ""}`,
    ],
    ["Text", text?.description && readable(text.description)],
    ["Size of the text", textSize(text)],
    ["License of the text", text?.license && readable(text.license)],
    ["Context", `${formatInteger(model.max_len)} tokens`],
    ["Shape", shapeOf(facts)],
    ["Training", trainingOf(facts)],
    ["Validation loss", lossOf(facts)],
    ["Command", facts.command && make("code", {}, readable(facts.command))],
    ["minigpt", facts.version],
  ];
  const list = make("dl", { class: "facts" });
  for (const [name, value] of entries) {
    if (value) list.append(make("div", {}, make("dt", {}, name), make("dd", { dir: "auto" }, value)));
  }
  return list;
}

function textSize(text) {
  if (!text) return null;
  const tokens = text.train_tokens && formatCount(text.train_tokens, "token");
  const size = [text.train_bytes && formatCount(text.train_bytes, "byte"), tokens].filter(Boolean).join(", ");
  const held = text.val_tokens ? `; ${formatCount(text.val_tokens, "token")} held out` : "";
  return size ? size + held : null;
}

function shapeOf({ kind, model }) {
  const layers =
    kind === "encoder_decoder"
      ? `encoder and decoder of ${formatCount(model.num_layers, "layer")}`
      : formatCount(model.num_layers, "layer");
  const parts = [layers, formatCount(model.num_heads, "head"), `width ${formatInteger(model.embed_dim)}`];
  if (model.block) parts.push(`${String(model.block).replaceAll("_", "-")} blocks`);
  if (model.position) parts.push(`${model.position} positions`);
  return parts.join(", ");
}

// The model in the page is that of the best epoch.
function trainingOf({ step, epoch, metrics }) {
  const parts = [];
  if (step != null) parts.push(formatCount(step, "step"));
  if (epoch != null) parts.push(metrics.length > 1 ? `epoch ${epoch}, the best of ${formatInteger(metrics.length)}` : formatCount(epoch, "epoch"));
  const seconds = metrics.find((record) => record.epoch === epoch)?.seconds ?? 0; // since the start of training
  if (seconds > 0) parts.push(formatSeconds(seconds));
  return parts.join(", ");
}

function lossOf({ val_loss, val_bits_per_byte }) {
  if (val_loss == null) return null;
  const bits = val_bits_per_byte != null ? `, ${val_bits_per_byte.toFixed(3)} bits per byte` : "";
  return `${val_loss.toFixed(4)} nats per token${bits}`;
}

function trainingPart(facts) {
  const series = lossSeries(facts);
  if (!series.lines.length)
    return part("Training", make("p", { class: "note" }, "This file contains no record of training."));
  const plot = make("div", { class: "plot" });
  watchWidth(plot, (width) => plot.replaceChildren(lossChart(series, width)));
  const note =
    series.unit.factor === 1
      ? "Loss in nats per token; lower is better."
      : "Loss in bits per byte; lower is better. The training loss and the baselines use the bytes per token of the validation text.";
  const scale = isLogarithmic(series) ? " The vertical scale is logarithmic." : "";
  return part(
    "Training",
    make("p", { class: "note" }, note + scale),
    plot,
    chartKey(series),
    make("details", {}, make("summary", {}, "The numbers"), metricsTable(facts.metrics)),
  );
}

const METRIC_COLUMNS = [
  ["epoch", "Epoch", formatInteger],
  ["step", "Step", formatInteger],
  ["train_loss", "Training loss", (value) => value.toFixed(4)],
  ["val_loss", "Validation loss", (value) => value.toFixed(4)],
  ["val_bits_per_byte", "Bits per byte", (value) => value.toFixed(4)],
  ["val_bleu", "BLEU", (value) => value.toFixed(1)],
  ["tokens_per_second", "Tokens per second", (value) => formatInteger(Math.round(value))],
  ["seconds", "Time since the start", formatSeconds],
];

function metricsTable(metrics) {
  const columns = METRIC_COLUMNS.filter(([key]) => metrics.some((record) => record[key] != null));
  const head = make("tr", {}, ...columns.map(([, name]) => make("th", { scope: "col" }, name)));
  const rows = metrics.map((record) =>
    make(
      "tr",
      {},
      ...columns.map(([key, , format]) => make("td", {}, Number.isFinite(record[key]) ? format(record[key]) : "–")),
    ),
  );
  const table = make("table", { class: "table numbers" }, make("thead", {}, head), make("tbody", {}, ...rows));
  return make(
    "div",
    { class: "table-scroll", tabindex: "0", role: "group", "aria-label": "Figures of training" },
    table,
  );
}

// What of the samples is in the training text; nothing if it was not measured.
function memorizationParts({ memorization }) {
  if (!memorization) return [];
  const longest = longestCopied(memorization);
  const entries = [
    ["Copied", memorizedShare(memorization)],
    ["Longest copied passage", longest ? [make("q", { class: "quote" }, longest.text), " ", longest.size].filter(Boolean) : ["none"]],
    ["Its place", longest?.place && readable(longest.place)],
  ];
  const list = make("dl", { class: "facts" });
  for (const [name, value] of entries) {
    if (value) list.append(make("div", {}, make("dt", {}, name), make("dd", { dir: "auto" }, ...[value].flat())));
  }
  const parts = [make("p", { class: "note" }, MEMORIZED_NOTE), list];
  const { samples } = memorization;
  if (samples.length) {
    const title = `${formatCount(samples.length, "sample")}, copied passages underlined`;
    parts.push(make("details", {}, make("summary", {}, title), copiedSamples(samples)));
  }
  return [part("Memorization", ...parts)];
}

// One <details> a prompt, or a source sentence; in it the samples of every epoch.
function samplesParts(facts) {
  if (!facts.samples.length) return [];
  const groups = new Map();
  for (const sample of facts.samples) {
    const name = sample.source ?? sample.prompt ?? "";
    groups.set(name, [...(groups.get(name) ?? []), sample]);
  }
  const details = [...groups].map(([name, samples]) => {
    const list = make("dl", { class: "samples" });
    const reference = samples.find((sample) => sample.reference)?.reference;
    if (reference) list.append(make("dt", {}, "Reference"), make("dd", { dir: "auto" }, reference));
    for (const sample of samples) {
      list.append(
        make("dt", {}, `Epoch ${sample.epoch}`),
        make("dd", { dir: "auto" }, make("span", { class: "prompt" }, sample.prompt ?? ""), sample.text),
      );
    }
    const title = name === "" ? "Without a prompt" : make("bdi", {}, startOfText(name, 80));
    return make("details", {}, make("summary", {}, title), list);
  });
  const note =
    facts.kind === "encoder_decoder"
      ? "What the model translated after each epoch."
      : "What the model wrote after each epoch.";
  return [part("Samples during training", make("p", { class: "note" }, note), ...details)];
}
