// What the model cannot do, in sentences that are true of this model.

function limitsOf(facts) {
  return facts.kind === "encoder_decoder" ? translationLimits(facts) : writingLimits(facts);
}

function writingLimits(facts) {
  const [does, seen] = facts.chat ? ["answers questions", "dialogues"] : ["continues a text", "text"];
  return [
    `It ${does} in the manner of the ${seen} it was trained on. It knows nothing else.`,
    facts.chat
      ? "It also answers questions whose answer it does not know."
      : "It does not answer questions and does not follow instructions. It continues them like any other text.",
    "What it writes is made up. Do not rely on it for facts or advice.",
    "It may reproduce passages of its training text word for word.",
    contextLimit(facts),
    ...commonLimits(facts),
  ];
}

function translationLimits(facts) {
  return [
    "It translates sentences like those it was trained on. Other subjects, other languages and long sentences are often translated wrongly.",
    "A translation can be fluent and wrong. Do not rely on it where a mistake matters.",
    "It may reproduce sentences of its training text word for word.",
    `It reads and writes at most ${formatInteger(facts.model.max_len)} tokens. The rest of a longer source is ignored.`,
    ...commonLimits(facts),
  ];
}

function contextLimit({ model, text }) {
  const bytes = text?.train_bytes && text?.train_tokens ? (model.max_len * text.train_bytes) / text.train_tokens : null;
  const size = bytes ? `, about ${formatInteger(roundTo(bytes, 2))} bytes of its training text` : "";
  return `It sees at most the last ${formatInteger(model.max_len)} tokens${size}. Everything before that is forgotten.`;
}

function commonLimits(facts) {
  const limits = ["It has learned nothing about characters and words that its training text does not contain."];
  if (facts.tokenizer.lowercase) limits.push("It reads and writes lower case only.");
  if (facts.val_loss != null) limits.push(lossLimit(facts));
  if (facts.parameters && facts.parameters < 1e9) {
    limits.push(`It has ${formatMillions(facts.parameters)} parameters. Large language models have many billions.`);
  }
  if (facts.weights === "int8") {
    limits.push(
      "Its weights are rounded to 8 bits in this page. The probabilities differ slightly from those of the trained model.",
    );
  }
  return limits;
}

function lossLimit({ chat, val_loss }) {
  const choices = Math.exp(val_loss), shown = choices < 10 ? choices.toFixed(1) : formatInteger(Math.round(choices));
  return `On ${chat ? "dialogues" : "text"} it was not trained on, it is on average as uncertain as if it chose among ${shown} equally probable tokens.`;
}

function roundTo(number, digits) {
  return Number(number.toPrecision(digits));
}
