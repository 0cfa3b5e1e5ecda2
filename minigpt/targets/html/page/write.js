// Writing: the form, the text that is shown, and its continuations.

const SHOWN_PROMPT = 1500; // characters

class Writer {
  constructor(client, facts) {
    this.client = client;
    this.settings = new SettingsForm(facts);
    this.status = new StatusLine(byId("status"));
    this.job = null;
    this.shown = null; // the branch on the page
    this.tree = new BranchTree(byId("branches"), byId("branches-section"), (branch) => {
      this.show(branch);
      this.setAddress();
    });
    this.panel = new TokenPanel({
      onChoose: (branch, index, alternative) => this.branch(branch, index, alternative),
      onPin: (index) => this.choose(index),
      onClose: () => this.tokens.focus(),
      draw: (branch, index, ids) => this.draw(branch, index, ids),
      inside: new InsideView({
        client,
        kind: facts.kind,
        off: () => this.settings.off,
        onSwitch: (part) => this.settings.switchOff(withSwitched(this.settings.off, part)),
      }),
    });
    this.settings.onOff = () => this.panel.inside.show();
    byId("settings-row").addEventListener("input", () => this.panel.showDraw());
    this.tokens = new TokenText(byId("text-tokens"), "Continuation", {
      onPoint: (index) => this.panel.preview(this.shown, index),
      onChoose: (index) => this.choose(index),
      onOpen: (index) => this.choose(index, true),
    });
    this.typing = new Typing({
      onShow: (tokens) => {
        this.tokens.append(tokens);
        this.markContext();
      },
      onEnd: () => this.complete(this.shown),
      onStep: () => this.tokens.spans.length && this.choose(this.tokens.spans.length - 1),
      onChange: () => this.showProgress(),
    });
    this.promptTokens = new TokenText(byId("prompt-tokens"), "Prompt", {
      onPoint: (index) => this.panel.preview(this.shown.read, index),
      onChoose: (index) => this.choosePrompt(index),
      onOpen: (index) => this.choosePrompt(index, true),
    });
    this.maxLen = facts.model.max_len;
    this.prompt = byId("prompt");
    this.prompt.value = facts.sampling.prompts?.[0] ?? "";
    listenToForm(() => this.start());
    showChips(samplePrompts(facts), () => this.start());
    listenToAddress(this);
    byId("stop").addEventListener("click", () => this.job?.stop());
    byId("continue").addEventListener("click", () => this.continue());
    byId("copy").addEventListener("click", () => {
      this.typing.showAll();
      this.status.copy(this.copied);
    });
    listenToColors();
  }

  ready() {
    byId("start").disabled = false;
    this.status.say("Ready");
    try {
      if (this.link) this.follow(this.link);
      else this.write(new Branch(this.request()));
    } catch (error) {
      showError(error);
    }
  }

  // The prompt and the settings of the form, and the state of the weights; throws an Error for a setting out of range.
  request() {
    return { prompt: this.prompt.value, settings: this.settings.read(), learnedSteps: this.client.learnedSteps };
  }

  start() {
    clearError();
    try {
      this.begin(this.request());
    } catch (error) {
      showError(error);
    }
  }

  // Writes what the form asks for, with a new seed if it is written already. request: as `Branch` takes it.
  begin(request) {
    const same = this.client.isLearning ? [] : this.tree.find(request);
    const isNew = same.length === 0 || this.settings.drawSeed();
    const complete = same.find((branch) => branch.isComplete);
    if (isNew || !complete) {
      this.write(new Branch({ ...request, settings: this.settings.read() }));
    } else {
      this.show(complete);
      this.status.say("The same prompt, settings and seed give the same text.");
    }
    this.setAddress();
  }

  // Writes the text of a link and its branches, and chooses its token.
  async follow({ prompt, turn, path: [{ settings }, ...steps], token }) {
    clearError();
    let branch = new Branch({ prompt, turn, settings, learnedSteps: this.client.learnedSteps });
    for (let next = branch; next; next = forkOf(branch, steps.shift())) {
      branch = next;
      await this.write(branch);
      if (this.shown !== branch) return;
    }
    if (!branch.tokens[token]) return;
    this.typing.showAll();
    this.choose(token);
  }

  // Writes on from the tokens before the index and the alternative in its place.
  branch(branch, index, alternative) {
    this.fork(branch, keptTokens(branch, index, alternative), branch.tokens[index]);
  }

  continue() {
    const branch = this.shown;
    if (branch && canContinue(branch)) this.fork(branch, branch.tokens, null);
  }

  // The continuation uses the settings of the form.
  fork(parent, kept, instead) {
    clearError();
    try {
      const branch = new Branch({ prompt: parent.prompt, settings: this.settings.read(), parent, kept, instead });
      this.write(branch);
      if (instead) {
        this.choose(kept.length - 1);
        this.tokens.focus();
      } else {
        byId(this.typing.isOn ? "pause" : "stop").focus({ preventScroll: true });
      }
      this.setAddress();
    } catch (error) {
      showError(error);
    }
  }

