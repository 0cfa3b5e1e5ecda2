/* The page's side of the worker. */

/* The script of the page is the source of the worker, too. */
const PAGE_SCRIPT = typeof document === "undefined" ? null : document.currentScript;

/* The elements of the page that carry data are removed when they are read: large models are not kept twice. */
function takeTexts(selector) {
  return Array.from(document.querySelectorAll(selector), (element) => {
    const { file, size } = element.dataset;
    const part = { file, size: Number(size), text: element.textContent };
    element.remove();
    return part;
  });
}

function readFacts() {
  return JSON.parse(document.getElementById("facts").textContent);
}

class Client {
  constructor(facts) {
    this.facts = facts;
    this.requests = new Map(); /* number → {resolve, reject, onPart} */
    this.learnedSteps = 0; /* by which the weights were changed after the export */
    this.onLearned = () => {}; /* is called when learning has ended */
    this.saved = null; /* the URL of the page with the weights of now */
    this.count = 0;
    const source = new Blob([PAGE_SCRIPT.textContent], { type: "text/javascript" });
    this.worker = new Worker(URL.createObjectURL(source));
    this.worker.onmessage = ({ data }) => this.receive(data);
    this.worker.onerror = (event) => {
      event.preventDefault();
      this.failAll(`The model stopped: ${event.message || "the browser did not start it"}.`);
    };
    this.ready = this.open();
    /* A page that does not wait for the model must not see an unhandled rejection. */
    this.ready.catch(() => {});
  }

  async open() {
    const engineParts = takeTexts(".engine"), engines = engineParts.map((part) => part.text), parts = takeTexts(".model");
    const main = parts.filter(({ file }) => file === "main"), others = parts.filter(({ file }) => file !== "main");
    /* The page as it was, for `saveUrl`; the browser keeps blobs elsewhere. Nothing has changed the document yet. */
    const page = `<!doctype html>\n${document.documentElement.outerHTML}`, at = page.lastIndexOf(PAGE_SCRIPT.outerHTML);
    const elements = engineParts.map((part) => dataElement("engine", part));
    this.before = new Blob([`${page.slice(0, at).trimEnd()}\n`, ...elements]);
    this.after = new Blob([...others.map((part) => dataElement("model", part)), page.slice(at)]);
    const answers = [
      this.request("compile", { engines }),
      ...main.map((part) => this.request("part", part)),
      this.request("open", { banned: this.facts.sampling.banned_tokens }),
    ];
    /* The other states of training wait until the page can be used. */
    for (const part of others) this.request("part", part).catch(() => {});
    /* The first error is the cause of the others. */
    const { info, texts, labels } = (await Promise.all(answers)).at(-1);
    this.texts = texts;
    this.labels = labels;
    this.learnedSteps = info.learnedSteps;
    performance.mark("model-ready");
    return info;
  }

  /* Continues a prompt, a text or messages, or translates a source. Returns {done, stop()}. Texts are generated one after the other. Without
     choices, tokens have neither probabilities nor alternatives, and take less time. */
  generate({ snapshot = null, kept = [], stop = [], choices = true, onTokens = () => {}, ...request }) {
    const number = this.count + 1;
    let text = "";
    const receive = ({ tokens, ready }) => {
      text += ready;
      onTokens(tokens.map((token) => this.token(token)), ready);
    };
    const message = { model: this.modelName(snapshot), request: { ...request, kept, stop, choices } };
    const done = this.request("generate", message, receive).then(({ rest, ...result }) => ({ text: text + rest, ...result }));
    return { done, stop: () => this.worker.postMessage({ type: "stop", job: number }) };
  }

  /* Learns from a text. settings: see `checkedLearning`. sample: the request of a text that is written now and then; null for none.
     onPart gets {step, steps, loss, sample} after each step. Returns {done, stop()}; done is {losses, sample}. */
  learn({ text, settings, sample = null, onPart = () => {} }) {
    const request = { text, settings, sample };
    const number = this.count + 1;
    this.isLearning = true;
    /* Learning that fails has changed the weights, too. */
    const receive = (part) => {
      this.learnedSteps = part.learnedSteps;
      onPart(part);
    };
    const done = this.request("learn", { model: "main", request }, receive).finally(() => {
      this.isLearning = false;
      this.forgetSaved();
      this.onLearned();
    });
    return { done, stop: () => this.worker.postMessage({ type: "stop", job: number }) };
  }

  /* Returns a URL of the page, or of the portable file, with the weights that the model has now. */
  async saveUrl(isFile = false) {
    const model = await this.request("save", { isFile });
    this.forgetSaved();
    this.saved = URL.createObjectURL(isFile ? model : new Blob([this.before, model, this.after], { type: "text/html" }));
    return this.saved;
  }

  forgetSaved() {
    if (this.saved) URL.revokeObjectURL(this.saved);
    this.saved = null;
  }

  /* The name of a state of training: its index, or "main" for the model itself, which is the last one. */
  modelName(snapshot) {
    return snapshot === null || snapshot === this.facts.snapshots.length - 1 ? "main" : String(snapshot);
  }

  /* Returns the tokens of a text, or of the answer that ends a dialogue, and, for each state of training, the probability that it gave each of them. */
  async learning(text) {
    const models = this.facts.snapshots.map((_, index) => this.modelName(index));
    return this.request("learning", { text, models });
  }

  async inspect(request) {
    const result = await this.request("inspect", request);
    const lens = result.lens.map((choice) => ({
      chosen: choice.probability,
      guesses: this.alternatives(choice).slice(0, 5),
    }));
    return { ...result, lens };
  }

  probability(request) {
    return this.request("probability", request);
  }

  draw(request) {
    return this.request("draw", request);
  }

  async readPrompt(prompt) {
    const { count, tokens } = await this.request("readPrompt", { prompt });
    return { count, tokens: tokens.map((token) => this.token(token)) };
  }

  align(request) {
    return this.request("align", request);
  }

  /* Returns the longest parts of a text that the training text has, each with how often if `counted`: [{start, end, count}]. */
  matches(text, counted = false) {
    return this.requestOfText("matches", { text, counted });
  }

  passages(part) {
    return this.requestOfText("passages", { part });
  }

  requestOfText(type, message) {
    for (const { text } of takeTexts(".training-text")) this.request("trainingText", { text }).catch(() => {});
    return this.request(type, { ...message, size: this.facts.training_text_bytes });
  }

  tokenize(text) {
    return this.request("tokenize", { text });
  }

  token({ id, text, ...choice }) {
    return { id, text, label: this.labels[id], probability: choice.probability, alternatives: this.alternatives(choice) };
  }

  alternatives({ ids = [], probabilities = [] }) {
    return Array.from(ids, (id, i) => ({ id, text: this.texts[id], label: this.labels[id], probability: probabilities[i] }))
      .filter(({ id }) => id >= 0 && id < this.texts.length);
  }

  request(type, message, onPart) {
    const id = ++this.count;
    return new Promise((resolve, reject) => {
      this.requests.set(id, { resolve, reject, onPart });
      this.worker.postMessage({ ...message, id, type });
    });
  }

  receive({ id, type, result, name, message, part }) {
    const request = this.requests.get(id);
    if (type === "part") return request.onPart(part);
    this.requests.delete(id);
    if (type === "error") request.reject(new ({ RangeError, TypeError }[name] ?? Error)(message));
    else request.resolve(result);
  }

  failAll(message) {
    for (const { reject } of this.requests.values()) reject(new Error(message));
    this.requests.clear();
  }
}
