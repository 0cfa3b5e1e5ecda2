// Messages of the page: a status line that a screen reader announces, and the line for errors.

class StatusLine {
  constructor(node) {
    this.node = node;
  }

  // The same message again is announced again.
  say(message) {
    if (this.node.textContent === message) this.node.textContent = "";
    this.node.textContent = message;
  }

  async copy(text) {
    const copied = await copyToClipboard(text);
    this.say(copied ? "Copied" : "The browser does not allow copying. Select the text instead.");
  }
}

function showError(error) {
  const message = String(error?.message ?? error);
  const line = byId("alert");
  line.replaceChildren(message, makeButton({ class: "quiet" }, clearError, "Dismiss"));
  line.scrollIntoView({ block: "nearest" });
}

function clearError() {
  byId("alert").replaceChildren();
}

// Measures a text from its first tokens on, without the time that reading the prompt takes.
class Speedometer {
  constructor() {
    this.first = null;
    this.count = 0;
  }

  add(count) {
    this.count += count;
    this.first ??= { time: performance.now(), count };
  }

  // Tokens per second; null for a text that is too short to tell.
  speed() {
    const milliseconds = this.first ? performance.now() - this.first.time : 0;
    return milliseconds < 100 ? null : ((this.count - this.first.count) * 1000) / milliseconds;
  }
}

function describeEnd(result, speedometer) {
  const reasons = {
    end: " The model ended the text.",
    "stop string": " The text ended at a stop string.",
  };
  const done = result.end === "stopped" ? "Stopped after " : "Done: ";
  const speed = speedometer.speed();
  const pace = speed === null ? "" : `, ${formatInteger(Math.round(speed))} per second`;
  const cut = result.isCut ? ` Only the first ${formatCount(result.promptTokens - 1, "token")} of the source were translated.` : "";
  return `${done}${formatCount(speedometer.count, "token")}${pace}.${reasons[result.end] ?? ""}${cut}`;
}
