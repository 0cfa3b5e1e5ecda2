// A model that was trained on dialogues: questions, and answers in place of one text. The answer shown last is written like a text.

/* The roles that a message of each role may follow; "" is the beginning. As in minigpt/tokenizers/chat.py. */
const BEFORE_ROLE = { system: [""], user: ["", "system", "assistant"], assistant: ["user"] };
const ROLE_NAMES = { system: "System", user: "You", assistant: "Model" };

function messageOf(role, content) {
  return { role, content };
}

/* Returns messages, each with role and content: a question, or perhaps a system message, then questions and answers in turn, a
   question at the end. Throws a TypeError or RangeError that names what is wrong. */
function checkedMessages(messages) {
  const given = typeof messages === "string" ? [messageOf("user", messages)] : messages;
  if (!Array.isArray(given) || !given.length) throw new TypeError("messages: should be a string or an array with at least one message");
  const checked = given.map((message, at) => {
    const name = `message ${at + 1}`, { role, content } = message ?? {};
    if (!Object.hasOwn(BEFORE_ROLE, role)) {
      throw new RangeError(`${name}: role: ${JSON.stringify(role)}: should be system, user or assistant`);
    }
    if (typeof content !== "string") throw new TypeError(`${name}: content: should be a string`);
    if (!BEFORE_ROLE[role].includes(given[at - 1]?.role ?? "")) {
      const order = "should be a system message, if there is one, then user and assistant in turn";
      throw new RangeError(`${name}: role: "${role}": ${order}`);
    }
    return messageOf(role, content);
  });
  if (checked.at(-1).role !== "user") throw new RangeError('the last message: should be of the role "user"');
  return checked;
}

function systemOf(messages) {
  return messages.filter(({ role }) => role === "system");
}

// The messages that an address names; null for none, or for others.
function messagesIn(state) {
  try {
    return checkedMessages(state.has("messages") ? JSON.parse(state.get("messages")) : state.get("prompt"));
  } catch {
    return null;
  }
}

function systemField() {
  const field = make("textarea", { id: "system", rows: 2, dir: "auto", spellcheck: "false", autocomplete: "off" });
  return make("div", { class: "field field-system" }, make("label", { for: "system" }, "System message"), field);
}

