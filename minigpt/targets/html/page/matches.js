/* "Where from": where the training text has what was written. In the worker, the search; in the page, the section. */

/* Between two documents of the training text. */
const END_OF_DOCUMENT = "\uffff";
/* Characters of a match that the page shows: shorter ones are everywhere. */
const SHOWN_MATCH = 20;
/* Passages that are shown of a match, and characters before and after it. */
const MOST_PASSAGES = 5, AROUND = 100;
/* Characters of the text above that are searched, its last ones: the search takes seconds in a long training text. */
const MOST_SEARCHED = 2000;

class TrainingText {
  constructor(text) {
    this.text = text;
  }

  /* Returns the parts of a text that occur in one document, and that are in no longer such part: [{start, end}]. */
  matches(written) {
    /* Half of a character is in no text. */
    const text = written.replace(/\p{Surrogate}/gu, END_OF_DOCUMENT);
    const found = [], sizeAt = (at) => (text.codePointAt(at) > 0xffff ? 2 : 1);
    const isInside = (at) => at < text.length && text[at] !== END_OF_DOCUMENT;
    for (let start = 0, end = 0, last = 0; start < text.length; start += sizeAt(start)) {
      end = Math.max(end, start);
      /* What follows a place where the shorter part occurs extends it; the longer part cannot occur before. */
      for (let at = 0; isInside(end); ) {
        at = this.text.indexOf(text.slice(start, end + sizeAt(end)), at);
        if (at < 0) break;
        do end += sizeAt(end);
        while (isInside(end) && text.codePointAt(end) === this.text.codePointAt(at + end - start));
      }
      if (end > last) found.push({ start, end });
      last = Math.max(end, start + sizeAt(start));
    }
    return found;
  }

  /* Calls visit(place) for each place where a part begins; returns their number. */
  count(part, visit = () => {}) {
    let count = 0;
    for (let at = this.text.indexOf(part); at >= 0; at = this.text.indexOf(part, at + 1)) visit(at, count++);
    return count;
  }

  /* Returns how often a part occurs, and the first places with the text around them. */
  passages(part) {
    const passages = [];
    const count = this.count(part, (at, number) => {
      if (number >= MOST_PASSAGES) return;
      const before = this.text.slice(Math.max(0, at - AROUND), at).split(END_OF_DOCUMENT).at(-1);
      const [after] = this.text.slice(at + part.length, at + part.length + AROUND).split(END_OF_DOCUMENT);
      passages.push({ before, after });
    });
    return { count, passages };
  }
}

class WhereFrom {
  /* text(): what is written above. */
  constructor(client, text) {
    this.client = client;
    this.text = text;
    this.statusNode = make("span", { class: "status", role: "status", "aria-live": "polite" });
    this.status = new StatusLine(this.statusNode);
    this.sheet = make("p", { class: "text", dir: "auto" });
    this.passages = make("div", { "aria-live": "polite" });
    const button = makeButton({ class: "primary" }, () => this.find(), "Find the text above");
    const actions = make("div", { class: "actions" }, button, this.statusNode);
    byId("matches-body").append(actions, make("div", { class: "sheet" }, this.sheet), this.passages);
  }

  async find() {
    clearError();
    this.passages.replaceChildren();
    const whole = this.text(), text = whole.slice(-MOST_SEARCHED);
    this.status.say("Searching…");
    try {
      const found = (await this.client.matches(text)).filter(({ start, end }) => end - start >= SHOWN_MATCH);
      this.show(text, found);
      const count = this.sheet.querySelectorAll(".match").length;
      const parts = count === 0 ? "No part" : count === 1 ? "One part" : `${count} parts`;
      const where = whole === text ? "" : ` Only the last ${formatInteger(MOST_SEARCHED)} characters were searched.`;
      this.status.say(`${parts} of at least ${SHOWN_MATCH} characters found in the training text.${where}`);
    } catch (error) {
      this.status.say("");
      showError(error);
    }
  }

  /* Where matches overlap, the characters belong to the longest. */
  show(text, found) {
    const owners = new Array(text.length).fill(null);
    for (const match of [...found].sort((a, b) => a.end - a.start - (b.end - b.start))) owners.fill(match, match.start, match.end);
    this.sheet.replaceChildren();
    for (let start = 0, end = 0; start < text.length; start = end) {
      const owner = owners[start];
      while (end < text.length && owners[end] === owner) end++;
      const shown = text.slice(start, end);
      this.sheet.append(owner ? this.match(shown, text.slice(owner.start, owner.end)) : shown);
    }
  }

  match(shown, part) {
    const choose = () => this.choose(span, part).catch(showError);
    const span = make("span", { class: "match", role: "button", tabindex: "0", "aria-pressed": "false" }, shown);
    span.addEventListener("click", choose);
    span.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      choose();
    });
    return span;
  }

  async choose(span, part) {
    for (const other of this.sheet.querySelectorAll(".match")) other.setAttribute("aria-pressed", String(other === span));
    const { count, passages } = await this.client.passages(part);
    const times = count === 1 ? "once" : `${formatInteger(count)} times`;
    const heading = make("p", {}, make("q", { dir: "auto" }, part), ` occurs ${times} in the training text.`);
    const items = passages.map(({ before, after }) => make("li", { dir: "auto" }, "…", before, make("mark", {}, part), after, "…"));
    this.passages.replaceChildren(heading, make("ul", { class: "passages" }, ...items));
  }
}
