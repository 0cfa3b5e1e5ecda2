// Tokens that are shaded by weights, on a linear scale: what a head attended to, the source words of a translation.

const LEAST_ARC = 0.04; // of the largest weight

class ShadedTokens {
  constructor(name, attributes = {}) {
    this.node = make("div", { class: "shaded", role: "group", "aria-label": name, dir: "auto", ...attributes });
    this.picture = makeSvg("svg", { class: "arcs", "aria-hidden": "true" });
    this.arcs = [];
    watchWidth(this.node, () => this.drawArcs());
  }

  // chosen: the token after them, if arcs are to lead from it.
  setTokens(tokens, chosen = null) {
    this.spans = tokens.map((token) => make("span", { class: "shade" }, ...filledText(token)));
    this.chosen = chosen && make("span", { class: "shade chosen" }, ...filledText(chosen));
    this.node.replaceChildren(...this.spans, this.chosen ?? "", this.picture);
    this.node.scrollTop = this.node.scrollHeight;
  }

  // The largest weight has the full shade; null removes all shades. hasArcs: whether arcs lead to the largest weights.
  shade(weights, hasArcs = false) {
    if (weights && weights.length !== this.spans.length) return;
    const largest = weights ? weights.reduce((max, weight) => Math.max(max, weight), 1e-9) : 1;
    this.arcs = [];
    this.spans.forEach((span, at) => {
      const share = weights ? weights[at] / largest : 0;
      span.style.setProperty("--weight", share.toFixed(3));
      if (hasArcs && this.chosen && share >= LEAST_ARC) this.arcs.push({ span, share });
    });
    this.drawArcs();
  }

  drawArcs() {
    this.picture.replaceChildren();
    if (!this.arcs.length) return;
    const page = this.picture.getBoundingClientRect();
    const place = (span) => {
      const { x, y, height } = middleOf(span.querySelector(".fill"));
      return { x: x - page.left, y: y - height / 2 - page.top };
    };
    const start = place(this.chosen);
    for (const { span, share } of this.arcs) {
      const end = place(span), top = Math.min(start.y, end.y) - 8 - Math.abs(end.x - start.x) / 14;
      const arc = makeSvg("path", { d: `M${start.x} ${start.y}C${start.x} ${top} ${end.x} ${top} ${end.x} ${end.y}` });
      arc.style.setProperty("--weight", share.toFixed(3));
      this.picture.append(arc);
    }
  }
}

function weightedTokens(entries) {
  const list = make("ul", { class: "weighted" });
  for (const { token, weight } of entries) {
    list.append(make("li", {}, tokenLabel(token.label), " ", make("span", { class: "number" }, formatPercent(weight))));
  }
  return list;
}
