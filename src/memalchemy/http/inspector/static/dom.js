// Building elements. Stored values reach the page through text nodes only: this module has no
// way to parse markup, and no other module creates elements.

const SVG = "http://www.w3.org/2000/svg";

/**
 * Create an element.
 *
 * `tag` is a name with optional classes, as in "div.row.wide". Properties: `on` holds listeners,
 * `data` data attributes, `style` CSS properties (set through the CSSOM, which the Content
 * Security Policy permits), and the others are attributes; false, null and undefined are left out.
 * Children are nodes, strings, or nested lists of them; null and false are left out.
 */
export function h(tag, properties = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  return fill(document.createElement(name), classes, properties, children);
}

/** Create an SVG element; the arguments are those of `h`. */
export function s(tag, properties = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  return fill(document.createElementNS(SVG, name), classes, properties, children);
}

function fill(element, classes, properties, children) {
  if (classes.length) element.setAttribute("class", classes.join(" "));
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) {
        element.addEventListener(event, listener);
      }
    } else if (name === "data") {
      for (const [key, one] of Object.entries(value)) element.dataset[key] = one;
    } else if (name === "style") {
      for (const [key, one] of Object.entries(value)) element.style.setProperty(key, one);
    } else if (name === "class") {
      element.classList.add(...value.split(" ").filter(Boolean));
    } else {
      element.setAttribute(name, value === true ? "" : value);
    }
  }
  element.append(...nodes(children));
  return element;
}

function nodes(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
}

/** Replace the children of an element. */
export function put(element, ...children) {
  element.replaceChildren(...nodes(children));
  return element;
}

const NAMES = new Map([
  [0x7f, "DEL"], [0xad, "SHY"], [0x61c, "ALM"], [0x180e, "MVS"], [0x200b, "ZWSP"], [0x200c, "ZWNJ"],
  [0x200d, "ZWJ"], [0x200e, "LRM"], [0x200f, "RLM"], [0x2028, "LSEP"], [0x2029, "PSEP"],
  [0x202a, "LRE"], [0x202b, "RLE"], [0x202c, "PDF"], [0x202d, "LRO"], [0x202e, "RLO"],
  [0x2060, "WJ"], [0x2066, "LRI"], [0x2067, "RLI"], [0x2068, "FSI"], [0x2069, "PDI"],
  [0xfeff, "BOM"], [0xfffd, "REPL"],
]);
const C0 = ("NUL SOH STX ETX EOT ENQ ACK BEL BS TAB LF VT FF CR SO SI DLE DC1 DC2 DC3 DC4 NAK SYN ETB "
  + "CAN EM SUB ESC FS GS RS US").split(" ");

// Controls but tab and line feed, invisible and bidirectional format characters, lone surrogates
// and the invisible tag characters.
const UNSEEN = new RegExp(
  "[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u061c\\u180e\\u200b-\\u200f\\u2028-\\u202e"
  + "\\u2060-\\u2069\\ufeff\\ufff9-\\ufffb]|[\\ud800-\\udfff]|[\\u{e0000}-\\u{e0fff}]",
  "gu",
);

// Joins letters of Indic and Arabic scripts, and the parts of an emoji.
const isJoiner = (code) => code === 0x200c || code === 0x200d;
const MANY = 24;

function nameOf(code) {
  if (code < 0x20) return C0[code];
  if (NAMES.has(code)) return NAMES.get(code);
  if (code >= 0xe0020 && code <= 0xe007e) return `TAG ${String.fromCodePoint(code - 0xe0000)}`;
  return `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
}

function mark(codes) {
  const names = codes.slice(0, MANY).map(nameOf);
  if (codes.length > MANY) names.push(`… ${codes.length} in all`);
  const points = codes.slice(0, MANY).map((code) => `U+${code.toString(16).toUpperCase().padStart(4, "0")}`);
  return h("span.mark", { title: points.join(" "), data: { mark: "" } }, names.join(" "));
}

/** Return text as nodes in which control, invisible and bidirectional characters are marks. */
export function visible(text) {
  const found = [];
  let from = 0;
  let codes = [];
  let marked = 0;
  const flush = () => {
    if (codes.length) found.push(mark(codes));
    codes = [];
  };
  const source = String(text ?? "");
  for (const match of source.matchAll(UNSEEN)) {
    const code = match[0].codePointAt(0);
    const at = match.index;
    if (isJoiner(code) && source.charCodeAt(at - 1) > 0x2ff && source.charCodeAt(at + 1) > 0x2ff) continue;
    if (code === 0x0d && source[at + 1] === "\n") continue;
    if (at > from || !codes.length) {
      flush();
      if (at > from) found.push(source.slice(from, at));
    }
    // A text of thousands of marks would be thousands of elements.
    if (++marked > 5000) break;
    codes.push(code);
    from = at + match[0].length;
  }
  flush();
  if (from < source.length) found.push(source.slice(from).replace(UNSEEN, (one) => (marked > 5000 ? "�" : one)));
  return found;
}

/** Return a long id with its middle left out; its element's title has more of it. */
export function shortened(text, most = 72) {
  const source = String(text ?? "");
  const letters = Array.from(source.slice(0, most * 4));
  if (source.length <= most || letters.length <= most) return source;
  const tail = Math.floor(most / 3);
  return `${letters.slice(0, most - tail - 1).join("")}…${Array.from(source.slice(-tail * 2)).slice(-tail).join("")}`;
}

/** An id in monospace, isolated from the direction of the text around it. */
export function code(text, most = 72, properties = {}) {
  const source = String(text ?? "");
  const short = shortened(source, most);
  const title = short === source ? null : source.slice(0, 600);
  // An empty id could be neither seen nor clicked.
  if (text === "") return h("bdi.id.muted", { ...properties }, "(empty)");
  return h("bdi.id", { title, ...properties }, visible(short));
}

let counter = 0;
/** Return an element id that no other element has. */
export function uniqueId(prefix) {
  counter += 1;
  return `${prefix}-${counter}`;
}
