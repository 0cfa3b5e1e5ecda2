// "Look inside": what each head attends to, what each part of the model changes, and what each layer would have predicted.

class InsideView {
  // off(): the parts that are switched off; onSwitch(part) switches one over.
  constructor({ client, kind, off, onSwitch }) {
    Object.assign(this, { client, kind, off, onSwitch });
    this.section = byId("inside");
    this.state = byId("inside-state");
    this.content = byId("inside-content");
    this.place = null; // {text, index}: what is shown
    this.request = 0;
    this.parts = null;
  }

  // The token changes; what is shown of it follows.
  expect() {
    this.request++;
    this.content.setAttribute("aria-busy", "true");
  }

  hide() {
    this.request++;
    this.place = null;
    this.section.hidden = true;
  }

  // Shows how a token was chosen; the same one again after a change of `off`.
  async show(place = this.place) {
    if (!place) return;
    const request = ++this.request, { text, index } = place, chosen = text.tokens[index];
    this.place = place;
    const wasHidden = this.section.hidden;
    this.section.hidden = false;
    const read = { prompt: text.prompt, tokens: text.tokens.slice(0, index).map(({ id }) => id), chosen: chosen.id };
    try {
      const result = await this.client.inspect({ ...read, ...this.off() });
      if (request !== this.request) return;
      this.render(result, chosen);
      this.content.hidden = false;
      this.content.removeAttribute("aria-busy");
      if (wasHidden) this.section.scrollIntoView({ block: "nearest" });
      if (this.kind !== "encoder_decoder") await this.measure(request, read);
    } catch (error) {
      if (request !== this.request) return;
      this.content.hidden = true;
      this.state.textContent = error.message;
    }
  }

  render(result, chosen) {
    this.parts ??= this.build(result);
    this.chosen = chosen;
    this.base = result.lens.at(-1).chosen;
    this.changed = new Map(); // the name of a part → the probability of the token if it is switched over
    const isOther = formatPercent(this.base) !== formatPercent(chosen.probability);
    const cause = partsOff(this.off()).length ? "With what is switched off" : "With the model as it is now";
    const now = isOther || partsOff(this.off()).length ? ` ${cause}, it has ${formatPercent(this.base)}.` : "";
    this.state.replaceChildren(tokenLabel(chosen.label), ` had a probability of ${formatPercent(chosen.probability)}.${now}`);
    this.parts.attention[0].update(result.context, result.attention, chosen);
    this.parts.attention[1]?.update(result.source, result.cross, null);
    this.parts.lens.replaceChildren(lensPicture(result.lens, chosen));
    this.parts.table.replaceChildren(lensTable(result.lens, chosen));
  }

  // Measures what each part changes: the probability of the token if that part is switched over.
  async measure(request, read) {
    const [view] = this.parts.attention, off = this.off();
    for (const row of view.grid.rows) {
      for (const { modelPart: part } of row) {
        if (part.head !== null && off.withoutLayers.includes(part.layer)) continue;
        const probability = await this.client.probability({ ...read, ...withSwitched(off, part) });
        if (request !== this.request) return;
        this.changed.set(partName(part), probability);
      }
      view.draw();
    }
  }

  // What the square of a part shows, in a model that continues text.
  describe(part, most) {
    const name = partName(part), changed = this.changed.get(name), said = `${capitalized(name)}: most attention to ${most}`;
    const off = isOff(this.off(), part);
    if (changed === undefined) return { shown: off ? "off" : "…", name: off ? `${said}; switched off` : said, change: 0 };
    const largest = Math.max(1e-4, ...Array.from(this.changed.values(), (other) => Math.abs(other - this.base)));
    if (off) return { shown: "off", name: `${said}; switched off; with it, the token has ${formatPercent(changed)}`, change: 0 };
    return {
      shown: formatPercent(changed),
      name: `${said}; without it, the token has ${formatPercent(changed)} in place of ${formatPercent(this.base)}`,
      change: (changed - this.base) / largest,
    };
  }

  build({ layers, heads }) {
    const isPairs = this.kind === "encoder_decoder";
    const common = { layers, heads };
    const attention = isPairs
      ? ["Attention to the translation so far", "Attention to the source"].map(
          (title) => new AttentionView({ ...common, title, intro: "Each square is a head; it shows its largest share of attention." }),
        )
      : [
          new AttentionView({
            ...common,
            title: "What each part changes",
            intro:
              "Each square is a part of the model and shows the probability that the token would have without it. Blue: less; " +
              "orange: more. Point at a head to see what it attends to.",
            describe: (part, most) => this.describe(part, most),
            off: this.off,
            onSwitch: this.onSwitch,
          }),
        ];
    const lens = make("div", { class: "lens-scroll", role: "group", "aria-label": "Logit lens", tabindex: "0" });
    const table = make("div", { class: "lens-scroll", role: "group", "aria-label": "Logit lens as a table", tabindex: "0" });
    const note =
      "The most probable tokens after each layer, if the final norm and the output matrix were applied to its output. The last layer " +
      "makes the prediction.";
    this.content.append(
      ...attention.map((part) => part.node),
      make(
        "div",
        {},
        make("h4", {}, "Logit lens"),
        make("p", { class: "note" }, note),
        lens,
        make("details", {}, make("summary", {}, "As a table"), table),
      ),
    );
    return { attention, lens, table };
  }
}

