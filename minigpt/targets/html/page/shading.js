// Tokens that are shaded by weights: the context that a head attended to, the source words of a translation.

class ShadedTokens {
  constructor(name, attributes = {}) {
    this.node = make("div", { class: "shaded", role: "group", "aria-label": name, dir: "auto", ...attributes });
    this.tokens = [];
    this.spans = [];
  }

  setTokens(tokens) {
    this.tokens = tokens;
    this.spans = tokens.map(shadeSpan);
    this.node.replaceChildren(...this.spans);
  }

  // The largest weight has the full shade; null removes all shades.
  shade(weights) {
    if (weights && weights.length !== this.spans.length) return;
    const largest = weights ? weights.reduce((max, weight) => Math.max(max, weight), 1e-9) : 1;
    this.spans.forEach((span, at) => {
      const share = weights ? Math.sqrt(weights[at] / largest) : 0;
      span.style.setProperty("--weight", share.toFixed(3));
    });
  }

  // “ dog” 31%, “ the” 12%, …: the same in words.
  largest(weights, count) {
    return Array.from(weights, (weight, at) => ({ weight, at }))
      .sort((one, other) => other.weight - one.weight)
      .slice(0, count)
      .map(({ weight, at }) => ({ token: this.tokens[at], weight }));
  }

  scrollToEnd() {
    this.node.scrollTop = this.node.scrollHeight;
  }
}

function shadeSpan(token) {
  return make("span", { class: "shade" }, ...filledText(token));
}

function weightedTokens(entries) {
  const list = make("ul", { class: "weighted" });
  for (const { token, weight } of entries) {
    list.append(make("li", {}, tokenLabel(token.label), " ", make("span", { class: "number" }, formatPercent(weight))));
  }
  return list;
}
