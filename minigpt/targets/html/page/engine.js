/* The engine: an instance of engine.wasm with an open portable file. It has one text at a time. */

const GGUF_STRING = 8;
const GGUF_VIEWS = { 0: Uint8Array, 4: Uint32Array, 5: Int32Array, 6: Float32Array, 7: Uint8Array };
/* The tokens that a choice lists; GUESSES in choices.h. */
const GUESSES = 10;
const CHOICE_BYTES = 4 * (1 + 2 * GUESSES);

/* Thrown for an error that the engine reports: the file is damaged, or there is not enough memory. */
class EngineError extends Error {}

class Engine {
  /* module: the compiled engine. size: the length of the file in bytes. */
  constructor(module, size) {
    this.exports = new WebAssembly.Instance(module).exports;
    this.size = size;
    this.file = this.allocate(size);
    this.written = 0;
  }

  /* Writes the next part of the file. */
  write(bytes) {
    if (bytes.length > this.size - this.written) throw new EngineError("The file is damaged.");
    this.memory(this.file + this.written, bytes.length).set(bytes);
    this.written += bytes.length;
  }

  /* Opens the file, of which all parts are written. banned: ids of tokens that are never generated. */
  open(banned) {
    if (this.written !== this.size) throw new EngineError("The file is damaged: a part of it is missing.");
    this.check(this.exports.open_file(this.file, this.size));
    this.temporarily(() => this.check(this.exports.set_banned(...this.copyInIds(banned))));
  }

  /* Returns the value of a key: a number, a boolean, a string or a typed array; null if there is none. */
  key(name) {
    return this.temporarily(() => {
      const address = this.exports.find_key(...this.copyIn(new TextEncoder().encode(name))) >>> 0;
      if (!address) return null;
      const [, , type, isArray, count, data, size] = this.copyOut(address, 28, Uint32Array);
      if (type === GGUF_STRING) return new TextDecoder().decode(this.copyOut(data, size, Uint8Array));
      const values = this.copyOut(data, size, GGUF_VIEWS[type]);
      return isArray ? values.subarray(0, count) : values[0];
    });
  }

  /* Returns the token ids of a text, Int32Array. */
  encode(text) {
    return this.temporarily(() => {
      const encoded = this.check(this.exports.encode_text(...this.copyIn(new TextEncoder().encode(text))));
      const [ids, count] = this.copyOut(encoded, 8, Uint32Array);
      return this.copyOut(ids, 4 * count, Int32Array);
    });
  }

  /* Starts the continuation of a text. ids: the prompt, and `added` tokens of an earlier continuation of it. */
  start(ids, added, maxNewTokens, settings) {
    const sampling = SAMPLING_SETTINGS.filter(({ isSampling }) => isSampling);
    this.exports.set_sampling(...sampling.map(({ option }) => settings[option]), settings.seed);
    this.exports.finish();
    this.check(this.exports.start(...this.copyInIds(ids), added, maxNewTokens));
  }

  /* Starts the translation of a source, end token included. */
  startTranslation(ids, maxNewTokens) {
    this.exports.finish();
    this.check(this.exports.start_translation(...this.copyInIds(ids), maxNewTokens));
  }

  /* Says whether `addToken` returns how a token was chosen, which takes time. */
  record(choices) {
    this.records = choices;
    this.exports.set_recording(choices);
  }

  /* Adds a token. Returns its id and, if that is recorded, how it was chosen; null if the text has ended. */
  addToken() {
    const added = this.exports.add_tokens(1);
    if (added < 0) throw new EngineError(this.message());
    if (added === 0) return null;
    const id = this.copyOut((this.exports.new_tokens_end() >>> 0) - 4, 4, Int32Array)[0];
    return this.records ? { id, ...this.choice(this.exports.newest_choice() >>> 0) } : { id };
  }

  /* Reads a `Choice`: {probability, ids: Int32Array, probabilities: Float32Array}. */
  choice(address) {
    const bytes = this.copyOut(address, CHOICE_BYTES, Uint8Array).buffer;
    return {
      probability: new Float32Array(bytes, 0, 1)[0],
      ids: new Int32Array(bytes, 4, GUESSES),
      probabilities: new Float32Array(bytes, 4 + 4 * GUESSES, GUESSES),
    };
  }

