// The texts written on this page: a tree whose branches are continuations of an earlier text.

class Branch {
  // kept: the tokens taken over from the parent, the chosen alternative last.
  constructor({ prompt, settings, learnedSteps = 0, parent = null, kept = [], instead = null, turn = parent?.turn ?? null }) {
    this.learnedSteps = learnedSteps; // those of the weights that write it
    this.prompt = prompt; // a text, or messages
    this.turn = turn; // of an answer: see `Dialogue`
    this.settings = settings;
    this.parent = parent;
    this.keptCount = kept.length;
    this.tokens = [...kept];
    this.instead = instead; // the token of the parent that the alternative replaced
    this.text = null; // the continuation, once it is complete
    this.end = null;
    this.number = 0;
    this.ending = ""; // how it ended, in words
    this.read = null; // the prompt as the model has read it
    this.chosen = null; // the token that was looked at last
  }

  get continuation() {
    return this.text ?? this.tokens.map((token) => token.text).join("");
  }

  // The branches on the way to this one: first the text without choices, last this one.
  get path() {
    return [...(this.parent?.path ?? []), this];
  }

  get isComplete() {
    return this.end !== null && this.end !== "stopped";
  }

  get ids() {
    return this.tokens.map((token) => token.id);
  }

  // The length that the text is to have.
  get limit() {
    return this.keptCount + this.settings.maxNewTokens;
  }
}

class BranchTree {
  constructor(list, section, onSelect) {
    this.list = list;
    this.section = section;
    this.onSelect = onSelect;
    this.items = new Map(); // branch → its elements
  }

  add(branch) {
    branch.number = this.items.size + 1;
    const button = makeButton({ class: "branch" }, () => this.onSelect(branch));
    const children = make("ol", { hidden: true });
    const item = make("li", {}, button, children);
    const above = branch.parent ? this.items.get(branch.parent).children : this.list;
    above.hidden = false;
    above.append(item);
    this.items.set(branch, { button, children });
    this.section.hidden = this.items.size < 2;
    this.update(branch);
  }

  // Returns the texts with the same prompt, settings and seed, written with the same weights.
  find({ prompt, settings, learnedSteps }) {
    const wanted = JSON.stringify([prompt, settings, learnedSteps]);
    return [...this.items.keys()].filter(
      (branch) => !branch.parent && JSON.stringify([branch.prompt, branch.settings, branch.learnedSteps]) === wanted,
    );
  }

  update(branch) {
    const { button } = this.items.get(branch);
    const track = make("span", { class: "track", "aria-hidden": "true" });
    const size = Math.max(1, branch.limit, branch.tokens.length);
    track.style.setProperty("--kept", String(branch.keptCount / size));
    track.style.setProperty("--written", String(branch.tokens.length / size));
    const snippet = branch.tokens.slice(branch.keptCount).map((token) => token.text);
    button.replaceChildren(
      make("span", { class: "branch-number" }, String(branch.number)),
      make("span", { class: "branch-name" }, ...branchName(branch)),
      make("bdi", { class: "branch-text" }, startOfText(snippet.join(""), 60) || "…"),
      track,
    );
  }

  select(branch) {
    for (const [other, { button }] of this.items) {
      setAttribute(button, "aria-current", other === branch ? "true" : null);
    }
  }

  focus(branch) {
    this.items.get(branch)?.button.focus();
  }
}

function branchName(branch) {
  if (!branch.parent) {
    const prompt = startOfText(shownPrompt(branch.prompt), 40);
    const name = prompt ? make("bdi", {}, prompt) : "No prompt";
    return [name, make("span", { class: "faint" }, ` seed ${branch.settings.seed}`)];
  }
  const place = make("span", { class: "faint" }, ` at token ${formatInteger(branch.keptCount)}`);
  if (!branch.instead)
    return ["continued", make("span", { class: "faint" }, ` after token ${formatInteger(branch.keptCount)}`)];
  const chosen = branch.tokens[branch.keptCount - 1];
  return [
    tokenLabel(chosen.label),
    make("span", { class: "faint" }, " instead of "),
    tokenLabel(branch.instead.label),
    place,
  ];
}