// A grid of parts, what they attend to, and the tokens that this shades.
class AttentionView {
  // describe(part, most): see `PartGrid.update`; without it the squares show the largest weight. onSwitch(part) as in `InsideView`.
  constructor({ layers, heads, title, intro, describe, off, onSwitch }) {
    Object.assign(this, { layers, heads, off, onSwitch });
    this.describe = describe ?? describeAttention;
    this.tokens = [];
    this.pointed = null;
    const name = `${title}: ${formatCount(layers, "layer")} of ${formatCount(heads, "head")}`;
    this.grid = new PartGrid({ layers, heads, name, onPoint: (part) => this.point(part) });
    this.line = make("p", {});
    this.switch = makeButton({ hidden: true }, () => onSwitch(this.grid.part));
    this.shows = make("p", { class: "note" });
    this.shaded = new ShadedTokens(`${title}: the tokens that were read`, { tabindex: "0" });
    this.largest = make("div", { class: "largest" });
    this.node = make(
      "div",
      { class: "attention" },
      make("h4", {}, title),
      make("p", { class: "note" }, intro),
      make("div", { class: "parts-scroll" }, this.grid.node),
      make("div", { class: "part-head" }, this.line, this.switch),
      this.shows,
      this.shaded.node,
      this.largest,
    );
  }

  // attention: Float32Array of layers × heads × tokens. chosen: the token after them; null if they are not those before it.
  update(tokens, attention, chosen) {
    this.tokens = tokens;
    this.attention = attention;
    this.shaded.setTokens(tokens, chosen);
    this.draw();
  }

  draw() {
    this.grid.update((part) => {
      const weights = this.weightsOf(part), at = mostOf(weights);
      return this.describe(part, `“${spoken(this.tokens[at].label)}”, ${formatPercent(weights[at])}`, weights[at]);
    });
    this.point(this.pointed);
  }

  // The weights of a head, or the mean of the heads of a layer, or of all that are not switched off.
  weightsOf(part) {
    const mean = new Float32Array(this.tokens.length);
    const heads = this.grid.rows.flatMap((row) => row.slice(1).map(({ modelPart }) => modelPart));
    const isMeant = part
      ? ({ layer, head }) => layer === part.layer && head === (part.head ?? head)
      : (head) => !this.off || !isOff(this.off(), head);
    const chosen = heads.filter(isMeant);
    for (const { layer, head } of chosen) {
      const start = (layer * this.heads + head) * mean.length;
      for (let at = 0; at < mean.length; at++) mean[at] += this.attention[start + at] / chosen.length;
    }
    return mean;
  }

  point(part) {
    this.pointed = part;
    const own = part && this.grid.rows[part.layer][part.head === null ? 0 : part.head + 1], chosen = this.grid.part;
    this.line.textContent = own ? `${own.title}.` : "";
    this.switch.hidden = !this.onSwitch || !chosen || (chosen.head !== null && this.off().withoutLayers.includes(chosen.layer));
    if (!this.switch.hidden) this.switch.textContent = `Switch ${partName(chosen)} ${isOff(this.off(), chosen) ? "on" : "off"}`;
    const weights = this.weightsOf(part);
    const entries = Array.from(weights, (weight, at) => ({ token: this.tokens[at], weight }));
    entries.sort((one, other) => other.weight - one.weight);
    this.shaded.shade(weights, part !== null);
    this.shows.textContent =
      `Shades show the attention of ${part ? partName(part) : "all heads on average"}, from 0 to ${formatPercent(entries[0].weight)}` +
      (part ? "; arcs lead to the tokens with the most." : ".");
    this.largest.replaceChildren(make("span", { class: "note" }, "Most attention:"), weightedTokens(entries.slice(0, 5)));
  }
}

// A square that shows the largest weight.
function describeAttention(part, most, largest) {
  return { shown: formatPercent(largest), name: `${capitalized(partName(part))}: most attention to ${most}`, change: -largest };
}

function mostOf(weights) {
  return weights.indexOf(Math.max(...weights));
}

function capitalized(text) {
  return text[0].toUpperCase() + text.slice(1);
}