  // Resolves when the text is complete; it may still be shown token by token.
  async write(branch) {
    this.job?.stop();
    this.tree.add(branch);
    this.show(branch);
    const speedometer = new Speedometer();
    const job = this.client.generate({
      ...branch.settings,
      prompt: branch.prompt,
      kept: branch.ids,
      maxNewTokens: branch.limit,
      onTokens: (tokens) => {
        speedometer.add(tokens.length);
        branch.tokens.push(...tokens);
        if (this.shown === branch) this.typing.update();
      },
    });
    this.setJob(job);
    this.status.say(this.client.isLearning ? "Waiting until the model has learned…" : "Writing…");
    try {
      const result = await job.done;
      branch.learnedSteps = this.client.learnedSteps;
      branch.text = result.text;
      branch.end = result.end;
      branch.ending = describeEnd(result, speedometer);
      completeKept(branch);
    } catch (error) {
      branch.end = "stopped";
      showError(error);
    } finally {
      if (this.job === job) this.setJob(null);
      if (this.shown === branch) this.typing.update();
      else this.tree.update(branch);
    }
  }

  // Returns what a token would be drawn from with the settings of the form and the seed of its text; null if a setting is wrong.
  async draw({ prompt, tokens, settings: { seed, withoutHeads, withoutLayers } }, index, ids) {
    const settings = this.settings.values();
    if (!settings) return null;
    const before = tokens.slice(0, index).map(({ id }) => id);
    const draw = await this.client.draw({ ...settings, seed, withoutHeads, withoutLayers, prompt, tokens: before, ids });
    return [draw, settings.temperature === 0 || settings.topK === 1];
  }

  setJob(job) {
    this.job = job;
    this.showProgress();
  }

  showProgress() {
    showWriting(this.job !== null, this.typing.isOn);
  }

  show(branch) {
    this.shown = branch;
    this.typing.stop();
    this.panel.clear();
    byId("text-empty").hidden = true;
    byId("text-tools").hidden = false;
    byId("legend").hidden = false;
    this.promptTokens.clear();
    this.showPrompt(branch);
    this.tokens.clear();
    this.tokens.append(branch.tokens);
    byId("context-note").hidden = true;
    this.gone = 0; // tokens that have left the context
    this.readPrompt(branch).catch(showError);
    this.tree.select(branch);
    byId("continue").hidden = true;
    if (branch.end !== null) this.complete(branch);
    else this.typing.start(branch);
    if (branch.chosen !== null) this.choose(branch.chosen);
    this.showProgress();
  }

  showPrompt({ prompt }) {
    const end = shownPrompt(prompt);
    byId("prompt-start").textContent = end;
    const note = byId("prompt-note");
    note.hidden = end.length === prompt.length;
    note.textContent = `The end of the prompt: the last ${formatInteger(end.length)} of ${formatInteger(prompt.length)} characters.`;
  }

  // Shows the tokens of the prompt, as soon as the model has read it.
  async readPrompt(branch) {
    branch.read ??= branch.parent?.read ?? { ...(await this.client.readPrompt(branch.prompt)), isPrompt: true };
    if (this.shown !== branch || this.promptTokens.spans.length) return;
    const start = byId("prompt-start"), shown = start.textContent, { tokens } = branch.read;
    let first = tokens.length, size = 0;
    while (first > 0 && size + tokens[first - 1].text.length <= shown.length) size += tokens[--first].text.length;
    const seen = tokens.slice(first);
    // A tokenizer may have changed the text, and its first token may have lost a space.
    if (shown.endsWith(seen.map(({ text }) => text).join(""))) {
      branch.read.tokens = seen;
      start.textContent = shown.slice(0, shown.length - size);
      this.promptTokens.append(seen);
    }
    this.gone = 0;
    this.markContext();
  }

  // Marks the tokens that the next one does not depend on.
  markContext() {
    const { read } = this.shown;
    if (!read) return;
    const ofPrompt = this.promptTokens.spans, written = this.tokens.spans;
    // Without a prompt, the model has read the end token.
    const gone = Math.max(0, Math.max(1, read.count) + written.length - this.maxLen);
    for (; this.gone < gone; this.gone++) {
      const at = this.gone - read.count;
      (ofPrompt[at + ofPrompt.length] ?? written[at])?.classList.add("left");
    }
    byId("prompt-start").classList.toggle("left", gone > 0);
    const note = byId("context-note");
    note.hidden = gone === 0;
    note.textContent =
      `The model sees ${formatInteger(this.maxLen)} tokens. The first ${formatCount(gone, "token")} of this text, dotted, ` +
      `${gone === 1 ? "has" : "have"} left its context. From there on, each token takes a new pass over the whole context: it writes more slowly.`;
  }

  choosePrompt(index, moveFocus = false) {
    this.shown.chosen = null;
    this.tokens.mark(null);
    this.promptTokens.mark(index);
    this.panel.choose(this.shown.read, index);
    if (moveFocus) this.panel.focus();
  }

