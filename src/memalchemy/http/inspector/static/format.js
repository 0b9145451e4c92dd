// Numbers, sizes and times as people read them.

import { h } from "./dom.js";

const NUMBERS = new Intl.NumberFormat("en");
const COMPACT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const FULL = new Intl.DateTimeFormat("en-GB", {
  year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit",
});
const DAY = new Intl.DateTimeFormat("en-GB", { month: "short", day: "numeric" });
const YEAR = new Intl.DateTimeFormat("en-GB", { year: "numeric", month: "short", day: "numeric" });
const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });

export const number = (value) => (value === null || value === undefined ? "–" : NUMBERS.format(value));
export const compact = (value) => (value === null || value === undefined ? "–" : COMPACT.format(value));
export const plural = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;

/** A number of tokens, short. */
export const tokens = (value) => (value === null || value === undefined ? "–" : value < 1000 ? number(value) : COMPACT.format(value).replace("K", "k"));

/** US dollars with two digits that say something. */
export function money(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "$0";
  if (value >= 100) return `$${NUMBERS.format(Math.round(value))}`;
  return `$${value >= 1 ? value.toFixed(2) : Number(value.toPrecision(2)).toFixed(Math.min(6, Math.max(2, 1 - Math.floor(Math.log10(value)))))}`;
}

/** A span of milliseconds: "340 ms", "12 s", "4 min", "3 h". */
export function duration(ms) {
  if (ms === null || ms === undefined || Number.isNaN(ms)) return "";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 59500) return `${(ms / 1000).toFixed(ms < 9950 ? 1 : 0)} s`;
  if (ms < 3570000) return `${Math.round(ms / 60000)} min`;
  if (ms < 84600000) return `${(ms / 3600000).toFixed(1)} h`;
  return `${Math.round(ms / 86400000)} d`;
}

const UNITS = ["B", "kB", "MB", "GB", "TB"];

/** Bytes with three digits at most. */
export function bytes(value) {
  if (value === null || value === undefined) return "–";
  let size = Number(value);
  let unit = 0;
  while (size >= 999.5 && unit < UNITS.length - 1) {
    size /= 1000;
    unit += 1;
  }
  const digits = unit === 0 || size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
  return `${size.toFixed(digits)} ${UNITS[unit]}`;
}

/** How many times smaller the stored form is, or "". */
export function ratio(raw, stored) {
  if (!raw || !stored || raw <= stored) return "";
  const times = raw / stored;
  return `${times >= 10 ? NUMBERS.format(Math.round(times)) : times.toFixed(1)}×`;
}

/** A time in words: "3 min ago", "Tue 14:02", "12 Mar". */
export function ago(iso, now = Date.now()) {
  const at = Date.parse(iso);
  if (Number.isNaN(at)) return "";
  const seconds = (now - at) / 1000;
  if (seconds < -60) return `in ${span(-seconds)}`;
  if (seconds < 45) return "just now";
  if (seconds < 86400) return `${span(seconds)} ago`;
  const day = new Date(at);
  if (seconds < 6 * 86400) return `${day.toLocaleDateString("en-GB", { weekday: "short" })} ${CLOCK.format(day)}`;
  return day.getFullYear() === new Date(now).getFullYear() ? DAY.format(day) : YEAR.format(day);
}

function span(seconds) {
  if (seconds < 3570) return `${Math.max(1, Math.round(seconds / 60))} min`;
  if (seconds < 84600) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} d`;
}

export function full(iso) {
  const at = Date.parse(iso);
  return Number.isNaN(at) ? String(iso ?? "") : FULL.format(new Date(at));
}

/** A `time` element with the relative form; its title has the exact one. */
export function time(iso, properties = {}) {
  if (!iso) return h("span.muted", properties, "–");
  return h("time", { datetime: iso, title: `${full(iso)} (${iso})`, data: { ago: iso }, ...properties }, ago(iso));
}

/** Renew the relative times below an element. */
export function renewTimes(root) {
  for (const element of root.querySelectorAll("time[data-ago]")) element.textContent = ago(element.dataset.ago);
}