  /* Leaves out heads, by layer * H + head, and layers from now on; those that were left out before are back. */
  leaveOut(heads, layers) {
    this.exports.finish();
    this.temporarily(() => this.check(this.exports.leave_out(...this.copyInIds(heads), ...this.copyInIds(layers))));
  }

  /* Returns how each token of a text after its first would be chosen. ids: at most as many as the context has. */
  choices(ids) {
    this.exports.finish();
    const found = this.check(this.exports.describe_text(...this.copyInIds(ids)));
    const result = Array.from(ids.slice(1), (_, at) => this.choice(found + at * CHOICE_BYTES));
    this.exports.finish();
    return result;
  }

  /* Prepares `learnStep`. ids: the text; each step learns from batchSize windows of it, each of `length` tokens. steps, learningRate:
     0 for those that suit the text and the model. Returns the number of steps. */
  openLearning(ids, { length, batchSize, seed, steps, learningRate }) {
    this.exports.finish();
    return this.check(this.exports.open_learning(...this.copyInIds(ids), length, batchSize, seed, steps, learningRate));
  }

  /* Changes the weights once. Returns the loss before. */
  learnStep() {
    const loss = this.exports.learn();
    if (loss < 0) throw new EngineError(this.message());
    return loss;
  }

  closeLearning() {
    this.exports.close_learning();
  }

  /* Returns the file with the weights that the model has now. */
  currentFile() {
    return this.temporarily(() => this.copyOut(this.check(this.exports.current_file()), this.size, Uint8Array));
  }

  /* Returns how the next token of a started text would be drawn: the random number from 0 to 1, and the places of tokens, each a
     part of the line from 0 to 1. The text must be started again. */
  describeDraw(ids) {
    const found = this.check(this.exports.describe_draw(...this.copyInIds(ids)));
    const [drawn] = this.copyOut(found, 4, Float32Array), [places] = this.copyOut(found + 4, 4, Uint32Array);
    const numbers = this.copyOut(places, 8 * ids.length, Float32Array);
    return { drawn, places: Array.from(ids, (_, at) => ({ start: numbers[2 * at], share: numbers[2 * at + 1] })) };
  }

  /* Prepares `inspect`. source: the ids of the source; empty for a model that continues text. */
  openInspection(ids, source) {
    this.exports.finish();
    const text = this.copyInIds(ids);
    this.check(this.exports.open_inspection(...text, ...this.copyInIds(source)));
  }

  /* Returns how the token after a position is chosen: attention [L, H, position + 1], cross [L, H, S], and the choice of each layer. */
  inspect(position, chosen, layers, heads) {
    const [attention, cross, lens, stride, sources] = this.copyOut(
      this.check(this.exports.inspect(position, chosen)), 20, Uint32Array);
    const rows = layers * heads, shown = new Float32Array(rows * (position + 1));
    for (let row = 0; row < rows; row++) {
      shown.set(this.copyOut(attention + 4 * row * stride, 4 * (position + 1), Float32Array), row * (position + 1));
    }
    return {
      attention: shown,
      cross: cross ? this.copyOut(cross, 4 * rows * sources, Float32Array) : null,
      lens: Array.from({ length: layers }, (_, layer) => this.choice(lens + layer * CHOICE_BYTES)),
    };
  }

  /* Frees what `work` has allocated. */
  temporarily(work) {
    const mark = this.exports.memory_mark();
    const result = work();
    this.exports.release_to(mark);
    return result;
  }

  allocate(size) {
    return this.check(this.exports.allocate(BigInt(size)));
  }

  copyIn(bytes) {
    const address = this.allocate(bytes.length);
    this.memory(address, bytes.length).set(bytes);
    return [address, bytes.length];
  }

  copyInIds(ids) {
    const numbers = Int32Array.from(ids);
    return [this.copyIn(new Uint8Array(numbers.buffer))[0], numbers.length];
  }

  /* Returns a copy: data in a file may not be aligned. */
  copyOut(address, size, View) {
    return new View(this.memory(address >>> 0, size).slice().buffer);
  }

  /* Valid until the engine is called: its memory may move. */
  memory(address, size) {
    return new Uint8Array(this.exports.memory.buffer, address >>> 0, size);
  }

  /* Addresses above 2 GB are negative without the shift. */
  check(result) {
    if (!result) throw new EngineError(this.message());
    return result >>> 0;
  }

  message() {
    const bytes = this.memory(this.exports.error_message(), 512);
    return new TextDecoder().decode(bytes.slice(0, bytes.indexOf(0)));
  }
}
