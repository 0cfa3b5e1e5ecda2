// The panel beside the text: the chosen token, its alternatives, and how the model chose it.

const INSPECT_DELAY_MS = 120;

class TokenPanel {
  // onChoose(text, index, alternative) or null; onPin(index) chooses the token that is only pointed at; onClose() returns
  // to the text; onShown() follows when the panel has grown; onShade(index, read, source) shows what
  // was read, onUnshade() ends that.
  constructor({ client, kind, onChoose, onPin, onClose, onShown, onShade, onUnshade }) {
    this.panel = byId("panel");
    this.views = {
      alternatives: { tab: byId("tab-alternatives"), box: byId("view-alternatives") },
      inside: { tab: byId("tab-inside"), box: byId("view-inside") },
    };
    this.alternatives = new AlternativesView(
      this.views.alternatives.box,
      onChoose && ((alternative) => onChoose(this.shown.text, this.shown.index, alternative)),
    );
    this.inside = new InsideView(this.views.inside.box, client, kind, { onShown, onShade });
    this.onPin = onPin;
    this.onClose = onClose;
    this.onUnshade = onUnshade;
    this.shown = null; // {text: {prompt, tokens}, index}: what the panel shows now
    this.chosen = null; // what it returns to when the pointer leaves the text
    this.view = "alternatives";
    for (const [name, { tab }] of Object.entries(this.views)) {
      tab.addEventListener("click", () => this.open(name));
      tab.addEventListener("keydown", (event) => this.tabKey(event));
    }
    byId("panel-close").addEventListener("click", () => this.close());
    this.panel.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && this.shown) this.close();
    });
  }

  clear() {
    this.shown = null;
    this.chosen = null;
    this.endInside();
    this.panel.removeAttribute("data-open");
    byId("panel-body").hidden = true;
    byId("panel-close").hidden = true;
    byId("panel-empty").hidden = false;
    byId("panel-heading").textContent = "Token";
  }

  close() {
    this.clear();
    this.onClose();
  }

  choose(text, index) {
    this.chosen = { text, index };
    this.show(this.chosen);
  }

  // The token under the pointer, shown until the pointer leaves the text. "Look inside" stays with the chosen token.
  preview(text, index) {
    if (index !== null && this.view === "alternatives") this.show({ text, index });
    else if (index === null && this.chosen && this.shown !== this.chosen) this.show(this.chosen);
  }

  show(place) {
    this.shown = place;
    const token = place.text.tokens[place.index];
    this.panel.setAttribute("data-open", "");
    byId("panel-body").hidden = false;
    byId("panel-close").hidden = false;
    byId("panel-empty").hidden = true;
    byId("panel-heading").textContent = `Token ${formatInteger(place.index + 1)}`;
    byId("panel-token").replaceChildren(
      tokenLabel(token.label),
      make("span", { class: "number" }, formatPercent(token.probability)),
    );
    this.alternatives.show(token);
    this.showInside();
  }

  endInside() {
    clearTimeout(this.waiting);
    this.inside.expect();
    this.onUnshade();
  }

  // Moving quickly over many tokens inspects only the one where the movement ends.
  showInside() {
    clearTimeout(this.waiting);
    if (this.view !== "inside" || !this.shown) {
      this.endInside();
      return;
    }
    const { text, index } = this.shown;
    this.inside.expect();
    this.waiting = setTimeout(() => this.inside.show(text.prompt, text.tokens, index), INSPECT_DELAY_MS);
  }

  open(name) {
    this.view = name;
    for (const [other, { tab, box }] of Object.entries(this.views)) {
      tab.setAttribute("aria-selected", String(other === name));
      tab.tabIndex = other === name ? 0 : -1;
      box.hidden = other !== name;
    }
    if (this.shown && this.shown !== this.chosen) this.onPin(this.shown.index);
    else this.showInside();
  }

  tabKey(event) {
    const names = Object.keys(this.views);
    const at = names.indexOf(this.view);
    const next = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: names.length - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    const name = names[(next + names.length) % names.length];
    this.open(name);
    this.views[name].tab.focus();
  }

  // Moves the keyboard into the panel.
  focus() {
    if (this.view === "alternatives" && this.alternatives.focus()) return;
    this.views[this.view].tab.focus();
  }
}
