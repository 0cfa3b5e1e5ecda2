// A model that was trained on dialogues: questions and answers in place of one text.

/* The roles that a message of each role may follow; "" is the beginning. As in minigpt/tokenizers/chat_format.py. */
const BEFORE_ROLE = { system: [""], user: ["", "system", "assistant"], assistant: ["user"] };
const ROLE_NAMES = { system: "System", user: "You", assistant: "Model" };

const messageOf = (role, content) => ({ role, content });

/* Returns messages, each with role and content: a question, or perhaps a system message, then questions and answers in turn, a
   question at the end. Throws a TypeError or RangeError that names what is wrong. */
function checkedMessages(messages) {
  const given = typeof messages === "string" ? [messageOf("user", messages)] : messages;
  if (!Array.isArray(given) || !given.length) throw new TypeError("messages: should be a string or an array with at least one message");
  given.forEach((message, at) => {
    const name = `message ${at + 1}`, { role, content } = message ?? {};
    const isInOrder = Object.hasOwn(BEFORE_ROLE, role) && BEFORE_ROLE[role].includes(given[at - 1]?.role ?? "");
    const order = "should be system, if there is such a message, then user and assistant in turn";
    if (!isInOrder) throw new RangeError(`${name}: role: ${JSON.stringify(role)}: ${order}`);
    if (typeof content !== "string") throw new TypeError(`${name}: content: should be a string`);
  });
  if (given.at(-1).role !== "user") throw new RangeError('the last message: should be of the role "user"');
  return given.map(({ role, content }) => messageOf(role, content));
}

// The messages that an address names; null for none, or for others.
function messagesIn(state) {
  try {
    return checkedMessages(state.has("messages") ? JSON.parse(state.get("messages")) : state.get("prompt"));
  } catch {
    return null;
  }
}

