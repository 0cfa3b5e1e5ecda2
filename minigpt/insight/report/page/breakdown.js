// Where the loss is: by position in the context, by frequency of the token, and in passages.

function rangeName({ from, to }) {
  if (to === null) return `${formatInteger(from)} and more`;
  return to - from <= 1 ? formatInteger(from) : `${formatInteger(from)}–${formatInteger(to - 1)}`;
}

function breakdownSection(run) {
  const parts = [
    barsPart("Loss by position in the context", "The first position has no context. Where the loss stops falling, more context does not help.", "Position", run.positions),
    barsPart("Loss by frequency of the token", "How often the token occurs in the training text. Rare tokens are harder.", "Occurrences", run.frequencies),
  ].filter(Boolean);
  if (!parts.length) return null;
  return section("breakdown", "Where the loss is", make("p", { class: "note" }, "Loss on the held-out text, in nats per token. Bits per byte are not shown because the groups differ in bytes per token."), make("div", { class: "bars-parts" }, ...parts));
}

function barsPart(title, note, column, groups) {
  if (!groups?.length) return null;
  const largest = extreme(Math.max, groups.map(({ loss }) => loss)) || 1;
  const rows = groups.map((group) => {
    const bar = make("span", { class: "bar-fill" });
    bar.style.setProperty("--share", String(Math.max(0, Math.min(1, group.loss / largest))));
    return [
      rangeName(group),
      make("span", { class: "bar-cell" }, make("span", { class: "bar-track", "aria-hidden": "true" }, bar), make("span", { class: "number" }, group.loss.toFixed(2))),
      group.tokens === null ? "–" : formatInteger(group.tokens),
    ];
  });
  return make("div", { class: "part" }, make("h3", {}, title), make("p", { class: "note" }, note), dataTable(title, [column, "Loss", "Tokens"], rows, "bars"));
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

function passageBox(name, id, { loss, tokens }) {
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
  return make("div", { class: "passage" }, make("p", { class: "passage-text", dir: "auto" }, box), readout);
}

function probabilityOf(nats) {
  return Math.min(1, Math.exp(-nats));
}
