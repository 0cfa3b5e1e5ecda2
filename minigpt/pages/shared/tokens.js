// The written text: one inline element a token, one tab stop for all of them, arrow keys between them.

const POINTING_MS = 60;

class TokenText {
  // box: the inline element that holds the tokens. onPoint(index or null) follows the mouse and the keyboard;
  // onChoose(index, byKeyboard) is a click, a tap, Enter or an arrow key.
  constructor(box, name, { onPoint, onChoose, onOpen }) {
    this.box = box;
    this.name = name;
    this.spans = [];
    this.indices = new WeakMap();
    this.stop = 0; // the token that Tab reaches
    this.chosen = null;
    this.onPoint = onPoint;
    this.onChoose = onChoose;
    this.onOpen = onOpen;
    box.addEventListener("pointerover", (event) => this.point(event));
    box.addEventListener("pointerleave", () => this.point(null));
    box.addEventListener("click", (event) => this.click(event));
    box.addEventListener("focusin", (event) => this.focused(event));
    box.addEventListener("keydown", (event) => this.key(event));
  }

  clear() {
    clearTimeout(this.pointing);
    this.box.replaceChildren();
    this.box.removeAttribute("role");
    this.box.removeAttribute("aria-label");
    this.spans = [];
    this.stop = 0;
    this.chosen = null;
  }

  append(tokens) {
    if (tokens.length && !this.spans.length) {
      this.box.setAttribute("role", "listbox");
      this.box.setAttribute("aria-orientation", "horizontal");
      this.box.setAttribute("aria-label", this.name);
    }
    const added = document.createDocumentFragment();
    for (const token of tokens) {
      const span = tokenSpan(token);
      span.tabIndex = this.spans.length === this.stop ? 0 : -1;
      this.indices.set(span, this.spans.length);
      this.spans.push(span);
      added.append(span);
    }
    this.box.append(added);
  }

  // A screen reader reads the whole text when it enters the list, then the tokens one by one.
  describe(text) {
    if (this.spans.length) this.box.setAttribute("aria-label", `${this.name}: ${endOfText(text, 2000)}`);
  }

  // Shows another text for a token.
  replace(index, token) {
    this.spans[index].replaceChildren(...filledText(token));
  }

  // Tokens after a stop string are not part of the text.
  dimFrom(index) {
    this.spans.slice(index).forEach((span) => span.classList.add("beyond"));
  }

  mark(index) {
    this.spans[this.chosen]?.setAttribute("aria-selected", "false");
    this.chosen = index;
    if (index === null) return;
    this.spans[index].setAttribute("aria-selected", "true");
    this.moveStop(index);
  }

  moveStop(index) {
    if (this.spans[this.stop]) this.spans[this.stop].tabIndex = -1;
    this.stop = index;
    this.spans[index].tabIndex = 0;
  }

  // Scrolls so far that nothing of the panel at the lower edge of a narrow page covers the token.
  reveal(panel) {
    const token = this.spans[this.chosen]?.getBoundingClientRect();
    const cover = panel.getBoundingClientRect();
    if (!token || token.right < cover.left || token.left > cover.right) return;
    // Where the panel is once it has reached the lower edge.
    const top = Math.min(cover.top, document.documentElement.clientHeight - cover.height);
    const hidden = Math.max(token.bottom + 24 - top, Math.min(0, token.top - 24));
    if (hidden !== 0) window.scrollBy({ top: hidden, behavior: "instant" });
  }

  focus() {
    this.spans[this.stop]?.focus();
  }

  indexOf(target) {
    const span = target.closest?.(".token");
    return span ? (this.indices.get(span) ?? null) : null;
  }

  // Waits a moment, so that a pointer on its way to the panel does not change the panel.
  point(event) {
    if (event && event.pointerType === "touch") return;
    clearTimeout(this.pointing);
    const index = event ? this.indexOf(event.target) : null;
    this.pointing = setTimeout(() => this.onPoint(index), POINTING_MS);
  }

  click(event) {
    const index = this.indexOf(event.target);
    if (index === null || selectsText()) return;
    clearTimeout(this.pointing);
    this.onChoose(index, false);
  }

  focused(event) {
    const index = this.indexOf(event.target);
    if (index !== null && index !== this.chosen && event.target.matches(":focus-visible")) this.onChoose(index, true);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const index = this.indexOf(event.target);
    if (index === null) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.onOpen(index);
      return;
    }
    const next = this.neighbor(index, event.key);
    if (next === null) return;
    event.preventDefault();
    this.onChoose(next, true);
    this.spans[next].focus();
  }

  neighbor(index, key) {
    const last = this.spans.length - 1;
    const forward = getComputedStyle(this.box.parentElement).direction === "rtl" ? -1 : 1;
    switch (key) {
      case "ArrowRight":
        return Math.min(last, Math.max(0, index + forward));
      case "ArrowLeft":
        return Math.min(last, Math.max(0, index - forward));
      case "ArrowDown":
        return this.onOtherLine(index, 1);
      case "ArrowUp":
        return this.onOtherLine(index, -1);
      case "Home":
        return 0;
      case "End":
        return last;
      default:
        return null;
    }
  }

  // The token of the next or previous line that is nearest horizontally.
  onOtherLine(index, step) {
    const start = middleOf(this.spans[index]);
    let best = null;
    let line = null;
    for (let at = index + step; at >= 0 && at < this.spans.length; at += step) {
      const place = middleOf(this.spans[at]);
      if (Math.abs(place.y - start.y) < place.height / 2) continue;
      line ??= place.y;
      if (Math.abs(place.y - line) > place.height / 2) break;
      const distance = Math.abs(place.x - start.x);
      if (best === null || distance < best.distance) best = { at, distance };
    }
    return best ? best.at : index;
  }
}

function middleOf(node) {
  const box = node.getClientRects()[0] ?? node.getBoundingClientRect();
  return { x: (box.left + box.right) / 2, y: (box.top + box.bottom) / 2, height: box.height };
}

function selectsText() {
  const selection = window.getSelection();
  return selection !== null && !selection.isCollapsed;
}

// A token without a probability, the first one of a text, has no color.
function tokenSpan(token) {
  const level = token.probability === undefined ? 0 : probabilityLevel(token.probability);
  const attributes = {
    class: `token p${level}${token.picked ? " picked" : ""}`,
    role: "option",
    "aria-selected": "false",
    "aria-label": `${spoken(token.label)}, ${formatPercent(token.probability)}`,
  };
  return make("span", attributes, ...filledText(token));
}

// The text of a token, of which only the middle part is colored: a colored space at the end of a line is a strip.
function filledText(token) {
  const [, before, text, after] = /^( *)(.*?)(\s*)$/su.exec(token.text);
  return [before, make("span", { class: "fill", "data-marker": tokenMarker(token) }, text), after];
}
