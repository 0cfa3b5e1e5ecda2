/* The worker: opens the models of the page and answers the page, so that the page never freezes. */

/* Milliseconds of generating between two messages. */
const BATCH_MS = 30;
/* Milliseconds between two samples of a model that learns. */
const SAMPLE_MS = 3000;
/* Characters of base64 in an element of a page; as in minigpt/pages/inlining.py. */
const PART_CHARACTERS = 4 * 2 ** 20;

function runWorker() {
  const worker = new ModelWorker();
  self.onmessage = ({ data }) => worker.receive(data);
}

class ModelWorker {
  constructor() {
    this.files = new Map(); /* name → parts that no engine has yet */
    this.models = new Map(); /* name → Model */
    this.jobs = []; /* the first one is running */
    this.opened = Promise.resolve();
    /* A message to itself lets other messages pass, without the delay of a timer. */
    this.channel = new MessageChannel();
    this.channel.port1.onmessage = () => this.runJobs();
  }

  receive(message) {
    if (message.type === "generate" || message.type === "learn") {
      const job = { ...message, isReady: false, isStopped: false, text: null };
      this.jobs.push(job);
      /* After the messages that open the model. An error of `unpack` is reported when the job begins. */
      this.opened = this.opened.then(() => this.unpack(job.model)).catch(() => {}).then(() => {
        job.isReady = true;
        if (this.jobs[0] === job) this.continueSoon();
      });
    } else if (message.type === "stop") {
      for (const job of this.jobs) job.isStopped ||= job.id === message.job;
    } else {
      /* One after the other: parts of files arrive in their order. */
      this.opened = this.opened.then(() => this.answer(message));
    }
  }

  async answer(message) {
    try {
      const result = await this[message.type](message);
      postMessage({ id: message.id, type: "result", result });
    } catch (error) {
      this.fail(message.id, error);
    }
  }

  fail(id, error) {
    const isOption = error instanceof OptionError;
    postMessage({ id, type: "error", name: isOption ? error.kind : "Error", message: isOption ? error.message : errorMessage(error) });
  }

  /* Compiles the engine: the first one that this browser supports. */
  async compile({ engines }) {
    const bytes = engines.map(fromBase64).find((engine) => WebAssembly.validate(engine));
    if (!bytes) throw new EngineError("This browser does not support WebAssembly, which runs the model.");
    this.module = await WebAssembly.compile(bytes);
  }

  /* Receives a part of a file. That of the main model is written to its engine at once. */
  part({ file, size, text }) {
    const bytes = fromBase64(text);
    if (file !== "main") {
      this.files.set(file, [...(this.files.get(file) ?? []), bytes]);
      return;
    }
    this.main ??= new Engine(this.module, size);
    this.main.write(bytes);
  }

  /* Opens the main model, when all parts have arrived. banned: tokens that are never generated. */
  open({ banned }) {
    if (!this.main) throw new EngineError("The file is damaged: it has no model.");
    this.banned = banned;
    this.main.open(banned);
    const model = new Model(this.main);
    this.models.set("main", model);
    return { info: model.info(), ...model.labels() };
  }

  /* Decompresses the file of a state of training, before its first use. */
  async unpack(name) {
    const parts = this.files.get(name);
    if (!parts) return;
    const stream = new Blob(parts).stream().pipeThrough(new DecompressionStream("gzip"));
    this.files.set(name, [new Uint8Array(await new Response(stream).arrayBuffer())]);
    this.model(name);
  }

  model(name) {
    if (!this.models.has(name)) {
      const parts = this.files.get(name);
      if (!parts) throw new EngineError(`There is no model ${name} in this page.`);
      const engine = new Engine(this.module, parts.reduce((size, part) => size + part.length, 0));
      for (const part of parts) engine.write(part);
      engine.open(this.banned);
      this.files.delete(name);
      this.models.set(name, new Model(engine));
    }
    return this.models.get(name);
  }

  inspect(message) {
    return this.model("main").inspect(message);
  }

  /* Returns the probability of the chosen token of `inspect`. */
  probability(message) {
    return this.inspect(message).lens.at(-1).probability;
  }

  draw(message) {
    return this.model("main").draw(message);
  }

  readPrompt(message) {
    return this.model("main").readPrompt(message);
  }

  align(message) {
    return this.model("main").align(message);
  }

  fit(message) {
    return this.model("main").fit(message);
  }

  /* Reads a text, or the answer that ends a dialogue, with several models: {tokens, probabilities: a list for each model}. */
  async learning({ text, models }) {
    const probabilities = [];
    for (const name of models) {
      await this.unpack(name);
      probabilities.push(this.model(name).read(text));
    }
    const main = this.model("main"), first = typeof text === "string" ? 0 : main.ids(text.slice(0, -1)).length;
    return { tokens: main.describe(main.ids(text)).slice(first), probabilities: probabilities.map((ofModel) => ofModel.slice(first)) };
  }

