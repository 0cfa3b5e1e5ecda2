/* A model of the page: an engine, its vocabulary, and what is asked of them. Used by the worker. */

/* White space that is stripped from a source, as in minigpt/generation/base_models.py. */
const SOURCE_ENDS = /^[ \t\n\v\f\r]+|[ \t\n\v\f\r]+$/g;

class Model {
  constructor(engine) {
    this.engine = engine;
    this.vocabulary = new Vocabulary(engine);
    const key = (name) => engine.key(`minigpt.model.${name}`);
    this.isPairs = key("kind") === "encoder_decoder";
    this.maxLen = key("max_len");
    this.numLayers = key("num_layers");
    this.numHeads = key("num_heads");
    this.vocabSize = key("vocab_size");
    this.current = null; /* the text that the engine continues */
    this.leftOut = "[[],[]]"; /* heads and layers */
  }

  info() {
    const kind = this.isPairs ? "encoder_decoder" : "gpt";
    const { maxLen, numLayers, numHeads, vocabSize } = this;
    return { kind, maxLen, numLayers, numHeads, vocabSize, tokenizerKind: this.vocabulary.kind, learnedSteps: this.learnedSteps };
  }

  /* The steps by which the weights were changed after the export. */
  get learnedSteps() {
    return this.engine.key("minigpt.learned_steps") ?? 0;
  }

  /* Returns the text and the readable form of every token. */
  labels() {
    const ids = Array.from(this.vocabulary.pieces.keys());
    return {
      texts: ids.map((id) => this.vocabulary.text(id) ?? ""),
      labels: ids.map((id) => this.vocabulary.label(id)),
    };
  }

  describe(ids) {
    const texts = this.vocabulary.texts(ids);
    return Array.from(ids, (id, i) => ({ id, text: texts[i], label: this.vocabulary.label(id) }));
  }

  /* Returns the ids of a prompt, Int32Array: a text; or messages, to which an answer is added. The last answer, if there is one, has
     nothing after it. As `encode_dialogues` in minigpt/tokenizers/vocabulary.py. */
  ids(prompt) {
    if (typeof prompt === "string") return this.engine.encode(prompt);
    const { before, after, start } = this.vocabulary.chat, last = prompt.at(-1);
    const parts = prompt[0].role === "system" ? [] : [start];
    for (const message of prompt) {
      const { role, content } = message;
      parts.push(before[role], Array.from(this.plain(content)), message === last && role === "assistant" ? [] : after[role]);
    }
    if (last.role === "user") parts.push(before.assistant);
    return Int32Array.from(parts.flat());
  }

  /* Returns the ids of what somebody typed; no token of a role is among them. */
  plain(content) {
    const name = this.vocabulary.added.find((added) => content.includes(added));
    if (!name) return this.engine.encode(content);
    const problem = `contains ${JSON.stringify(name)}, the name of a special token, which the engine would read as this token`;
    throw new OptionError("RangeError", `content: ${problem}`);
  }

  /* Leaves out the oldest questions and answers of a dialogue that do not fit into the context together with an answer, as
     `chat_prompt` in minigpt/generation/base_models.py. maxNewTokens: null for as many as fit.
     Returns {prompt: messages, leftOut: how many are not, count: the tokens of the prompt, maxNewTokens: of the answer}. */
  fit({ messages, maxNewTokens }) {
    const { maxLen } = this, first = Number(messages[0].role === "system");
    const room = maxLen - Math.min(maxNewTokens ?? Math.floor(maxLen / 4), Math.floor(maxLen / 2));
    let count = Infinity;
    for (let leftOut = 0; leftOut < messages.length - first; leftOut += 2) {
      const prompt = [...messages.slice(0, first), ...messages.slice(first + leftOut)];
      count = this.ids(prompt).length;
      if (count <= room) return { prompt, leftOut, count, maxNewTokens: maxNewTokens ?? maxLen - count };
    }
    const limit = `should have at most ${room}, so that an answer fits into the context of ${maxLen}`;
    throw new OptionError("RangeError", `the last message: the prompt has ${count} tokens; ${limit}`);
  }

  /* Returns the ids of a source, end token included; what is beyond the context is left out. */
  source(text) {
    const ids = this.engine.encode(text.replace(SOURCE_ENDS, ""));
    this.isSourceCut = ids.length >= this.maxLen;
    return ids.length ? Int32Array.from([...ids.subarray(0, this.maxLen - 1), this.vocabulary.endId]) : ids;
  }

  /* Begins a continuation or a translation. */
  begin({ prompt, kept, maxNewTokens, stop, choices, withoutHeads = [], withoutLayers = [], ...settings }) {
    const ids = this.isPairs ? this.source(prompt) : this.ids(prompt);
    const detokenizer = new Detokenizer(this.vocabulary);
    for (const id of this.isPairs ? [] : ids) detokenizer.push(id);
    const stopping = new StoppingText(stop);
    const isCut = this.isPairs && this.isSourceCut;
    const text = { prompt: ids, isCut, tokens: [], settings, choices, maxNewTokens, detokenizer, stopping, ready: "", end: null,
      withoutHeads, withoutLayers };
    /* Stop strings end what is added, not what is kept. */
    for (const id of kept) {
      text.tokens.push(id);
      text.ready += detokenizer.push(id);
    }
    if (this.isPairs && !ids.length) text.end = "end";
    return text;
  }