// A branch is an answer. Its prompt is the messages that fit into the context, and its turn is {before: the answer before it, or null;
// messages: all of them, up to the question; leftOut: how many of them are not in the prompt; count: the tokens of the prompt}.
class Dialogue extends Writer {
  constructor(client, facts) {
    super(client, facts);
    this.examples = samplePrompts(facts);
    this.prompt.value = "";
    this.tokens.name = "Answer";
    this.earlier = []; // {branch, view: a TokenText} of the answers before the one that is shown
    nameDialogue();
    this.answer = this.message("assistant", byId("text"));
    this.list = make("ol", { class: "dialogue", "aria-label": "Dialogue" }, this.answer);
    this.said = make("p", { class: "visually-hidden", "aria-live": "polite" });
    byId("sheet").append(this.list, this.said);
    byId("context-note").after(byId("write-form"));
    this.undoButton = makeButton({ id: "undo" }, () => this.undo(), "Undo");
    this.newButton = makeButton({ id: "new-dialogue" }, () => this.restart(), "New dialogue");
    byId("typing").after(this.undoButton, this.newButton);
    byId("copy").after(makeButton({ id: "save-dialogue" }, () => this.save(), "Save dialogue"));
    this.prompt.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.ctrlKey || event.metaKey || event.isComposing) return;
      event.preventDefault();
      byId("write-form").requestSubmit();
    });
    byId("colors").addEventListener("change", () => this.showColors());
    this.clear();
  }

  // Answers the first example, or what the address asks.
  ready() {
    byId("start").disabled = false;
    this.status.say("Ready");
    const opened = this.link ? this.follow(this.link) : this.examples.length ? this.open(this.examples[0]) : Promise.resolve();
    opened.catch(showError);
  }

  async open(question) {
    this.write(new Branch(await this.fitted([messageOf("user", question)], this.settings.read(), null)));
  }

  // The question that is shown and the settings of the form, for the other sections.
  request() {
    if (!this.shown) throw new Error("Ask a question first.");
    return { prompt: this.shown.prompt, settings: this.settings.read(), learnedSteps: this.client.learnedSteps };
  }

  start() {
    this.ask(this.prompt.value);
  }

  async ask(question) {
    clearError();
    if (question.trim() === "") this.status.say("Type a question.");
    else if (this.job) this.status.say("The model is still answering.");
    if (question.trim() === "" || this.job || this.isAsking) return;
    this.isAsking = true;
    try {
      const system = byId("system").value, turns = this.shown ? messagesOf(this.shown).filter(({ role }) => role !== "system") : [];
      const messages = [...(system ? [messageOf("system", system)] : []), ...turns, messageOf("user", question)];
      this.begin(await this.fitted(messages, this.settings.read(), this.shown));
      if (this.prompt.value === question) this.prompt.value = "";
      this.prompt.scrollIntoView({ block: "nearest" });
    } catch (error) {
      showError(error);
    } finally {
      this.isAsking = false;
    }
  }

  // What makes the branch of an answer to messages.
  async fitted(messages, settings, before) {
    const { prompt, leftOut, count } = await this.client.fit({ messages, maxNewTokens: settings.maxNewTokens });
    return { prompt, settings, learnedSteps: this.client.learnedSteps, turn: { before, messages, leftOut, count } };
  }

  // The answers of a link are those that it contains; the last one is written.
  async linked({ prompt: messages, path: [{ settings }] }) {
    let before = null;
    for (const [at, { role, content }] of messages.entries()) {
      if (role !== "assistant") continue;
      // Not written with these settings; perhaps with a shorter length.
      const fitted = (more) => this.fitted(messages.slice(0, at), { ...settings, ...more, isGiven: true }, before);
      const branch = new Branch(await fitted({}).catch(() => fitted({ maxNewTokens: 0 })));
      const { tokens, count } = await this.client.readPrompt([...branch.prompt, messageOf(role, content)]);
      branch.tokens = tokens.slice(Math.max(0, branch.turn.count - (count - tokens.length)));
      Object.assign(branch, { text: content, end: "end" });
      this.tree.add(branch);
      before = branch;
    }
    return new Branch(await this.fitted(messages, settings, before));
  }

  // Takes back the last question and its answer.
  undo() {
    const { messages, before } = this.shown.turn;
    this.job?.stop();
    if (before) this.show(before);
    else this.clear();
    this.prompt.value = messages.at(-1).content;
    this.prompt.focus();
    this.setAddress();
  }

  restart() {
    this.job?.stop();
    this.clear();
    this.prompt.value = "";
    this.prompt.focus();
    this.setAddress();
  }

  // Shows no dialogue.
  clear() {
    this.shown = null;
    this.typing.stop();
    this.panel.clear();
    this.tokens.clear();
    this.tree.select(null);
    this.earlier = [];
    this.list.replaceChildren(this.answer);
    for (const node of [this.answer, byId("text-tools"), byId("legend"), byId("context-note")]) node.hidden = true;
    byId("text-empty").hidden = false;
    this.undoButton.disabled = this.newButton.disabled = true;
    this.showProgress();
  }

  // Shows the dialogue before an answer.
  showPrompt(branch) {
    const { messages, leftOut } = branch.turn, answers = [];
    for (let { before } = branch.turn; before; { before } = before.turn) answers.unshift(before);
    this.earlier = answers.map((before) => this.earlierAnswer(before));
    const system = systemOf(messages), questions = messages.filter(({ role }) => role === "user");
    const turns = questions.flatMap(({ content }, at) => [
      this.message("user", make("div", { class: "message-text", dir: "auto" }, content)),
      this.earlier[at] ? this.message("assistant", this.earlier[at].view.box.parentElement) : this.answer,
    ]);
    turns.slice(0, leftOut).forEach((node) => node.classList.add("left-out"));
    this.list.replaceChildren(
      ...system.map(({ content }) => this.message("system", make("div", { class: "message-text", dir: "auto" }, content))),
      ...turns,
    );
    this.answer.hidden = false;
    this.undoButton.disabled = this.newButton.disabled = false;
    this.showColors();
  }

  message(role, content) {
    return make("li", { class: `message ${role}` }, make("span", { class: "message-role" }, ROLE_NAMES[role]), content);
  }

  earlierAnswer(branch) {
    const box = make("span", {});
    make("div", { class: "text earlier", dir: "auto" }, box);
    const choose = (index, moveFocus) => this.chooseEarlier(branch, index, moveFocus);
    const view = new TokenText(box, "Answer", {
      onPoint: (index) => this.panel.preview(branch, index),
      onChoose: (index) => choose(index, false),
      onOpen: (index) => choose(index, true),
    });
    view.append(branch.tokens);
    view.describe(branch.continuation);
    view.dimFrom(firstBeyond(branch));
    return { branch, view };
  }

  chooseEarlier(branch, index, moveFocus) {
    this.shown.chosen = null;
    this.tokens.mark(null);
    for (const { branch: other, view } of this.earlier) view.mark(other === branch ? index : null);
    this.panel.choose(branch, index);
    if (moveFocus) this.panel.focus();
  }

  choose(index, moveFocus = false) {
    for (const { view } of this.earlier) view.mark(null);
    super.choose(index, moveFocus);
  }

  pin(index) {
    const { text } = this.panel.shown;
    if (text === this.shown) this.choose(index);
    else this.chooseEarlier(text, index, false);
  }

  showColors() {
    for (const { view } of this.earlier) setAttribute(view.box.parentElement, "data-plain", !byId("colors").checked);
  }

  // The prompt is not shown by its tokens.
  async readPrompt() {
    this.markContext();
  }

  markContext() {
    const { leftOut, count } = this.shown.turn, gone = count + this.tokens.spans.length - this.maxLen;
    const notes = [
      leftOut > 0 && `The first ${formatCount(leftOut, "message")}, dotted, no longer ${leftOut === 1 ? "fits" : "fit"} and are left out.`,
      gone > 0 && `The first ${formatCount(gone, "token")} of the others ${gone === 1 ? "has" : "have"} left its context, too.`,
    ].filter(Boolean);
    byId("context-note").hidden = notes.length === 0;
    byId("context-note").textContent = [`The model sees ${formatInteger(this.maxLen)} tokens.`, ...notes].join(" ");
  }

  // A screen reader hears the answer when it is complete.
  complete(branch) {
    super.complete(branch);
    this.said.textContent = branch.continuation;
  }

  setAddress() {
    if (this.shown) super.setAddress();
    else replaceFragment("");
  }

  get line() {
    return JSON.stringify({ messages: messagesOf(this.shown) });
  }

  async copy() {
    this.typing.showAll();
    const copied = await copyToClipboard(this.line);
    this.status.say(copied ? "Copied" : "The browser does not allow copying. Select the text instead.");
  }

  save() {
    this.typing.showAll();
    const url = URL.createObjectURL(new Blob([`${this.line}\n`], { type: "application/jsonl" }));
    make("a", { href: url, download: "dialogue.jsonl" }).click();
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
    this.status.say("Saved");
  }
}

