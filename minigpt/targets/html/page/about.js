// "About": the facts of the model, its training, its samples, and its limits.

const TOKENIZER_NAMES = { byte_pair: "byte-pair", character: "character", word: "word", gpt2: "GPT-2" };

function tokenizerName({ kind }) {
  return TOKENIZER_NAMES[kind] ?? String(kind).replaceAll("_", " ");
}

// The texts that a configuration can name; others are files of the user.
const TEXT_NAMES = {
  stories: "short stories generated from templates",
  imdb: "movie reviews",
  shakespeare: "plays of Shakespeare",
  python: "source files of Python's standard library",
};
// Predictions without a neural network, and compression programs.
const BASELINE_NAMES = {
  ngram_bits_per_byte: "7-grams of tokens",
  byte_ngram_bits_per_byte: "7-grams of bytes",
  ppmd_bits_per_byte: "PPMd",
};

// The title of the page.
function openingOf(facts) {
  if (facts.is_base) return "This model learns to write like a text of yours.";
  const seconds = trainingSeconds(facts);
  const learned = seconds > 0 && beatsNgrams(facts) ? ` It learned to write in ${inWords(seconds)}.` : "";
  return `This page contains a ${facts.kind === "encoder_decoder" ? "translation" : "language"} model.${learned}`;
}

// Whether a model that began with random weights predicts held-out text better than both kinds of n-grams.
function beatsNgrams({ base, val_bits_per_byte, baselines }) {
  const ngrams = [baselines?.ngram_bits_per_byte, baselines?.byte_ngram_bits_per_byte].filter(Number.isFinite);
  return !base && ngrams.length > 0 && val_bits_per_byte != null && val_bits_per_byte < Math.min(...ngrams);
}

// 267 → "4 minutes"
function inWords(seconds) {
  if (seconds < 90) return formatCount(Math.max(1, Math.round(seconds)), "second");
  const minutes = seconds / 60;
  return minutes < 90 ? formatCount(Math.round(minutes), "minute") : formatCount(Math.round(minutes / 60), "hour");
}

// The line below the title.
function factsLine(facts) {
  const continues = facts.chat ? "It answers questions." : "It continues your text.";
  const does = facts.kind === "encoder_decoder" ? "It translates sentences." : continues;
  const name = TEXT_NAMES[facts.text?.source];
  return `${name ? `Trained on ${name}. ` : ""}${does} Nothing is sent anywhere.`;
}

// The best one of them, {name, value: in bits per byte}; undefined if none was measured.
function bestBaseline({ baselines }) {
  const named = Object.entries(BASELINE_NAMES).map(([key, name]) => ({ name, value: baselines?.[key] }));
  const known = named.filter(({ value }) => Number.isFinite(value) && value > 0);
  return known.sort((one, other) => one.value - other.value)[0];
}

// The score on held-out text, and the best score that needs no neural network.
function scoreLine(facts) {
  const { chat, val_loss, val_bits_per_byte, baselines } = facts;
  if (val_bits_per_byte == null) return null;
  const unigram = { name: "token frequencies", value: (baselines?.unigram * val_bits_per_byte) / val_loss };
  const known = [bestBaseline(facts), unigram].filter((baseline) => baseline?.value > 0);
  const [best] = known.sort((one, other) => one.value - other.value);
  const compared = best ? `; the best baseline, ${best.name}, has ${best.value.toFixed(3)}` : "";
  return `${val_bits_per_byte.toFixed(3)} bits per byte on held-out ${chat ? "dialogues" : "text"}${compared}`;
}

