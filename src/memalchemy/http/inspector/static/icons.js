// Line icons on a grid of 16, drawn for this page.

import { s } from "./dom.js";

const PATHS = {
  threads: "M3 4.5h10M3 8h10M3 11.5h6",
  store: "M2.5 5 8 2.2 13.5 5v6L8 13.8 2.5 11zM2.5 5 8 7.8 13.5 5M8 7.8v6",
  memories: "M8 13.5c-3-1.8-5.5-3.9-5.5-6.8A2.9 2.9 0 0 1 8 5.2a2.9 2.9 0 0 1 5.5 1.5c0 2.9-2.5 5-5.5 6.8z",
  search: "M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9zM10.3 10.3l3.2 3.2",
  storage: "M3 13V8.5M6.3 13V3M9.7 13V6M13 13v-3",
  sun: "M8 10.8a2.8 2.8 0 1 0 0-5.6 2.8 2.8 0 0 0 0 5.6zM8 1.5v1.4M8 13.1v1.4M1.5 8h1.4M13.1 8h1.4M3.4 3.4l1 1M11.6 11.6l1 1M12.6 3.4l-1 1M4.4 11.6l-1 1",
  moon: "M13.2 9.6A5.6 5.6 0 0 1 6.4 2.8a5.6 5.6 0 1 0 6.8 6.8z",
  help: "M8 14a6 6 0 1 0 0-12 6 6 0 0 0 0 12zM6.3 6.4A1.7 1.7 0 1 1 8.6 8c-.4.2-.6.5-.6 1M8 11.2v.1",
  chevron: "M6 4l4 4-4 4",
  copy: "M5.5 5.5h7v7h-7zM10.5 5.5v-2h-7v7h2",
  check: "M3.5 8.5 6.5 11.5 12.5 5",
  close: "M4 4l8 8M12 4l-8 8",
  user: "M8 8a2.6 2.6 0 1 0 0-5.2A2.6 2.6 0 0 0 8 8zM3 13.4c.4-2.4 2.4-3.6 5-3.6s4.6 1.2 5 3.6",
  assistant: "M8 2l1.5 4.5L14 8l-4.5 1.5L8 14l-1.5-4.5L2 8l4.5-1.5z",
  tool: "M9.8 2.5a3.2 3.2 0 0 0-3.9 4.3L2.6 10.1a1.6 1.6 0 0 0 0 2.3l1 1a1.6 1.6 0 0 0 2.3 0L9.2 10.1a3.2 3.2 0 0 0 4.3-3.9L11.5 8.2 9 7.7 8 5z",
  system: "M3 3.5h10v7H3zM6 13h4M8 10.5V13",
  result: "M3 4v3.5A2.5 2.5 0 0 0 5.5 10H13M10 7l3 3-3 3",
  thought: "M8 2.5c3.3 0 5.5 1.9 5.5 4.4S11.3 11.3 8 11.3c-.6 0-1.2 0-1.7-.2L3.5 13l.5-2.9C3 9.3 2.5 8.2 2.5 6.9 2.5 4.4 4.7 2.5 8 2.5z",
  clock: "M8 14a6 6 0 1 0 0-12 6 6 0 0 0 0 12zM8 5v3.2l2 1.3",
  branch: "M5 3.5v9M5 9.5c0-3 6-1.5 6-4.5M5 3.5h.01M11 4.5h.01",
  up: "M8 12.5v-9M4 7.5l4-4 4 4",
  down: "M8 3.5v9M4 8.5l4 4 4-4",
  left: "M12.5 8h-9M7.5 4l-4 4 4 4",
  right: "M3.5 8h9M8.5 4l4 4-4 4",
  swap: "M3 5.5h9.5M10 3l2.5 2.5L10 8M13 10.5H3.5M6 8l-2.5 2.5L6 13",
  link: "M6.5 9.5l3-3M7 4.5l1.5-1.5a3 3 0 0 1 4.3 4.3L11.3 8.8M9 11.5 7.5 13a3 3 0 0 1-4.3-4.3L4.7 7.2",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  warning: "M8 2.5 14 13H2zM8 6.5v3M8 11.3v.1",
  lock: "M4 7.5h8v6H4zM5.5 7.5V5.2a2.5 2.5 0 0 1 5 0v2.3",
  database: "M8 6c2.8 0 5-.8 5-1.9S10.8 2.3 8 2.3 3 3.1 3 4.1 5.2 6 8 6zM3 4.1v7.8c0 1 2.2 1.8 5 1.8s5-.8 5-1.8V4.1M3 8c0 1 2.2 1.9 5 1.9S13 9 13 8",
  item: "M4 2.5h5.5L12.5 5.5v8h-8.5zM9.5 2.5v3h3M6 8.5h4M6 11h4",
  interrupt: "M5.3 2.5h5.4L13.5 5.3v5.4l-2.8 2.8H5.3L2.5 10.7V5.3zM6.5 6v4M9.5 6v4",
  star: "M8 2.3l1.7 3.7 4 .5-3 2.7.8 4L8 11.2l-3.5 2 .8-4-3-2.7 4-.5z",
  terminal: "M2.5 3.5h11v9h-11zM5 6.5 7 8 5 9.5M8.5 10h2.5",
  use: "M2.5 13.5h11M4.5 13.5v-4M8 13.5v-8M11.5 13.5V8M4.5 6.5 8 3l3.5 2.5",
  sql: "M2.5 3.5h11v9h-11zM2.5 6.5h11M6.2 6.5v6",
  target: "M8 14a6 6 0 1 0 0-12 6 6 0 0 0 0 12zM8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM8 8.1V8",
};

/** An icon that screen readers pass over. */
export function icon(name, properties = {}) {
  return s("svg.icon", { viewBox: "0 0 16 16", "aria-hidden": "true", focusable: "false", ...properties },
    s("path", { d: PATHS[name] ?? PATHS.item }));
}

/** The mark of memalchemy: a line and its branch. */
export function logo() {
  return s("svg.logo", { viewBox: "0 0 32 32", "aria-hidden": "true", focusable: "false" },
    s("rect", { width: 32, height: 32, rx: 8 }),
    s("path", { d: "M11 7v18M11 19c0-5 10-3 10-8" }),
    s("circle", { cx: 11, cy: 7.5, r: 2.9 }), s("circle", { cx: 11, cy: 24.5, r: 2.9 }),
    s("circle", { cx: 21, cy: 10.5, r: 2.9 }));
}
