// Reloads the page while its run is trained, without disturbing the reader. A page from a file cannot ask whether
// the file has changed.

const [SHORTEST_INTERVAL, LONGEST_INTERVAL] = [2, 30]; // seconds
const SILENCE = 600; // seconds without a new report after which the run may have been killed
const SILENT_EPOCHS = 3;
const REST_MS = 3000; // after the last action of the reader
const CONTROL_REST_MS = 30000; // while a control has the focus
const ACTIONS = ["pointerdown", "pointermove", "keydown", "wheel", "touchmove", "input", "scroll"];
const CONTROLS_IN_USE = "select, input, [role=slider], [role=option], [tabindex='0']";

class Refresh {
  // written: when the report was written, in seconds.
  constructor(run, written) {
    this.run = run;
    this.written = run.written ?? written;
    this.duration = epochSeconds(run.metrics);
    this.interval = Math.max(SHORTEST_INTERVAL, Math.min(LONGEST_INTERVAL, (this.duration ?? 10) / 2));
    this.status = byId("refresh-status");
    this.button = byId("refresh-button");
    this.action = -Infinity;
    this.pressed = false;
    restorePlace();
    if (run.state !== "training") {
      this.end();
      return;
    }
    view.set("training", true);
    byId("refresh").hidden = false;
    this.button.addEventListener("click", () => this.toggle());
    this.listen();
    this.start();
  }

  // The page of a run that ended while it was open says so.
  end() {
    if (!view.get("training")) return;
    byId("refresh").hidden = false;
    this.button.hidden = true;
    this.status.textContent = "Training has ended. This page no longer reloads itself.";
  }

  listen() {
    const opened = performance.now();
    for (const name of ACTIONS) {
      const listener = (event) => {
        // The page itself scrolls to where the reader was.
        if (name === "scroll" && performance.now() - opened < 700) return;
        if (name === "pointermove" && !event.buttons && !event.target.closest?.("[role=slider], [role=option]")) return;
        this.action = performance.now();
      };
      document.addEventListener(name, listener, { capture: true, passive: true });
    }
    const press = (pressed) => () => {
      this.pressed = pressed;
    };
    document.addEventListener("pointerdown", press(true), true);
    for (const name of ["pointerup", "pointercancel", "dragend"]) document.addEventListener(name, press(false), true);
  }

  toggle() {
    if (this.isStale()) view.set("patient", this.written);
    else view.set("paused", !view.get("paused"));
    this.start();
  }

  start() {
    clearTimeout(this.timer);
    if (this.isStale()) {
      const minutes = formatDuration(Math.floor(this.silence() / 60) * 60);
      this.say(`Nothing was written for ${minutes}: the run may have been killed. This page no longer reloads itself.`, "Keep reloading");
    } else if (view.get("paused")) {
      this.say("Reloading is paused. The run had not ended when this page was written.", "Resume");
    } else {
      this.say(`Training is running: this page reloads itself every ${formatDuration(Math.round(this.interval))}.`, "Pause");
      this.timer = setTimeout(() => this.reload(), this.interval * 1000);
    }
  }

  say(message, action) {
    this.status.textContent = message;
    this.button.textContent = action;
  }

  // Seconds since the report changed, by the clock; or since it was seen first, if the clock of the machine that
  // trains is ahead.
  silence() {
    const now = Date.now() / 1000;
    const seen = view.get("seen");
    if (!seen || seen.written !== this.written) view.set("seen", { written: this.written, at: now });
    return Math.max(now - this.written, now - view.get("seen").at);
  }

  isStale() {
    const limit = Math.max(SILENCE, SILENT_EPOCHS * (this.duration ?? 0));
    return this.silence() > limit && view.get("patient") !== this.written;
  }

  isBusy() {
    const idle = performance.now() - this.action;
    const selection = window.getSelection();
    if (this.pressed || idle < REST_MS || (selection && !selection.isCollapsed)) return true;
    return idle < CONTROL_REST_MS && Boolean(document.activeElement?.matches(CONTROLS_IN_USE));
  }

  reload() {
    if (this.isBusy()) {
      this.timer = setTimeout(() => this.reload(), 1000);
      return;
    }
    if (this.isStale()) {
      this.start();
      return;
    }
    keepPlace();
    location.reload();
  }
}

// The usual duration of an epoch; null if none has ended.
function epochSeconds(metrics) {
  const known = metrics.filter(({ epoch, seconds }) => epoch > 0 && seconds !== null);
  const durations = known.map(({ epoch, seconds }, at) => {
    const before = known[at - 1] ?? { epoch: epoch - 1, seconds: 0 };
    return (seconds - before.seconds) / Math.max(1, epoch - before.epoch);
  });
  return median(durations.filter((duration) => duration > 0));
}

const SCROLLING = ".table-scroll, .all-samples";

function keepPlace() {
  const sections = Array.from(document.querySelectorAll("main > section"));
  const current = sections.findLast((one) => one.getBoundingClientRect().top <= 0);
  view.set("place", {
    section: current?.id ?? null,
    offset: current ? -current.getBoundingClientRect().top : window.scrollY,
    inner: Array.from(document.querySelectorAll(SCROLLING), ({ scrollLeft, scrollTop }) => [scrollLeft, scrollTop]),
    focus: document.activeElement?.id || null,
  });
  history.scrollRestoration = "manual";
}

// What is above may have grown: the place is kept within its section.
function restorePlace() {
  const place = view.get("place");
  history.scrollRestoration = "auto";
  if (!place) return;
  view.set("place", null);
  const { section: id, offset, inner, focus } = place;
  const restore = () => {
    const top = id && byId(id) ? byId(id).getBoundingClientRect().top + window.scrollY : 0;
    window.scrollTo({ top: top + offset, behavior: "instant" });
  };
  const nodes = Array.from(document.querySelectorAll(SCROLLING));
  if (nodes.length === inner.length) nodes.forEach((node, at) => node.scrollTo({ left: inner[at][0], top: inner[at][1], behavior: "instant" }));
  if (focus) byId(focus)?.focus({ preventScroll: true });
  restore();
  // Charts are drawn when the page has a layout; the browser may scroll to the address's anchor on load.
  requestAnimationFrame(restore);
  window.addEventListener("load", () => requestAnimationFrame(restore));
}
