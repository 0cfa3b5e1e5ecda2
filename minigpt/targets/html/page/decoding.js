/* From token ids to text, as minigpt/tokenizers/vocabulary.py does it. */

const ESCAPE = "\x10", SPACE_SIGN = "\u2581";

class Vocabulary {
  constructor(engine) {
    const key = (name) => engine.key(`minigpt.tokenizer.${name}`);
    const bytes = key("pieces");
    let start = 0;
    this.pieces = Array.from(key("piece_ends"), (end) => bytes.subarray(start, (start = end)));
    this.kind = key("kind");
    this.endId = key("end_id");
    this.startId = key("start_id") ?? this.endId;
    this.unknownId = key("unknown_id");
    const chat = key("chat");
    this.chat = chat && JSON.parse(chat); /* a ChatFormat of minigpt/tokenizers/chat_format.py; null without dialogues */
    /* The names that the engine finds in a text as special tokens. A file without them has no such key. */
    const names = key("added") ?? [];
    let from = 0;
    this.added = Array.from(key("added_ends") ?? [], (end) => new TextDecoder().decode(names.subarray(from, (from = end))));
  }

  /* Returns a readable form of a token: its text, the name of a role, "[UNK]", "<end>", "<start>", or bytes as "<E2 82>". */
  label(id) {
    const role = this.chat ? id - (this.pieces.length - this.chat.added.length) : -1;
    if (role >= 0) return this.chat.added[role];
    if (id === this.endId) return "<end>";
    if (id === this.startId) return "<start>";
    if (id === this.unknownId) return "[UNK]";
    return this.text(id) ?? `<${Array.from(this.pieces[id], (byte) => byte.toString(16).padStart(2, "0")).join(" ").toUpperCase()}>`;
  }

  /* Returns the text of a token alone; null if its bytes are not whole characters. */
  text(id) {
    try {
      const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(this.pieces[id]);
      return this.kind === "byte_pair" ? unescaped(text) : text;
    } catch {
      return null;
    }
  }

  /* Returns what each token adds to the text of those before it. */
  texts(ids) {
    const detokenizer = new Detokenizer(this);
    return Array.from(ids, (id) => detokenizer.push(id));
  }
}

/* The escapes of byte-pair text: minigpt/tokenizers/vocabulary.py. */
function unescaped(text) {
  const whole = text.endsWith(ESCAPE) ? text.slice(0, -1) : text;
  return whole.replaceAll(ESCAPE + "b", SPACE_SIGN).replaceAll(ESCAPE + "a", ESCAPE);
}

/* Decodes token by token. A character is held back until it is complete. */
class Detokenizer {
  constructor(vocabulary) {
    this.vocabulary = vocabulary;
    this.decoder = new TextDecoder("utf-8", { ignoreBOM: true });
    this.isFirst = true;
    this.held = ""; /* an escape character without the next character */
  }

  /* Returns the text that a token adds. */
  push(id) {
    const { kind, pieces } = this.vocabulary, piece = pieces[id];
    if (!piece?.length) return "";
    const separator = kind === "word" && !this.isFirst ? " " : "";
    this.isFirst = false;
    let text = separator + this.decoder.decode(piece, { stream: true });
    if (kind !== "byte_pair") return text;
    text = this.held + text;
    this.held = text.endsWith(ESCAPE) ? ESCAPE : "";
    return unescaped(text);
  }
}

/* The text of a continuation up to its stop string: minigpt/tokenizers/vocabulary.py. */
class StoppingText {
  constructor(stops) {
    this.stops = stops.filter((stop) => stop);
    this.held = "";
    this.hasStopped = false;
  }

  /* Returns the text that is certain, without a possible start of a stop string at its end. */
  push(text) {
    this.held += text;
    let cut = null;
    for (const stop of this.stops) {
      const start = this.held.indexOf(stop), end = start + stop.length;
      if (start >= 0 && (!cut || end < cut.end || (end === cut.end && start < cut.start))) cut = { start, end };
    }
    this.hasStopped = cut !== null;
    const size = cut ? cut.start : this.held.length - this.partialStop();
    const ready = this.held.slice(0, size);
    this.held = cut ? "" : this.held.slice(size);
    return ready;
  }

  partialStop() {
    let longest = 0;
    for (const stop of this.stops) {
      for (let size = 1; size < stop.length; size++) {
        if (size > longest && this.held.endsWith(stop.slice(0, size))) longest = size;
      }
    }
    return longest;
  }

  /* Returns the text that was held back; call it after the last token. */
  finish() {
    const held = this.held;
    this.held = "";
    return held;
  }
}