  /* Adds a token to a text. Returns what it adds to the decoded text. */
  push(text, id) {
    text.tokens.push(id);
    const added = text.detokenizer.push(id);
    text.ready += text.stopping.push(added);
    if (text.stopping.hasStopped) text.end = "stop string";
    return added;
  }

  /* Generates the next token of a text. Returns it, or null at the end of the text. */
  next(text) {
    if (text.end) return null;
    this.leaveOut(text.withoutHeads, text.withoutLayers);
    if (this.current !== text) {
      this.current = null;
      const { prompt, tokens, maxNewTokens, settings } = text;
      this.engine.record(text.choices);
      if (this.isPairs) {
        this.engine.startTranslation(prompt, maxNewTokens);
        /* A translation cannot be started in its middle: the tokens are the same again. */
        for (let i = 0; i < tokens.length; i++) this.engine.addToken();
      } else {
        this.engine.start([...prompt, ...tokens], tokens.length, maxNewTokens, settings);
      }
      this.current = text;
    }
    const choice = this.engine.addToken();
    if (!choice) {
      text.end = text.tokens.length < Math.min(text.maxNewTokens, this.isPairs ? this.maxLen : Infinity) ? "end" : "length";
      return null;
    }
    return { ...choice, text: this.push(text, choice.id) };
  }

  /* Begins to learn from a text. Returns the number of steps. */
  beginLearning(text, settings) {
    const ids = this.engine.encode(text);
    const checked = checkedLearning(settings, ids.length, this.maxLen);
    this.current = null;
    return this.engine.openLearning(ids, checked);
  }

  /* Returns a continuation of at most MOST tokens. */
  sample(request) {
    const MOST = 60;
    const text = this.begin({ ...request, kept: [], choices: false, maxNewTokens: Math.min(MOST, request.maxNewTokens) });
    while (this.next(text)) continue;
    return text.ready + text.stopping.finish();
  }

  /* Returns how a token is chosen after `tokens`, with the labels of what was read. */
  inspect({ prompt, tokens, chosen, withoutHeads = [], withoutLayers = [] }) {
    const { startId } = this.vocabulary;
    const source = this.isPairs ? this.source(prompt) : [];
    const read = this.isPairs ? [] : this.ids(prompt);
    const context = [...(read.length ? read : [startId]), ...tokens].slice(-this.maxLen);
    this.open(context, source, withoutHeads, withoutLayers);
    return {
      context: this.describe(context),
      source: this.describe(source),
      layers: this.numLayers,
      heads: this.numHeads,
      ...this.engine.inspect(context.length - 1, chosen, this.numLayers, this.numHeads),
    };
  }

  /* Returns how the token after `tokens` is drawn with some settings: see `Engine.describeDraw`. */
  draw({ prompt, tokens, ids, withoutHeads, withoutLayers, ...settings }) {
    this.current = null;
    this.leaveOut(withoutHeads, withoutLayers);
    this.engine.start([...this.ids(prompt), ...tokens], tokens.length, tokens.length + 1, settings);
    return this.engine.describeDraw(ids);
  }

  /* Returns the share of each source token in the attention of each target token: the mean of all layers and heads. */
  align({ source: text, tokens }) {
    const source = this.source(text), context = [this.vocabulary.startId, ...tokens].slice(0, tokens.length);
    const rows = this.numLayers * this.numHeads, weights = new Float32Array(tokens.length * source.length);
    if (tokens.length) this.open(context, source);
    for (let t = 0; t < tokens.length; t++) {
      const { cross } = this.engine.inspect(t, tokens[t], this.numLayers, this.numHeads);
      for (let i = 0; i < cross.length; i++) weights[t * source.length + (i % source.length)] += cross[i] / rows;
    }
    return { source: this.describe(source), target: this.describe(tokens), weights };
  }

  /* Returns the probability of each token of a text, or of a dialogue; null for those before the context. */
  read(text) {
    const ids = Array.from(this.ids(text)), start = typeof text === "string" ? [this.vocabulary.startId] : [];
    const context = [...start, ...ids].slice(-this.maxLen);
    this.current = null;
    this.leaveOut([], []);
    const read = ids.length ? this.engine.choices(context).map(({ probability }) => probability) : [];
    return [...Array(ids.length - read.length).fill(null), ...read];
  }

  /* Returns the number of tokens of a prompt and those in the context; after the first, with how each would have been chosen. */
  readPrompt({ prompt }) {
    const ids = this.ids(prompt), context = ids.slice(-this.maxLen);
    this.current = null;
    this.leaveOut([], []);
    const choices = context.length ? this.engine.choices(context) : [];
    return { count: ids.length, tokens: this.describe(context).map((token, at) => ({ ...token, ...choices[at - 1] })) };
  }

  /* Leaves out heads, pairs of layer and head, and layers, from 0. A text that was begun before is begun again. */
  leaveOut(heads, layers) {
    if (this.isPairs) return;
    const key = JSON.stringify([heads, layers]);
    if (key === this.leftOut) return;
    this.engine.leaveOut(heads.map(([layer, head]) => layer * this.numHeads + head), layers);
    this.current = null;
    this.leftOut = key;
  }

  open(context, source, withoutHeads = [], withoutLayers = []) {
    this.current = null;
    this.leaveOut(withoutHeads, withoutLayers);
    this.engine.openInspection(context, source);
  }

  /* Returns the last tokens of a text. */
  tokenize({ text }) {
    const ids = this.engine.encode(text), MOST = 2000;
    return this.describe(ids).slice(-MOST);
  }
}
