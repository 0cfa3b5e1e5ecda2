// "Learn": a text of the reader changes the weights; the page can be saved with the new ones.

// The page of a base: a text is pasted first.
function putLearningFirst() {
  byId("write").before(byId("learning"));
  byId("learn-fold").open = byId("learn-fold").firstElementChild.hidden = true;
  byId("learning").hidden = byId("nav-learning").hidden = false;
  byId("learning-heading").textContent = "Paste a text of yours";
  byId("learn-lead").textContent =
    "A story, letters, notes: English of 5 KB or more. The model knows the language already. It learns the manner of 20 KB in about half " +
    "a minute, in this page: nothing is sent. Then it writes, below.";
}

// A base is sampled as `minigpt train` samples a text of the user: SAMPLES in minigpt/config/complete.py. It begins with a prompt.
function sampleAsTraining(sampling) {
  sampling.temperature = 0.7;
  sampling.prompts = sampling.prompts?.filter(Boolean);
}

// The first words of a paragraph in the middle of a text.
function beginningOf(text) {
  const MOST = 5, paragraphs = text.split("\n").filter((line) => line.length > 40);
  return (paragraphs[paragraphs.length >> 1] ?? text).trim().split(/\s+/, MOST).join(" ");
}

// What is said of a text before it is learned.
const textNote = ({ length }) => (length > 0 && length < 2000 ? "A short text: the model will repeat it." : "");

const LEARNING_BUTTONS = ["learn-start", "save-page", "save-file"];

class LearningView {
  // request(): the prompt and the settings of the form "Write".
  constructor(client, facts, request) {
    this.client = client;
    this.facts = facts;
    this.request = request;
    this.job = null;
    this.status = new StatusLine(byId("learn-status"));
    this.fields = LEARNING_SETTINGS.map((setting) => ({ setting, input: this.field(setting) }));
    byId("learning").hidden = byId("nav-learning").hidden = false;
    for (const name of LEARNING_BUTTONS) byId(name).disabled = false;
    byId("learn-form").addEventListener("submit", (event) => {
      event.preventDefault();
      if (!this.job) this.learn();
    });
    byId("learn-text").addEventListener("input", ({ target }) => this.job || this.status.say(textNote(target.value)));
    byId("learn-stop").addEventListener("click", () => this.job?.stop());
    byId("save-page").addEventListener("click", () => this.save("html"));
    byId("save-file").addEventListener("click", () => this.save("gguf"));
    client.onLearned = () => this.describe();
    this.keptSteps = client.learnedSteps; // those in a file: this page, or the one that was saved last
    this.describe();
  }

  field({ option, label, isNumber, least, most, default: value }) {
    const id = `learn-${option}`, step = isNumber ? "any" : 1;
    const input = make("input", { type: "number", id, step, min: least, inputmode: isNumber ? "decimal" : "numeric", placeholder: value ?? "by the text" });
    byId("learn-fields").append(make("div", { class: "field" }, make("label", { for: id }, label), input));
    return input;
  }

  // The values of the form; an empty field has its default, and a wrong one NaN.
  settings() {
    const given = this.fields.filter(({ input }) => input.value !== "" || input.validity.badInput);
    return Object.fromEntries(given.map(({ setting, input }) => [setting.option, numberIn(input.value)]));
  }

  // Marks the field that an error is about. Returns the error with the label of the field for its name.
  marked(error) {
    const [name, ...rest] = error.message.split(": "), field = this.fields.find(({ setting }) => setting.option === name);
    if (name === "text") return new Error("Paste a longer text.");
    if (!field) return error;
    byId("learn-settings").open = true;
    field.input.setAttribute("aria-invalid", "true");
    field.input.focus();
    return new Error([field.setting.label, ...rest].join(": "));
  }

  async learn() {
    clearError();
    for (const { input } of this.fields) input.removeAttribute("aria-invalid");
    try {
      const text = byId("learn-text").value, speedometer = new Speedometer();
      if (text.trim().length < 2) {
        byId("learn-text").focus();
        this.status.say("Paste a text first.");
        return;
      }
      /* Without a prompt, a model that has learned little writes as the base does. */
      if (this.facts.is_base) byId("prompt").value = beginningOf(text);
      const { prompt, settings } = this.request();
      this.losses = [];
      this.setJob(this.client.learn({
        text,
        settings: this.settings(),
        sample: { ...settings, prompt },
        onPart: (part) => {
          speedometer.add(1);
          this.show(part, prompt, speedometer);
        },
      }));
      this.status.say(`Learning… ${textNote(text)}`);
      const { losses, sample } = await this.job.done;
      if (sample !== null) byId("learn-sample").textContent = sample;
      const [first, last] = [losses[0], losses.at(-1)].map((loss) => loss.toFixed(2));
      this.status.say(`Done after ${formatCount(losses.length, "step")}: the loss went from ${first} to ${last} nats per token.`);
      if (this.facts.is_base) byId("write-form").requestSubmit();
    } catch (error) {
      this.status.say("");
      showError(this.marked(error));
    } finally {
      this.setJob(null);
    }
  }

  show({ step, steps, loss, sample }, prompt, speedometer) {
    const speed = speedometer.speed(), left = speed && step < steps ? `, ${formatSeconds(Math.ceil((steps - step) / speed))} left` : "";
    byId("learn-sheet").hidden = false;
    this.losses.push(loss);
    byId("learn-progress").replaceChildren(
      `Step ${formatInteger(step)} of ${formatInteger(steps)}: loss ${loss.toFixed(3)} nats per token${left} `,
      this.losses.length > 1 ? smallCurve(this.curve()) : "",
    );
    if (sample === null) return;
    byId("learn-prompt").textContent = shownPrompt(prompt);
    byId("learn-sample").textContent = sample;
  }

  // At most MOST losses, as shares of the largest one.
  curve() {
    const MOST = 200;
    const stride = Math.ceil(this.losses.length / MOST);
    const shown = this.losses.filter((_, at) => at % stride === 0 || at === this.losses.length - 1);
    const largest = Math.max(...shown);
    return shown.map((loss) => loss / largest);
  }

  setJob(job) {
    const focused = document.activeElement;
    this.job = job;
    byId("learn-stop").hidden = job === null;
    for (const name of LEARNING_BUTTONS) byId(name).disabled = job !== null;
    if (job && focused === byId("learn-start")) byId("learn-stop").focus({ preventScroll: true });
    if (!job && focused === byId("learn-stop")) byId("learn-start").focus({ preventScroll: true });
  }

  // Says that the weights are no longer those of the export.
  describe() {
    const steps = this.client.learnedSteps, isKept = steps === this.keptSteps;
    for (const name of ["learned-note", "save-file"]) byId(name).hidden = steps === 0;
    if (!isKept) byId("save-page").hidden = false;
    byId("learned-note").textContent =
      `The model has learned since the export, by ${formatCount(steps, "step")}. ${isKept ? "" : "Save this page to keep the weights. "}` +
      `The scores and samples below are those of before${this.facts.snapshots.length > 1 ? "; the last state below “Training” is the model as it is now" : ""}.`;
  }

  // ending: of a page or of a portable file.
  async save(ending) {
    clearError();
    try {
      const name = `${this.facts.title || "model"}-learned.${ending}`;
      make("a", { href: await this.client.saveUrl(ending === "gguf"), download: name }).click();
      this.keptSteps = this.client.learnedSteps;
      this.describe();
      this.status.say("Saved");
    } catch (error) {
      showError(error);
    }
  }
}
