// Samples of each prompt: two epochs side by side, or all of them in a row; words that changed are marked.

function samplesSection(run) {
  const groups = run.samples.filter(({ epochs }) => epochs.length);
  if (!groups.length) return null;
  const epochs = Array.from(new Set(groups.flatMap((group) => group.epochs.map(({ epoch }) => epoch)))).sort((a, b) => a - b);
  const box = make("div", { class: "sample-groups" });
  const state = { mode: null };
  const draw = () => state.mode && box.replaceChildren(...groups.map((group, at) => sampleGroup(group, at, state, run)));
  const options = epochs.map((epoch) => [epoch, `${epoch ? `epoch ${epoch}` : "before training"}${epoch === run.best_epoch ? " (best)" : ""}`]);
  const two = make("div", { class: "choosers" });
  // The newest epoch is the initial choice: it follows training unless the reader chooses another. It is
  // compared with the model that training began from, if there is one.
  const first = chooser("epoch-before", "First", options, epochs[0] === 0 ? 0 : epochs.at(-2) ?? epochs[0], draw);
  const second = chooser("epoch-after", "Second", options, epochs.at(-1), draw);
  state.before = () => Number(first.select.value);
  state.after = () => Number(second.select.value);
  two.append(first.node, second.node);
  const modes = [
    ["two", "two epochs"],
    ["all", "all epochs"],
  ];
  const set = (mode) => {
    state.mode = mode;
    two.hidden = mode !== "two";
    draw();
  };
  const controls = epochs.length > 1 ? make("div", { class: "controls" }, choice("samples-mode", "Show", modes, set), two) : null;
  if (!controls) set("two");
  const shown = epochs.length < run.epochs ? ` Of ${formatInteger(run.epochs)} epochs, this report shows ${formatInteger(epochs.length)}.` : "";
  const what = run.kind === "encoder_decoder" ? "What the model translated after an epoch." : "What the model wrote after an epoch, with the same seed.";
  const key = epochs.length > 1 ? [make("p", { class: "note diff-key" }, make("del", {}, "Dotted line"), ": words that the second text does not have. ", make("ins", {}, "Underlined"), ": words that the first text, or that of the epoch before, does not have.")] : [];
  return section("samples", run.kind === "encoder_decoder" ? "Translations" : "Samples", make("p", { class: "note" }, what + shown), ...key, controls, box);
}

function groupTitle(group) {
  const name = group.source ?? group.prompt ?? "";
  return name === "" ? "Without a prompt" : make("bdi", {}, startOfText(shownText(name), 80));
}

function sampleGroup(group, at, state, run) {
  const title = make("h3", { id: `sample-${at}` }, groupTitle(group));
  return make("div", { class: "part sample-group" }, title, pairOf(group), state.mode === "all" ? rowOfAll(group, at, run) : twoSamples(group, state, run));
}

function pairOf({ source, reference }) {
  if (source === undefined) return null;
  return make("dl", { class: "pair" }, make("dt", {}, "Source"), make("dd", { dir: "auto" }, shownText(source)), make("dt", {}, "Reference"), make("dd", { dir: "auto" }, shownText(reference ?? "–")));
}

function twoSamples(group, state, run) {
  const find = (epoch) => group.epochs.find((sample) => sample.epoch === epoch);
  const [before, after] = [find(state.before()), find(state.after())];
  const same = state.before() === state.after();
  if (same) return make("div", { class: "pair-of-samples" }, sampleCard(group, state.after(), after, null, "ins", run));
  return make(
    "div",
    { class: "pair-of-samples" },
    sampleCard(group, state.before(), before, after, "del", run),
    sampleCard(group, state.after(), after, before, "ins", run),
  );
}

function rowOfAll(group, at, run) {
  const row = make("div", { class: "all-samples", tabindex: "0", role: "group", "aria-labelledby": `sample-${at}` });
  group.epochs.forEach((sample, index) => row.append(sampleCard(group, sample.epoch, sample, group.epochs[index - 1], "ins", run)));
  return row;
}

// kind: of the element that marks what `other` does not have.
function sampleCard(group, epoch, sample, other, kind, run) {
  const text = make("p", { class: "sample-text", dir: "auto" });
  if (!sample) text.append(make("span", { class: "faint" }, "No sample of this epoch."));
  else {
    if (group.prompt) text.append(make("span", { class: "prompt" }, shownText(group.prompt)));
    const parts = other ? changedParts(other.text, sample.text) : [{ text: sample.text, changed: false }];
    text.append(...parts.map((part) => (part.changed ? make(kind, {}, shownText(part.text)) : shownText(part.text))));
  }
  return make("div", { class: "sample-card" }, make("h4", {}, epoch ? `Epoch ${epoch}` : "Before training", epoch === run.best_epoch && make("span", { class: "faint" }, " best")), text);
}