function showAbout(box, facts) {
  box.append(
    part("Facts", factList(facts)),
    part("What this model cannot do", listOf(limitsOf(facts))),
    trainingPart(facts),
    ...memorizationParts(facts),
  );
  const more = [...copiedParts(facts), ...samplesParts(facts)];
  if (more.length) box.append(make("details", { class: "part" }, make("summary", {}, "Samples"), ...more));
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
    ["Name", readable(facts.title || "")],
    ["Score", scoreLine(facts)],
    ["Parameters", facts.parameters && `${formatInteger(facts.parameters)}, ${facts.weights} in this page`],
    [
      "Tokenizer",
      `${tokenizerName(tokenizer)}, ${formatInteger(tokenizer.vocab_size)} tokens${tokenizer.lowercase ? ", lower case" : ""}`,
    ],
    ["Text", [TEXT_NAMES[text?.source], text?.description && readable(text.description)].filter(Boolean).join("; ")],
    ["Size of the text", textSize(text)],
    ["License of the text", text?.license && readable(text.license)],
    ["Context", `${formatInteger(model.max_len)} tokens`],
    ["Shape", shapeOf(facts)],
    ["Training", trainingOf(facts)],
    ["Validation loss", facts.val_loss == null ? null : `${facts.val_loss.toFixed(4)} nats per token`],
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

// From the start of training to the best epoch, whose model is in the page; 0 if it is not known.
function trainingSeconds({ epoch, metrics }) {
  return metrics.find((record) => record.epoch === epoch)?.seconds ?? 0;
}

function trainingOf(facts) {
  const { step, epoch, metrics, base } = facts, ended = metrics.filter((record) => record.epoch > 0).length;
  const knew = metrics.find((record) => record.epoch === 0)?.val_bits_per_byte;
  const before = knew ? `, which had ${knew.toFixed(3)} bits per byte on the held-out text` : "";
  const parts = base ? [`began from ${readable(base)}${before}`] : [];
  if (step != null) parts.push(formatCount(step, "step"));
  if (epoch === 0) parts.push("no epoch is better");
  else if (epoch != null) parts.push(ended > 1 ? `epoch ${epoch}, the best of ${formatInteger(ended)}` : formatCount(epoch, "epoch"));
  const seconds = trainingSeconds(facts);
  if (seconds > 0) parts.push(formatSeconds(seconds));
  return parts.join(", ");
}

function trainingPart(facts) {
  const series = lossSeries(facts);
  if (!series.lines.length)
    return part("Loss", make("p", { class: "note" }, "This file contains no record of training."));
  const plot = make("div", { class: "plot" });
  watchWidth(plot, (width) => plot.replaceChildren(lossChart(series, width)));
  const note =
    series.unit.factor === 1
      ? "Loss in nats per token; lower is better."
      : "Loss in bits per byte; lower is better. The training loss, uniform guessing and token frequencies use the bytes per token of the validation text.";
  const scale = isLogarithmic(series) ? " The vertical scale is logarithmic." : "";
  return part("Loss", make("p", { class: "note" }, note + scale), plot, chartKey(series));
}

// What of the samples is in the training text; nothing if it was not measured.
function memorizationParts({ memorization }) {
  if (!memorization) return [];
  const list = make("dl", { class: "facts" });
  list.append(make("div", {}, make("dt", {}, "Copied"), make("dd", { dir: "auto" }, memorizedShare(memorization))));
  return [part("Memorization", make("p", { class: "note" }, MEMORIZED_NOTE), list)];
}

function copiedParts({ memorization }) {
  if (!memorization?.samples.length) return [];
  const title = `${formatCount(memorization.samples.length, "sample")}, copied passages underlined`;
  return [make("details", {}, make("summary", {}, title), copiedSamples(memorization.samples))];
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
    if (facts.chat) list.append(make("dt", {}, "Question"), make("dd", { dir: "auto" }, name));
    for (const sample of samples) {
      list.append(
        make("dt", {}, sample.epoch ? `Epoch ${sample.epoch}` : "Before training"),
        make("dd", { dir: "auto" }, make("span", { class: "prompt" }, facts.chat ? "" : (sample.prompt ?? "")), sample.text),
      );
    }
    const title = name === "" ? "Without a prompt" : make("bdi", {}, startOfText(name, 80));
    return make("details", {}, make("summary", {}, title), list);
  });
  const note =
    facts.kind === "encoder_decoder"
      ? "What the model translated after each epoch."
      : `What the model ${facts.chat ? "answered" : "wrote"} after each epoch.`;
  return [part("Samples during training", make("p", { class: "note" }, note), ...details)];
}