  // What is known only when the text is complete.
  complete(branch) {
    if (branch.keptCount > 0) this.tokens.replace(branch.keptCount - 1, branch.tokens[branch.keptCount - 1]);
    this.tokens.describe(branch.continuation);
    this.tokens.dimFrom(firstBeyond(branch));
    this.tree.update(branch);
    this.status.say(branch.ending);
    byId("continue").hidden = !canContinue(branch);
  }

  choose(index, moveFocus = false) {
    this.shown.chosen = index;
    this.promptTokens.mark(null);
    this.tokens.mark(index);
    this.panel.choose(this.shown, index);
    this.tokens.reveal(byId("panel"));
    if (moveFocus) this.panel.focus();
    // Browsers limit how often the address may change.
    clearTimeout(this.addressing);
    this.addressing = setTimeout(() => this.setAddress(), 200);
  }

  setAddress() {
    clearTimeout(this.addressing);
    if (this.shown) this.settings.writeAddress(this.shown.path, this.shown.chosen);
    else replaceFragment("");
  }

  get copied() {
    return this.shown.prompt + this.shown.continuation;
  }
}

// The text of an alternative is that of the token alone. In a model of words a space precedes it in the text.
function separatorOf(token) {
  const alone = token.alternatives.find(({ id }) => id === token.id)?.text ?? token.label;
  return token.text === ` ${alone}` ? " " : "";
}

// The tokens before the index, and an alternative in its place.
function keptTokens(branch, index, alternative) {
  const replaced = branch.tokens[index];
  const text = separatorOf(replaced) + alternative.text;
  return [...branch.tokens.slice(0, index), { ...alternative, text, alternatives: replaced.alternatives, picked: true }];
}

// The branch of a text that a link describes; null if the text has no such branch. Without an id it continues the text.
function forkOf(parent, { kept, id, settings } = {}) {
  const { prompt, tokens } = parent;
  if (id === undefined) {
    return kept === tokens.length && canContinue(parent) ? new Branch({ prompt, settings, parent, kept: tokens }) : null;
  }
  const instead = tokens[kept - 1], alternative = instead?.alternatives.find((token) => token.id === id);
  return alternative ? new Branch({ prompt, settings, parent, kept: keptTokens(parent, kept - 1, alternative), instead }) : null;
}

// A token that completes a character has no text alone. The whole text shows what it adds.
function completeKept(branch) {
  const at = branch.keptCount - 1;
  if (at < 0 || !branch.tokens[at].picked) return;
  const before = branch.tokens
    .slice(0, at)
    .map((token) => token.text)
    .join("");
  const after = branch.tokens
    .slice(at + 1)
    .map((token) => token.text)
    .join("");
  const length = branch.text.length - before.length - after.length;
  if (length < 0 || !branch.text.startsWith(before) || !branch.text.endsWith(after)) return;
  branch.tokens[at] = { ...branch.tokens[at], text: branch.text.slice(before.length, before.length + length) };
}

function canContinue(branch) {
  return branch.end !== null && branch.end !== "end";
}

// The index of the first token that the text does not contain, because a stop string ended it.
function firstBeyond(branch) {
  if (branch.end !== "stop string" || branch.text === null) return branch.tokens.length;
  let length = 0;
  return (
    branch.tokens.findIndex((token) => {
      const beyond = length >= branch.text.length && token.text !== "";
      length += token.text.length;
      return beyond;
    }) >>> 0
  );
}

// What is shown of a prompt: the end of a text, or the last question of a dialogue.
function shownPrompt(prompt) {
  return typeof prompt === "string" ? endOfText(prompt, SHOWN_PROMPT) : `${prompt.at(-1).content}\n`;
}

// isTyping: whether tokens are still shown one by one.
function showWriting(isWriting, isTyping = false) {
  const focused = document.activeElement;
  byId("stop").hidden = !isWriting || isTyping;
  byId("typing").hidden = !isTyping;
  byId("step").disabled = !isTyping;
  byId("shortcut").hidden = isWriting || isTyping;
  if (focused.closest(".actions [hidden]")) byId("start").focus({ preventScroll: true });
  setAttribute(byId("sheet"), "data-writing", isWriting || isTyping);
}

// The button, and Ctrl+Enter or Cmd+Enter in the form.
function listenToForm(onStart) {
  const form = byId("write-form");
  if (/Mac|iPhone|iPad/.test(navigator.platform)) byId("shortcut").textContent = "Cmd + Enter";
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!byId("start").disabled) onStart();
  });
  form.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    form.requestSubmit();
  });
}

// Fills the form with what the address names, and writes it when the model is ready and whenever another link is opened.
function listenToAddress(desk) {
  desk.link = desk.settings.readAddress();
  window.addEventListener("hashchange", () => {
    const link = desk.settings.readAddress();
    if (link && byId("start").disabled) desk.link = link;
    else if (link) desk.follow(link);
  });
}

function listenToColors() {
  byId("colors").addEventListener("change", (event) => {
    setAttribute(byId("sheet"), "data-plain", !event.target.checked);
    setAttribute(byId("legend"), "data-plain", !event.target.checked);
  });
}
