// "Look inside": the attention of every head over what the model read, and what each layer would have predicted.

class InsideView {
  // onShown() follows a change of the token; onShade(index, read, source) follows the choice of heads: two views with tokens, weights and a description.
  constructor(box, client, kind, { onShown, onShade }) {
    this.client = client;
    this.kind = kind;
    this.onShown = onShown;
    this.onShade = onShade;
    this.index = null;
    this.request = 0;
    this.state = make("p", { class: "note inside-state" });
    this.content = make("div", { class: "inside", hidden: true });
    this.parts = null;
    box.append(this.state, this.content);
  }

  // The shown token has changed; its view follows.
  expect() {
    this.request++;
    this.content.setAttribute("aria-busy", "true");
    if (this.content.hidden) this.state.textContent = "Looking inside…";
  }

  async show(prompt, tokens, index) {
    const request = ++this.request;
    const chosen = tokens[index];
    try {
      const before = tokens.slice(0, index).map((token) => token.id);
      const result = await this.client.inspect({ prompt, tokens: before, chosen: chosen.id });
      if (request !== this.request) return;
      this.render(result, chosen, index);
      this.state.textContent = "";
      this.content.hidden = false;
      this.parts.attention.forEach((part) => part.afterShow());
      this.onShown();
    } catch (error) {
      if (request !== this.request) return;
      this.content.hidden = true;
      this.state.textContent = error.message;
    } finally {
      if (request === this.request) this.content.removeAttribute("aria-busy");
    }
  }

  render(result, chosen, index) {
    this.index = null; // shades the text once, when all parts are up to date
    this.parts ??= this.build(result);
    this.parts.attention[0].update(result.context, result.attention);
    this.parts.attention[1]?.update(result.source, result.cross);
    this.index = index;
    this.shade();
    this.parts.lens.replaceChildren(lensTable(result.lens, chosen));
  }

  shade() {
    if (this.index === null) return;
    const [read, source] = this.parts.attention;
    this.onShade(this.index, read, source);
  }

  build({ layers, heads }) {
    const onShade = () => this.shade();
    const pairs = this.kind === "encoder_decoder";
    const attention = [
      new AttentionView({
        layers,
        heads,
        title: pairs ? "Attention to the translation so far" : "Attention",
        intro:
          "Each row is a layer, each picture one attention head. Its bars are the tokens before the chosen one, the first at " +
          "the left; the higher the bar, the more attention. Each picture has its own scale. Choose pictures, or layer " +
          "numbers, to shade the text by those heads only.",
        shaded: pairs ? "Translation before the token" : "Text before the token",
        onShade,
      }),
    ];
    if (pairs) {
      const intro = "The same for the tokens of the source.";
      attention.push(
        new AttentionView({ layers, heads, title: "Attention to the source", intro, shaded: "Source", onShade }),
      );
    }
    const lens = make("div", { class: "lens-scroll", role: "group", "aria-label": "Logit lens", tabindex: "0" });
    this.content.append(
      ...attention.map((part) => part.node),
      make("h4", {}, "Logit lens"),
      make(
        "p",
        { class: "note" },
        "What the model would predict if it stopped after this layer: the final norm and the output matrix, applied to the " +
          "layer's output. The last row is the actual prediction. The chosen token is outlined; the last column is its probability.",
      ),
      lens,
    );
    return { attention, lens };
  }
}

// One grid of heads and the tokens that it shades.
class AttentionView {
  constructor({ layers, heads, title, intro, shaded, onShade }) {
    this.onShade = onShade;
    this.tokens = [];
    this.weights = null;
    this.shaded = new ShadedTokens(shaded, { tabindex: "0" });
    this.grid = new HeadGrid({
      layers,
      heads,
      name: `${title}: ${formatCount(layers, "layer")} of ${formatCount(heads, "head")}`,
      onChange: () => this.shade(),
    });
    this.shows = make("span", {});
    this.reset = makeButton({ class: "quiet", hidden: true }, () => this.clear(), "All heads");
    this.largest = make("div", { class: "largest" });
    this.node = make(
      "div",
      { class: "attention" },
      make("h4", {}, title),
      make("p", { class: "note" }, intro),
      this.grid.node,
      make("div", { class: "shaded-head" }, this.shows, this.reset),
      this.shaded.node,
      this.largest,
    );
  }

  update(tokens, attention) {
    this.tokens = tokens;
    this.shaded.setTokens(tokens);
    this.grid.update(attention, tokens);
    this.shade();
  }

  // Pictures need their size on the screen.
  afterShow() {
    this.grid.draw();
    this.shaded.scrollToEnd();
  }

  clear() {
    this.grid.clear();
    this.grid.rows[0][0].focus();
  }

  shade() {
    const weights = this.grid.mean();
    this.weights = weights;
    this.shaded.shade(weights);
    this.shows.textContent = `The shading in the text shows ${this.grid.description()}.`;
    this.reset.hidden = this.grid.selected.size === 0;
    const entries = this.shaded.largest(weights, 5);
    this.largest.replaceChildren(make("span", { class: "note" }, "Most attention, on average:"), weightedTokens(entries));
    this.onShade();
  }
}
