// The panel beside the text: the chosen token and its alternatives; "Look inside" is below the text.

const INSPECT_DELAY_MS = 120;

class TokenPanel {
  // onChoose(text, index, alternative) or null; onPin(index) chooses the token that is only pointed at; onClose() returns
  // to the text; inside: an InsideView; draw(text, index, ids) resolves to what a token is drawn from, see `showDraw`.
  constructor({ onChoose, onPin, onClose, inside, draw }) {
    this.panel = byId("panel");
    this.alternatives = new AlternativesView(
      byId("alternatives"),
      onChoose && ((alternative) => onChoose(this.shown.text, this.shown.index, alternative)),
    );
    this.inside = inside;
    this.draw = draw;
    this.onPin = onPin;
    this.onClose = onClose;
    this.shown = null; // {text: {prompt, tokens}, index}: what the panel shows now
    this.chosen = null; // what it returns to when the pointer leaves the text
    this.isInside = false;
    byId("look-inside").addEventListener("click", () => this.lookInside(!this.isInside));
    byId("panel-close").addEventListener("click", () => this.close());
    this.panel.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && this.shown) this.close();
    });
  }

  clear() {
    this.shown = null;
    this.chosen = null;
    clearTimeout(this.waiting);
    this.inside.hide();
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
    if (index !== null && !this.isInside) this.show({ text, index });
    else if (index === null && this.chosen && this.shown !== this.chosen) this.show(this.chosen);
  }

  show(place) {
    this.shown = place;
    const token = place.text.tokens[place.index];
    this.panel.setAttribute("data-open", "");
    byId("panel-body").hidden = false;
    byId("panel-close").hidden = false;
    byId("panel-empty").hidden = true;
    const { isPrompt } = place.text, isKnown = token.probability !== undefined;
    byId("panel-heading").textContent = `Token ${formatInteger(place.index + 1)}${isPrompt ? " of the prompt" : ""}`;
    byId("panel-token").replaceChildren(
      tokenLabel(token.label),
      make("span", { class: "number" }, isKnown ? formatPercent(token.probability) : ""),
    );
    byId("look-inside").hidden = isPrompt;
    if (isKnown) this.alternatives.show(token, isPrompt);
    else this.alternatives.showFirst();
    this.showDraw();
    this.showInside();
  }

  // Shows what the token is drawn from, with the settings of the form.
  showDraw() {
    const place = this.shown;
    clearTimeout(this.drawing);
    if (!place || !this.draw || place.text.isPrompt) return;
    const drawing = setTimeout(async () => {
      try {
        const found = await this.draw(place.text, place.index, this.alternatives.tokens.map(({ id }) => id));
        if (found && drawing === this.drawing && place === this.shown) this.alternatives.showDraw(...found);
      } catch (error) {
        showError(error);
      }
    }, INSPECT_DELAY_MS);
    this.drawing = drawing;
  }

  // Moving quickly over many tokens inspects only the one where the movement ends.
  showInside() {
    clearTimeout(this.waiting);
    if (!this.isInside || !this.shown) return;
    if (this.shown.text.isPrompt) {
      this.inside.hide();
      return;
    }
    this.inside.expect();
    this.waiting = setTimeout(() => this.inside.show(this.shown), INSPECT_DELAY_MS);
  }

  lookInside(isInside) {
    this.isInside = isInside;
    byId("look-inside").setAttribute("aria-expanded", String(isInside));
    setAttribute(this.panel, "data-inside", isInside);
    if (!isInside) this.inside.hide();
    else if (this.shown !== this.chosen) this.onPin(this.shown.index);
    else this.showInside();
  }

  // Moves the keyboard into the panel.
  focus() {
    if (!this.alternatives.focus()) byId("look-inside").focus();
  }
}