// A branch is an answer. Its prompt is the messages that fit into the context, and its turn is {before: the answer before it, or null;
// messages: all of them, up to the question; leftOut: how many of them are not in the prompt; count: the tokens of the prompt}.
class Dialogue extends Writer {
  constructor(client, facts) {
    super(client, facts);
    [this.example] = samplePrompts(facts);
    this.tokens.name = "Answer";
    this.panel.onPin = (index) => this.choose(index, false, this.panel.shown.text);
    nameDialogue();
    this.answer = messageNode("assistant", byId("text"));
    this.list = make("ol", { class: "dialogue", "aria-label": "Dialogue" });
    this.said = make("p", { class: "visually-hidden", "aria-live": "polite" });
    byId("sheet").append(this.list, this.said);
    byId("context-note").after(byId("write-form"));
    const question = () => this.shown.turn.messages.at(-1).content;
    this.buttons = [
      makeButton({ id: "undo" }, () => this.back(this.shown.turn.before, question()), "Undo"),
      makeButton({ id: "new-dialogue" }, () => this.back(null, ""), "New dialogue"),
    ];
    byId("typing").after(...this.buttons);
    byId("copy").after(makeButton({ id: "save-dialogue" }, () => this.save(), "Save dialogue"));
    this.prompt.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.ctrlKey || event.metaKey || event.isComposing) return;
      event.preventDefault();
      byId("write-form").requestSubmit();
    });
    this.prompt.value = "";
    this.clear();
  }

  // Answers what the address asks, or the first example.
  ready() {
    byId("start").disabled = false;
    this.status.say("Ready");
    const settings = this.settings.values();
    if (this.link) this.follow(this.link);
    else if (this.example && settings) this.follow({ prompt: [messageOf("user", this.example)], path: [{ settings }] });
  }

  // The question that is shown and the settings of the form, for the other sections.
  request() {
    if (!this.shown) throw new Error("Ask a question first.");
    return { prompt: this.shown.prompt, settings: this.settings.read(), learnedSteps: this.client.learnedSteps };
  }

  async start() {
    clearError();
    const question = this.prompt.value, system = byId("system").value, isEmpty = question.trim() === "";
    if (isEmpty || this.job) this.status.say(isEmpty ? "Type a question." : "The model is still answering.");
    if (isEmpty || this.job) return;
    this.prompt.value = "";
    try {
      const turns = this.shown ? messagesOf(this.shown).filter(({ role }) => role !== "system") : [];
      const messages = [...(system ? [messageOf("system", system)] : []), ...turns, messageOf("user", question)];
      this.begin(await this.fitted(messages, this.settings.read(), this.shown));
      this.prompt.scrollIntoView({ block: "nearest" });
    } catch (error) {
      this.prompt.value = question;
      showError(error);
    }
  }

  // What makes the branch of an answer to messages.
  async fitted(messages, settings, before) {
    const { prompt, leftOut, count } = await this.client.request("fit", { messages, maxNewTokens: settings.maxNewTokens });
    return { prompt, settings, learnedSteps: this.client.learnedSteps, turn: { before, messages, leftOut, count } };
  }

  // A link contains the answers before the last one, which is written.
  async follow(link) {
    const { prompt: messages, path: [{ settings }] } = link;
    try {
      let before = null;
      for (const [at, { role, content }] of messages.entries()) {
        if (role !== "assistant") continue;
        // Perhaps written with another length, and not with these settings.
        const given = { ...settings, maxNewTokens: 0, isGiven: true };
        const branch = new Branch(await this.fitted(messages.slice(0, at), given, before));
        const { tokens, count } = await this.client.readPrompt([...branch.prompt, messageOf(role, content)]);
        const first = Math.max(0, branch.turn.count - (count - tokens.length));
        before = Object.assign(branch, { tokens: tokens.slice(first), text: content, end: "end" });
        this.tree.add(branch);
      }
      await super.follow({ ...link, ...(await this.fitted(messages, settings, before)) });
    } catch (error) {
      showError(error);
    }
  }

  // Goes back to an answer, or to no dialogue, and puts a question into the field.
  back(before, question) {
    this.job?.stop();
    if (before) this.show(before);
    else this.clear();
    this.prompt.value = question;
    this.prompt.focus();
    this.setAddress();
  }

  clear() {
    this.shown = null;
    this.typing.stop();
    this.panel.clear();
    this.tokens.clear();
    this.tree.select(null);
    this.earlier = []; // {branch, view: a TokenText} of the answers before the one that is shown
    this.list.replaceChildren(this.answer);
    for (const node of [this.answer, byId("text-tools"), byId("legend"), byId("context-note")]) node.hidden = true;
    for (const button of this.buttons) button.disabled = true;
    byId("text-empty").hidden = false;
    this.showProgress();
  }

  // Shows the dialogue before an answer.
  showPrompt({ turn }) {
    this.earlier = [];
    for (let { before } = turn; before; { before } = before.turn) this.earlier.unshift({ branch: before, view: this.earlierAnswer(before) });
    const views = this.earlier.map(({ view }) => view.box.parentElement);
    const text = (content) => make("div", { class: "message-text", dir: "auto" }, content);
    const nodes = turn.messages.map(({ role, content }) => messageNode(role, role === "assistant" ? views.shift() : text(content)));
    const first = nodes.findIndex((node) => !node.classList.contains("system"));
    for (const node of nodes.slice(first, first + turn.leftOut)) node.classList.add("left");
    this.list.replaceChildren(...nodes, this.answer);
    for (const button of this.buttons) button.disabled = this.answer.hidden = false;
  }

  earlierAnswer(branch) {
    const box = make("span", {});
    make("div", { class: "text", dir: "auto" }, box);
    const view = new TokenText(box, "Answer", {
      onPoint: (index) => this.panel.preview(branch, index),
      onChoose: (index) => this.choose(index, false, branch),
      onOpen: (index) => this.choose(index, true, branch),
    });
    view.append(branch.tokens);
    view.describe(branch.continuation);
    view.dimFrom(firstBeyond(branch));
    return view;
  }

  // Chooses a token of the answer that is shown, or of an earlier one.
  choose(index, moveFocus = false, branch = this.shown) {
    for (const { branch: other, view } of this.earlier) view.mark(other === branch ? index : null);
    if (branch === this.shown) return super.choose(index, moveFocus);
    this.shown.chosen = null;
    this.tokens.mark(null);
    this.panel.choose(branch, index);
    if (moveFocus) this.panel.focus();
  }

  // The tokens of the prompt are not shown.
  async readPrompt() {
    this.markContext();
  }

  markContext() {
    const { leftOut, count } = this.shown.turn, gone = count + this.tokens.spans.length - this.maxLen;
    const left = [leftOut > 0 && `${formatInteger(leftOut)} messages, dotted,`, gone > 0 && formatCount(gone, "more token")].filter(Boolean);
    byId("context-note").hidden = left.length === 0;
    byId("context-note").textContent = `The model sees ${formatInteger(this.maxLen)} tokens. The first ${left.join(" and ")} no longer fit.`;
  }

  // A screen reader hears the answer when it is complete.
  complete(branch) {
    super.complete(branch);
    this.said.textContent = branch.continuation;
  }

  get copied() {
    return JSON.stringify({ messages: messagesOf(this.shown) });
  }

  save() {
    const url = URL.createObjectURL(new Blob([`${this.copied}\n`], { type: "application/jsonl" }));
    make("a", { href: url, download: "dialogue.jsonl" }).click();
    this.status.say("Saved");
  }
}

function messageNode(role, content) {
  return make("li", { class: `message ${role}` }, make("div", { class: "note" }, ROLE_NAMES[role]), content);
}

// All messages up to an answer.
function messagesOf({ turn, continuation }) {
  return [...turn.messages, messageOf("assistant", continuation)];
}

// Changes what the page of a model that continues text says.
function nameDialogue() {
  const phrases = [
    ["#write-heading", "Write", "Dialogue"],
    ["#prompt-label", "Prompt", "Question"],
    ["#start", "Write", "Ask"],
    ["#shortcut", /.* /, ""],
    ["#copy", "text", "dialogue"],
    ["#branches-heading", "Texts", "Answers"],
    ["#compare .note", "continue the prompt", "answer the last question"],
    ["#learning .lead", "nothing is sent.", "nothing is sent. It learns to continue the text, not to answer."],
    ["#learning .lead", "with the prompt", "with the last question"],
    ["#training .lead", "with the prompt", "with the last question"],
    ["#matches .lead", "Parts of the text above", "Parts of the last answer above"],
  ];
  for (const [selector, phrase, other] of phrases) {
    const node = document.querySelector(selector);
    node.textContent = node.textContent.replace(phrase, other);
  }
  byId("write").classList.add("of-dialogue");
  byId("chips").setAttribute("aria-label", "Example questions");
}