  tokenize(message) {
    return this.model("main").tokenize(message);
  }

  /* Receives a part of the training text. It is decompressed when it is first needed. */
  trainingText({ text }) {
    (this.packedText ??= []).push(fromBase64(text));
  }

  async openTraining(size) {
    if (!this.training) {
      const packed = new Uint8Array(await new Blob(this.packedText).arrayBuffer());
      this.training = new TrainingText(new TextDecoder().decode(expandBzip2(packed, size)));
      this.packedText = null;
    }
    return this.training;
  }

  async matches({ text, size, counted }) {
    const training = await this.openTraining(size), found = training.matches(text);
    return counted ? found.map(({ start, end }) => ({ start, end, count: training.count(text.slice(start, end)) })) : found;
  }

  async passages({ part, size }) {
    return (await this.openTraining(size)).passages(part);
  }

  /* Returns the portable file with the weights that the model has now, or the elements of a page that hold it: a Blob. */
  save({ isFile }) {
    const bytes = this.main.currentFile();
    if (isFile) return new Blob([bytes], { type: "application/octet-stream" });
    const step = (PART_CHARACTERS / 4) * 3, parts = [];
    for (let start = 0; start < bytes.length; start += step) {
      const text = toBase64(bytes.subarray(start, start + step));
      parts.push(dataElement("model", { file: "main", size: bytes.length, text }));
    }
    return new Blob(parts);
  }

  continueSoon() {
    this.channel.port2.postMessage(null);
  }

  /* Works for a moment. */
  runJobs() {
    const job = this.jobs[0];
    if (!job?.isReady) return;
    if (job.type === "learn") this.learn(job);
    else this.write(job);
    if (job.isDone) this.jobs.shift();
    if (this.jobs.length) this.continueSoon();
  }

  /* Makes a step of learning. A sample of the model is written now and then, if it is asked for. */
  learn(job) {
    const model = this.model("main"), { text, settings, sample } = job.request;
    try {
      if (!job.losses) {
        job.steps = model.beginLearning(text, settings);
        job.losses = [];
        job.sampled = -Infinity;
      }
      if (!job.isStopped) {
        const loss = model.engine.learnStep();
        job.losses.push(loss);
        const part = { step: job.losses.length, steps: job.steps, loss, learnedSteps: model.learnedSteps, sample: null };
        if (sample && performance.now() - job.sampled > SAMPLE_MS) {
          part.sample = model.sample(sample);
          job.sampled = performance.now();
        }
        postMessage({ id: job.id, type: "part", part });
      }
      job.isDone = job.isStopped || job.losses.length === job.steps;
      if (!job.isDone) return;
      model.engine.closeLearning();
      const result = { losses: job.losses, sample: sample ? model.sample(sample) : null };
      postMessage({ id: job.id, type: "result", result });
    } catch (error) {
      model.engine.closeLearning();
      job.isDone = true;
      this.fail(job.id, error);
    }
    model.current = null;
  }

  write(job) {
    try {
      const model = this.model(job.model);
      job.text ??= model.begin(job.request);
      const generated = [], end = performance.now() + BATCH_MS;
      if (job.isStopped) job.text.end ??= "stopped";
      do {
        const token = model.next(job.text);
        if (token) generated.push(token);
      } while (!job.text.end && performance.now() < end);
      this.post(job, generated);
    } catch (error) {
      job.text = { end: "error" };
      this.fail(job.id, error);
    }
    job.isDone = job.text.end;
  }

  post({ id, text }, generated) {
    if (generated.length) postMessage({ id, type: "part", part: { tokens: generated, ready: text.ready } });
    text.ready = "";
    if (!text.end) return;
    const { tokens, prompt, isCut, end } = text;
    const result = { rest: text.stopping.finish(), tokens, promptTokens: prompt.length, isCut, end };
    postMessage({ id, type: "result", result });
  }
}

function errorMessage(error) {
  if (error instanceof EngineError) {
    return error.message === "out of memory" ? "There is not enough memory for this text." : error.message;
  }
  if (error instanceof RangeError) return "There is not enough memory for this model.";
  return `The engine failed: ${error.message}`;
}

/* As minigpt/pages/inlining.py writes it. */
function dataElement(kind, { file, size, text }) {
  return `<script type="text/plain" class="${kind}" data-file="${file}" data-size="${size}">${text}<\/script>\n`;
}

function toBase64(bytes) {
  if (bytes.toBase64) return bytes.toBase64();
  let binary = "";
  const MOST = 2 ** 15; /* arguments of a call */
  for (let i = 0; i < bytes.length; i += MOST) binary += String.fromCharCode(...bytes.subarray(i, i + MOST));
  return btoa(binary);
}

function fromBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const binary = atob(text), bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}
