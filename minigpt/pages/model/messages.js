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

function describeEnd(result, count, seconds) {
  const reasons = {
    end: " The model ended the text.",
    "stop string": " A stop string ended the text.",
    stopped: " Stopped.",
  };
  const done = result.end === "stopped" ? "" : "Done: ";
  const speed = count > 1 && seconds > 0 ? `, ${formatInteger(Math.round(count / seconds))} per second` : "";
  return `${done}${formatCount(count, "token")}${speed}.${reasons[result.end] ?? ""}`;
}
