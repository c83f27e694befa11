// Shows the part of Markdown that models write: paragraphs, headings, lists, quotes, tables, code, emphasis, links.
import { copyButton, element } from "./dom.js";

const kFence = /^ {0,3}(`{3,}|~{3,})([^`]*)$/;
const kHeading = /^(#{1,6})\s+(.*)$/;
const kRule = /^ {0,3}([-*_])(\s*\1){2,}\s*$/;
const kItem = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const kQuote = /^ {0,3}>\s?(.*)$/;
const kTableRule = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;
const kMaxDepth = 6;  // of quotes and lists in each other

const isTable = (lines, i) => lines[i].includes("|") && i + 1 < lines.length && lines[i + 1].includes("-") &&
  lines[i + 1].includes("|") && kTableRule.test(lines[i + 1]);
const startsBlock = (lines, i) => kFence.test(lines[i]) || kHeading.test(lines[i]) || kRule.test(lines[i]) ||
  kItem.test(lines[i]) || kQuote.test(lines[i]) || isTable(lines, i);

// Index after the last line from `start` on for which `belongs(line, index)` holds.
function runOf(lines, start, belongs) {
  let i = start;
  while (i < lines.length && belongs(lines[i], i)) ++i;
  return i;
}

function endOfFence(lines, start) {
  const mark = kFence.exec(lines[start])[1];
  const closes = (line) => line.trim().startsWith(mark) && line.trim() === mark[0].repeat(line.trim().length);
  const last = runOf(lines, start + 1, (line) => !closes(line));
  return Math.min(last + 1, lines.length);
}

// A list goes on over its indented lines, and over empty lines if another item follows.
function endOfList(lines, start) {
  return runOf(lines, start + 1, (line, i) => kItem.test(line) && !kRule.test(line) || /^\s+\S/.test(line) ||
    line.trim() === "" && i + 1 < lines.length && (kItem.test(lines[i + 1]) || /^\s{2,}\S/.test(lines[i + 1])));
}

// Splits text into blocks {kind, lines}; every line but empty ones between blocks is in one.
function blocksOf(lines) {
  const blocks = [];
  for (let i = 0; i < lines.length;) {
    const line = lines[i];
    let kind = "paragraph";
    let end = i + 1;
    if (line.trim() === "") {
      i = end;
      continue;
    }
    if (kFence.test(line)) {
      kind = "code";
      end = endOfFence(lines, i);
    } else if (kHeading.test(line)) {
      kind = "heading";
    } else if (kRule.test(line)) {
      kind = "rule";
    } else if (kQuote.test(line)) {
      kind = "quote";
      end = runOf(lines, i, (each) => kQuote.test(each));
    } else if (kItem.test(line)) {
      kind = "list";
      end = endOfList(lines, i);
    } else if (isTable(lines, i)) {
      kind = "table";
      end = runOf(lines, i, (each) => each.includes("|"));
    } else {
      end = runOf(lines, i + 1, (each, at) => each.trim() !== "" && !startsBlock(lines, at));
    }
    blocks.push({ kind, lines: lines.slice(i, end) });
    i = end;
  }
  return blocks;
}

// What may begin a span inside of a line. Each is looked at once, and a mark that is never closed is
// looked for once, so that a model that repeats itself costs no more than its length.
const kMarks = /`+|\*\*|__|~~|\*|\[|https?:\/\//g;
const kLink = /\[([^[\]\n]{1,500})\]\(([^()\s]{1,2000})\)/y;
const kAddress = /https?:\/\/[^\s<>()"'`]*[^\s<>()"'`.,;:!?*]/y;
const kSpanTags = { "**": "strong", "__": "strong", "*": "em", "~~": "del" };

const isWord = (character) => character !== undefined && /[\p{L}\p{N}_]/u.test(character);
const isSpace = (character) => character === undefined || /\s/.test(character);

function matchAt(pattern, text, at) {
  pattern.lastIndex = at;
  return pattern.exec(text);
}

function link(address, children) {
  if (!/^https?:\/\//i.test(address)) return children;  // no javascript: and the like
  return [element("a", { href: address, target: "_blank", rel: "noopener noreferrer" }, ...children)];
}

// Where the span that `mark` at `start` opens is closed; -1 = nowhere.
function closeOf(text, start, mark) {
  const isCode = mark[0] === "`";
  let at = text.indexOf(mark, start + mark.length + (isCode ? 0 : 1));
  while (at >= 0) {
    let end = at;
    while (text[end] === mark[0]) ++end;  // the whole run of this character
    const fits = end - at === mark.length || (!isCode && mark.length === 2 && end - at > 2);
    if (fits && (isCode || !isSpace(text[at - 1]))) return at;
    at = text.indexOf(mark, end);
  }
  return -1;
}

// The span that begins with `mark`: {nodes, end}, or null if it is plain text after all.
function spanAt(text, start, mark, depth, hopeless) {
  if (mark === "[" || mark.startsWith("http")) {
    const found = matchAt(mark === "[" ? kLink : kAddress, text, start);
    if (!found) return null;
    const [whole, label, address] = found;
    return { nodes: label ? link(address, inline(label, depth + 1)) : link(whole, [whole]), end: start + whole.length };
  }
  const after = start + mark.length;
  const isCode = mark[0] === "`";
  if (!isCode && (isSpace(text[after]) || mark !== "~~" && isWord(text[start - 1]))) return null;
  const close = hopeless.has(mark) ? -1 : closeOf(text, start, mark);
  if (close < 0) {
    hopeless.add(mark);
    return null;
  }
  const inner = text.slice(after, close);
  const node = isCode ? element("code", {}, inner.trim() || inner)
                      : element(kSpanTags[mark], {}, ...inline(inner, depth + 1));
  return { nodes: [node], end: close + mark.length };
}

// Text nodes and elements of a piece of running text.
function inline(text, depth = 0) {
  if (depth > kMaxDepth) return [text];
  const nodes = [];
  const hopeless = new Set();
  const marks = new RegExp(kMarks);
  let plain = 0;  // where the text begins that is not in nodes yet
  for (let found; (found = marks.exec(text));) {
    const span = spanAt(text, found.index, found[0], depth, hopeless);
    if (!span) continue;
    nodes.push(text.slice(plain, found.index), ...span.nodes);
    plain = marks.lastIndex = span.end;
  }
  nodes.push(text.slice(plain));
  return nodes.filter((node) => node !== "");
}

function codeBlock(lines) {
  const [, mark, info] = kFence.exec(lines[0]);
  const language = info.trim().split(/\s/)[0];
  const last = lines[lines.length - 1].trim();
  const closed = lines.length > 1 && last.startsWith(mark) && last === mark[0].repeat(last.length);
  const code = lines.slice(1, closed ? -1 : undefined).join("\n");
  return element("div", { className: "code-block" },
    element("div", { className: "code-head" }, element("span", {}, language || "code"), copyButton(() => code)),
    element("pre", { tabIndex: 0 }, element("code", {}, code)));
}

function list(lines, depth) {
  const [, indent, mark] = kItem.exec(lines[0]);
  const ordered = /\d/.test(mark);
  const made = element(ordered ? "ol" : "ul");
  if (ordered) made.start = Number.parseInt(mark, 10);
  let item = [];
  let width = 0;
  const finish = () => {
    if (item.length > 0) made.append(element("li", {}, ...render(item, depth + 1)));
  };
  for (const line of lines) {
    const found = kItem.exec(line);
    if (found && found[1].length <= indent.length + 1) {
      finish();
      item = [found[3]];
      width = line.length - found[3].length;
    } else {
      item.push(line.slice(Math.min(width, line.length - line.trimStart().length)));
    }
  }
  finish();
  return made;
}

function table(lines) {
  const cells = (line) => line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/).map((cell) => cell.trim());
  const row = (tag, line) =>
    element("tr", {}, ...cells(line).map((cell) => element(tag, {}, ...inline(cell.replaceAll("\\|", "|")))));
  return element("div", { className: "table" }, element("table", {},
    element("thead", {}, row("th", lines[0])),
    element("tbody", {}, ...lines.slice(2).map((line) => row("td", line)))));
}

function show({ kind, lines }, depth) {
  switch (kind) {
    case "code": return codeBlock(lines);
    case "heading": {
      const [, marks, text] = kHeading.exec(lines[0]);
      return element(`h${Math.min(6, marks.length + 2)}`, {}, ...inline(text));  // the page has h1 and h2
    }
    case "rule": return element("hr");
    case "quote": return element("blockquote", {}, ...render(lines.map((line) => kQuote.exec(line)[1]), depth + 1));
    case "list": return list(lines, depth);
    case "table": return table(lines);
    default: return element("p", {}, ...inline(lines.join("\n")));
  }
}

function render(lines, depth) {
  if (depth > kMaxDepth) return [element("p", {}, lines.join("\n"))];
  const blocks = blocksOf(lines);
  // The only paragraph of an item needs no element of its own.
  if (depth > 0 && blocks[0]?.kind === "paragraph") {
    return [...inline(blocks[0].lines.join("\n")), ...blocks.slice(1).map((block) => show(block, depth))];
  }
  return blocks.map((block) => show(block, depth));
}

// Keeps an element equal to a growing text: only blocks that changed are built again.
export class MarkdownView {
  constructor(className) {
    this.root = element("div", { className });
    this.shown = [];  // sources of the blocks in root
  }

  update(text) {
    const blocks = blocksOf(text.split(/\r\n|\n/));
    const sources = blocks.map((block) => block.kind + "\n" + block.lines.join("\n"));
    let same = 0;
    while (same < sources.length && sources[same] === this.shown[same]) ++same;
    while (this.root.childNodes.length > same) this.root.lastChild.remove();
    this.root.append(...blocks.slice(same).map((block) => show(block, 0)));
    this.shown = sources;
  }
}
