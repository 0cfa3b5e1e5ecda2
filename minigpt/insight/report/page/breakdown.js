// Where the loss is: by position in the context, by frequency of the token, and in passages.

const FEW = 30; // The mean loss of fewer tokens says little.

function isFew({ tokens }) {
  return tokens !== null && tokens < FEW;
}

function rangeName({ from, to }) {
  if (to === null) return `${formatInteger(from)} and more`;
  return to - from <= 1 ? formatInteger(from) : `${formatInteger(from)}–${formatInteger(to - 1)}`;
}

function breakdownSection(run) {
  const parts = [
    barsPart("Loss by position in the context", positionNote, "Position", run.positions),
    barsPart("Loss by frequency of the token", frequencyNote, "Occurrences", run.frequencies),
  ].filter(Boolean);
  if (!parts.length) return null;
  return section("breakdown", "Where the loss is", make("p", { class: "note" }, "Loss on the held-out text, in nats per token. Bits per byte are not shown because the groups differ in bytes per token."), make("div", { class: "bars-parts" }, ...parts));
}

// Sentences about the groups of enough tokens.
function positionNote(groups) {
  if (groups.length < 2) return "";
  const [first, last] = [groups[0], groups.at(-1)];
  const flat = groups.find(({ loss }, at) => groups.slice(at + 1).every((later) => later.loss > 0.98 * loss));
  if (flat === last) return `The loss falls to the end of the context, from ${first.loss.toFixed(2)} to ${last.loss.toFixed(2)}.`;
  return `From position ${formatInteger(flat.from)} on, the loss falls by less than 2%.`;
}

function frequencyNote(groups) {
  const about = "How often the token occurs in the training text.";
  if (groups.length < 2) return about;
  const [rare, frequent] = [groups[0], groups.at(-1)];
  const [loss, other] = [rare.loss.toFixed(2), frequent.loss.toFixed(2)];
  const are = loss === other ? "as hard as" : rare.loss > frequent.loss ? "harder than" : "easier than";
  return `${about} Tokens with ${rangeName(rare)} occurrences are ${are} those with ${rangeName(frequent)}: ${loss} and ${other} nats.`;
}

function barsPart(title, note, column, groups) {
  if (!groups?.length) return null;
  const few = groups.some(isFew) ? `Groups of fewer than ${FEW} tokens are pale: their mean says little.` : "";
  const largest = extreme(Math.max, groups.map(({ loss }) => loss)) || 1;
  const rows = groups.map((group) => {
    const bar = make("span", { class: "bar-fill" });
    bar.style.setProperty("--share", String(Math.max(0, Math.min(1, group.loss / largest))));
    return [
      rangeName(group),
      make("span", { class: isFew(group) ? "bar-cell few" : "bar-cell" }, make("span", { class: "bar-track", "aria-hidden": "true" }, bar), make("span", { class: "number" }, group.loss.toFixed(2))),
      group.tokens === null ? "–" : `${formatInteger(group.tokens)}${isFew(group) ? " (few)" : ""}`,
    ];
  });
  return make("div", { class: "part" }, make("h3", {}, title), make("p", { class: "note" }, `${note(groups.filter((group) => !isFew(group)))} ${few}`.trim()), dataTable(title, [column, "Nats per token", "Tokens"], rows, "bars"));
}

function passagesSection(run) {
  const { hardest = [], easiest = [] } = run.passages ?? {};
  if (!hardest.length && !easiest.length) return null;
  const limits = ["50% or more", "20–50%", "5–20%", "1–5%", "under 1%"];
  const legend = make(
    "div",
    { class: "legend" },
    make("span", { id: "legend-title" }, "Probability that the model gave to each token"),
    make("ul", { "aria-labelledby": "legend-title" }, ...limits.map((limit, level) => make("li", {}, make("span", { class: `swatch p${level}` }), limit))),
  );
  return section(
    "passages",
    "Hardest and easiest passages",
    make("p", { class: "note" }, "Held-out passages with the highest and the lowest mean loss. Point at a token, or reach it with Tab and the arrow keys, for its value."),
    legend,
    make("div", { class: "columns" }, passagesPart("Hardest", "hardest", hardest), passagesPart("Easiest", "easiest", easiest)),
  );
}

function passagesPart(title, id, passages) {
  if (!passages.length) return null;
  return make("div", { class: "part" }, make("h3", {}, title), ...passages.map((passage, at) => passageBox(`${title} passage ${at + 1}`, `${id}-${at}`, passage)));
}

function passageBox(name, id, { loss, tokens, source }) {
  const box = make("span", { id });
  const mean = loss === null ? "" : `Mean loss ${loss.toFixed(2)} nats per token.`;
  const readout = make("p", { class: "readout", role: "status" }, mean);
  const show = (index) => {
    if (index === null) {
      readout.replaceChildren(mean);
      return;
    }
    const [text, nats] = tokens[index];
    readout.replaceChildren(tokenLabel(text), ` ${nats.toFixed(2)} nats, probability ${formatPercent(probabilityOf(nats))}`);
  };
  const list = new TokenText(box, name, {
    onPoint: show,
    onChoose: (index) => {
      list.mark(index);
      show(index);
    },
    onOpen: show,
  });
  list.append(tokens.map(([text, nats]) => ({ text: shownText(text), label: text, probability: probabilityOf(nats), picked: false })));
  const before = source && make("p", { class: "passage-source", dir: "auto" }, shownText(source));
  return make("div", { class: "passage" }, before, make("p", { class: "passage-text", dir: "auto" }, box), readout);
}

function probabilityOf(nats) {
  return Math.min(1, Math.exp(-nats));
}
