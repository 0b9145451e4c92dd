// Asks every two seconds what was written, and tells the view that is shown.

import { get, token } from "./api.js";
import { h, put } from "./dom.js";
import { announce } from "./parts.js";
import { renewTimes } from "./format.js";

const EVERY = 2000;
const SLOWEST = 30000;

/** The state of live refresh, as a button that pauses it. */
export class Live {
  constructor() {
    this.since = null;
    this.paused = false;
    this.listener = null;
    this.items = null;
    this.count = null;
    this.failures = 0;
    this.timer = 0;
    this.text = h("span.live-text", {}, "Live");
    this.button = h("button.live", { type: "button", data: { state: "live" }, "aria-pressed": "true", "aria-label": "Live refresh",
      title: "Shows what is written while you look. Click to pause." }, h("span.live-dot", { "aria-hidden": "true" }), this.text);
    this.button.addEventListener("click", () => this.toggle());
    document.addEventListener("visibilitychange", () => this.wake());
    setInterval(() => renewTimes(document), 30000);
  }

  /**
   * `listener(changed)` is called with the threads that were written; one view listens at a time.
   * `items()` returns the namespace, and whether those below it count, whose items are watched, too.
   */
  listen(listener, items = null) {
    this.listener = listener;
    this.items = items;
    this.count = null;
  }

  toggle() {
    this.paused = !this.paused;
    this.button.setAttribute("aria-pressed", String(!this.paused));
    this.show(this.paused ? "paused" : "live", this.paused ? "Paused" : "Live");
    announce(this.paused ? "Live refresh is paused" : "Live refresh is on");
    this.wake();
  }

  show(state, text) {
    this.button.dataset.state = state;
    if (this.text.textContent !== text) put(this.text, text);
  }

  /** Begin anew: another tenant's data is shown. */
  restart() {
    this.since = null;
    this.count = null;
    this.wake();
  }

  /** Ask now, and every two seconds from now on. */
  wake() {
    clearTimeout(this.timer);
    if (this.paused || document.hidden) return;
    this.timer = setTimeout(() => this.ask(), 0);
  }

  async ask() {
    clearTimeout(this.timer);
    let wait = EVERY;
    try {
      const { listener } = this;
      const watched = this.items?.();
      const asked = watched ? { items: 1, ns: watched.ns, below: watched.below ? 1 : 0 } : {};
      const answer = await get("changes", { ...asked, since: this.since });
      const first = this.since === null;
      const place = JSON.stringify(asked);
      // The number of items tells of those that were deleted.
      const fewer = this.count?.place === place && this.count.items !== answer.count;
      this.count = { place, items: answer.count };
      this.since = answer.token;
      if (this.failures) this.show("live", "Live");
      this.failures = 0;
      if (!first && (answer.changed?.length || answer.items?.length || fewer)) {
        this.pulse();
        // A view that was opened meanwhile has just read everything.
        if (listener === this.listener) listener?.(answer.changed ?? []);
      }
    } catch (error) {
      this.failures += 1;
      wait = Math.min(EVERY * 2 ** this.failures, SLOWEST);
      if (error.status === 401 || (error.status === undefined && !token())) return;
      this.show("lost", "Reconnecting");
    }
    if (!this.paused && !document.hidden) this.timer = setTimeout(() => this.ask(), wait);
  }

  pulse() {
    this.button.classList.remove("pulse");
    // A reflow between the two lets the animation start again.
    void this.button.offsetWidth;
    this.button.classList.add("pulse");
  }
}