// All messages up to an answer.
function messagesOf(branch) {
  return [...branch.turn.messages, messageOf("assistant", branch.continuation)];
}

function nameDialogue() {
  const above = "answers the last question above, after the messages before it";
  byId("write").classList.add("of-dialogue");
  byId("write-heading").textContent = byId("nav-write").textContent = "Dialogue";
  byId("prompt-label").textContent = "Question";
  byId("start").textContent = "Ask";
  byId("shortcut").textContent = "Enter";
  byId("chips").setAttribute("aria-label", "Example questions");
  byId("text-empty").textContent = "The dialogue will appear here.";
  byId("copy").textContent = "Copy dialogue";
  byId("branches-heading").textContent = "Answers";
  byId("panel-empty").textContent =
    "The model writes its answer one token after the other: a word, a part of a word, or a sign. Point at one, tap it, or reach it with " +
    "Tab and the arrow keys. This panel then shows what else could have come, how probable it was and, with “Look inside”, what the " +
    "parts of the model do.";
  document.querySelector("#branches-section .note").textContent =
    "Every answer written since the page was opened. Choose one to go back to its dialogue.";
  document.querySelector("#compare summary").textContent = "Two answers side by side";
  document.querySelector("#compare .note").textContent =
    `Each ${above}, with the settings and the seed of the form. Only the temperature and the state of training are their own.`;
  document.querySelector("#learning .lead").textContent =
    "The model can learn from a text of yours, in this page: nothing is sent. It learns to continue the text as it is, not to answer. " +
    `While it learns, it ${above}.`;
  document.querySelector("#training .lead").textContent =
    "The page also contains the model as it was earlier in its training, with weights rounded to 4 bits. Each state " +
    `${above}, with the settings and the seed of the form. Words that differ from the answer shown before are underlined.`;
  document.querySelector("#matches .lead").textContent =
    "The page also contains the dialogues that the model was trained on. Parts of the last answer above that occur in one of their " +
    "messages, the longest matches, are underlined: choose one to see where. A match is not the cause of what was written.";
}
