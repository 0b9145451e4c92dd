// Markdown as elements: markdown-it makes tokens of it, and this module elements of the tokens. No
// markup is ever parsed as HTML, images are not loaded, and a link leads to a web or mail address.

import MarkdownIt from "./vendor/markdown-it.js";
import { h, visible } from "./dom.js";
import { copyButton } from "./parts.js";
import { highlighted } from "./highlight.js";

const MOST = 40000;
const TOKENS = 8000;
const DEPTH = 20;

const parser = new MarkdownIt({ html: false, linkify: false, breaks: true });
// Text that is indented is mostly no code.
parser.disable(["code"]);

const TAGS = {
  paragraph: "p", blockquote: "blockquote", bullet_list: "ul", ordered_list: "ol", list_item: "li",
  table: "table", thead: "thead", tbody: "tbody", tr: "tr", th: "th", td: "td", em: "em", strong: "strong", s: "s",
};

/** Return a text's Markdown as elements, or the text itself where it is too large or too deep. */
export function markdown(text) {
  const source = String(text ?? "");
  // The parser would put another character in the place of NUL.
  if (source.length > MOST || source.includes("\0")) return plain(source);
  try {
    const tokens = parser.parse(source, {});
    // What is nested deeper than the parser goes would be lost.
    if (count(tokens) > TOKENS || tokens.some((token) => token.level > DEPTH)) return plain(source);
    return h("div.markdown", {}, build(tokens));
  } catch {
    return plain(source);
  }
}

const plain = (source) => h("div.text", {}, visible(source));
const count = (tokens) => tokens.reduce((sum, token) => sum + 1 + (token.children?.length ?? 0), 0);

/** Return the nodes of a flat list of tokens, in which what opens is closed. */
function build(tokens) {
  const root = { nodes: [] };
  const open = [root];
  for (const token of tokens) {
    const top = open.at(-1);
    if (token.nesting === 1) {
      open.push({ token, nodes: [] });
    } else if (token.nesting === -1) {
      const done = open.pop();
      open.at(-1).nodes.push(element(done.token, done.nodes));
    } else {
      top.nodes.push(single(token));
    }
  }
  return root.nodes;
}

function element(token, nodes) {
  const name = token.type.replace(/_open$/, "");
  if (name === "paragraph" && token.hidden) return nodes;
  if (name === "heading") return h("p.md-heading", { role: "heading", "aria-level": Math.min(6, Number(token.tag[1]) + 2), data: { level: token.tag[1] } }, nodes);
  if (name === "link") return link(token.attrGet("href"), nodes);
  if (name === "ordered_list") return h("ol", { start: token.attrGet("start") }, nodes);
  if (name === "table") return h("div.md-table", { tabindex: 0, role: "group", "aria-label": "Table" }, h("table", {}, nodes));
  if (name === "th" || name === "td") {
    const align = /text-align:(left|right|center)/.exec(token.attrGet("style") ?? "");
    return h(name, align ? { style: { "text-align": align[1] } } : {}, nodes);
  }
  return Object.hasOwn(TAGS, name) ? h(TAGS[name], {}, nodes) : nodes;
}

function single(token) {
  switch (token.type) {
    case "inline":
      return build(token.children ?? []);
    case "text":
      return visible(token.content);
    case "softbreak":
    case "hardbreak":
      return h("br");
    case "code_inline":
      return h("code.md-code", {}, visible(token.content));
    case "fence":
    case "code_block":
      return codeBlock(token.content, token.info);
    case "hr":
      return h("hr");
    case "image":
      return [h("span.md-image", { title: "Images are not loaded" }, "image"), " ", link(token.attrGet("src"), visible(token.content || token.attrGet("src")))];
    default:
      return visible(token.content);
  }
}

/** A link to a web or mail address; to anything else, its text with the address behind it. */
function link(address, nodes) {
  let target = null;
  try {
    target = new URL(address ?? "");
  } catch {
    target = null;
  }
  if (!target || !["http:", "https:", "mailto:"].includes(target.protocol)) return h("span.md-no-link", { title: String(address ?? "").slice(0, 600) }, nodes);
  return h("a", { href: target.href, title: target.href.slice(0, 600), target: "_blank", rel: "noopener noreferrer nofollow" }, nodes);
}

/** Code with its language and a button that copies it. */
export function codeBlock(text, info = "") {
  const language = String(info ?? "").trim().split(/\s+/, 1)[0].slice(0, 24);
  const source = String(text).replace(/\n$/, "");
  return h("div.code-block", {},
    h("div.code-head", {}, h("span", {}, visible(language || "text")), copyButton(source, "Copy the code")),
    h("pre", { tabindex: 0 }, h("code", {}, highlighted(source, language))));
}
