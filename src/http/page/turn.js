// One message of the conversation: what it says to the model and what it looks like.
import { button, copyButton, element } from "./dom.js";
import { MarkdownView } from "./markdown.js";

const kSlowText = 50_000;  // characters from which on an answer is drawn less often while it grows
const kSlowDraw = 400;     // ms
const kMeasurable = 100;   // ms between the first and the last token that tell a speed

export class UserTurn {
  constructor(text) {
    this.text = text;
    this.root = element("article", { className: "turn user", "aria-label": "You" }, element("p", {}, text));
  }
  messages() {
    return [{ role: "user", content: this.text }];
  }
}

function pretty(json) {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json;  // not complete, or not JSON
  }
}

// A call of a tool, with room for the result that the user gives it.
class ToolCall {
  constructor(id, name) {
    this.id = id;
    this.name = name;
    this.arguments = "";
    this.code = element("code");
    this.result = element("textarea", { rows: 2, className: "code", placeholder: "Result of the tool" });
    this.result.setAttribute("aria-label", `Result of ${name}`);
    this.root = element("div", { className: "call" },
      element("p", {}, "Calls ", element("strong", {}, name)),
      element("pre", { tabIndex: 0 }, this.code), this.result);
    this.result.hidden = true;
  }
  add(text) {
    this.arguments += text;
    this.code.textContent = this.arguments;
  }
  finish(onResult) {
    this.code.textContent = pretty(this.arguments);
    this.result.hidden = false;
    this.result.addEventListener("input", onResult);
  }
  message() {
    return { id: this.id, type: "function", function: { name: this.name, arguments: this.arguments } };
  }
}

function seconds(ms) {
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

export class AnswerTurn {
  // actions: retry(), sendResults() -> false if it cannot be done now, onDraw()
  constructor(actions) {
    this.actions = actions;
    this.reasoning = "";
    this.content = "";
    this.calls = [];
    this.finishReason = null;
    this.usage = null;
    this.fingerprint = "";
    this.seed = "";
    this.started = performance.now();
    this.first = this.last = 0;  // times of the first and the last token; 0 = none yet
    this.waiting = element("p", { className: "waiting" }, element("i"), element("i"), element("i"),
      element("span", { className: "hidden" }, "Waiting for the first token"));
    this.thinking = new MarkdownView("markdown");
    this.thinkingTitle = element("summary", {}, "Thinking …");
    this.thinkingBox = element("details", { className: "thinking", open: true, hidden: true },
      this.thinkingTitle, this.thinking.root);
    this.view = new MarkdownView("markdown");
    this.callBox = element("div", { className: "calls" });
    this.problem = element("div", { className: "problem", hidden: true });
    this.foot = element("footer");
    this.root = element("article", { className: "turn answer", "aria-label": "Answer" },
      this.thinkingBox, this.view.root, this.callBox, this.waiting, this.problem, this.foot);
    this.drawn = 0;
    this.planned = 0;
  }

  // Takes a chunk of the stream.
  take(chunk) {
    this.fingerprint = chunk.system_fingerprint ?? this.fingerprint;
    if (chunk.usage) this.usage = chunk.usage;
    const choice = chunk.choices?.[0];
    if (!choice) return;
    const { reasoning_content: reasoning, content, tool_calls: calls } = choice.delta ?? {};
    if (reasoning || content || calls) {
      this.last = performance.now();
      this.first ||= this.last;
      this.waiting.hidden = true;
    }
    if (reasoning) this.reasoning += reasoning;
    if (content && this.content === "" && this.reasoning) this.endThinking();
    if (content) this.content += content;
    for (const call of calls ?? []) this.takeCall(call);
    this.finishReason = choice.finish_reason ?? this.finishReason;
    this.plan();
  }

  takeCall({ index, id, function: called }) {
    if (!this.calls[index]) {
      this.calls[index] = new ToolCall(id ?? `call_${index}`, called?.name ?? "");
      this.callBox.append(this.calls[index].root);
    }
    this.calls[index].add(called?.arguments ?? "");
  }

  endThinking() {
    const end = this.last || performance.now();
    this.thinkingTitle.textContent = `Thought for ${seconds(end - this.first)}`;
    this.thinkingBox.open = false;
  }

  // Draws with the next frame; a long answer less often.
  plan() {
    if (this.planned) return;
    const slow = this.content.length + this.reasoning.length > kSlowText;
    const wait = slow ? Math.max(0, this.drawn + kSlowDraw - performance.now()) : 0;
    this.planned = setTimeout(() => requestAnimationFrame(() => this.draw()), wait);
  }
  draw() {
    clearTimeout(this.planned);
    this.planned = 0;
    this.drawn = performance.now();
    this.thinkingBox.hidden = this.reasoning === "";
    if (this.reasoning) this.thinking.update(this.reasoning);
    this.view.update(this.content);
    this.actions.onDraw?.();
  }

  // The answer is over: complete, stopped by the user, or with an error.
  finish({ error = null, stopped = false } = {}) {
    this.waiting.hidden = true;
    if (this.reasoning && this.content === "") this.endThinking();
    this.calls = this.calls.filter(Boolean);
    this.draw();
    if (error) this.showProblem(error);
    const complete = !error && !stopped;
    if (complete && this.calls.length > 0) this.askForResults();
    const notes = this.notes(stopped, complete);
    this.foot.append(element("span", { className: "stats" }, notes.join(" · ")),
      element("span", { className: "buttons" },
        ...(this.content ? [copyButton(() => this.content)] : []), button("Retry", () => this.actions.retry())));
  }

  notes(stopped, complete) {
    const notes = [];
    if (stopped) notes.push("stopped");
    if (this.finishReason === "length") notes.push("cut at the limit of tokens");
    const tokens = this.usage?.completion_tokens;
    if (tokens !== undefined) notes.push(`${tokens} ${tokens === 1 ? "token" : "tokens"}`);
    if (tokens > 0 && this.first) notes.push(`${this.speed(tokens).toFixed(1)} tok/s`);
    if (this.first) notes.push(`first token ${seconds(this.first - this.started)}`);
    if (this.usage) {
      const cached = this.usage.prompt_tokens_details?.cached_tokens ?? 0;
      notes.push(`prompt ${this.usage.prompt_tokens}, ${cached} cached`);
    }
    if (complete && this.seed) notes.push(`seed ${this.seed}`);
    if (this.fingerprint) notes.push(this.fingerprint);
    return notes;
  }

  // Tokens per second after the first one. Those of a short answer may arrive at once, which says
  // nothing about the model: then over the whole time.
  speed(tokens) {
    const decoding = this.last - this.first;
    if (decoding >= kMeasurable) return (tokens - 1) * 1000 / decoding;
    return tokens * 1000 / Math.max(1, this.last - this.started);
  }

  showProblem(error) {
    this.problem.hidden = false;
    this.problem.append(element("p", {}, element("strong", {}, error.message)),
      element("p", {}, error.advice ?? "Retry."));
  }

  askForResults() {
    const send = button("Send results", () => {
      if (!this.actions.sendResults()) return;
      send.remove();
      for (const call of this.calls) call.result.disabled = true;
    }, { disabled: true, className: "primary" });
    const check = () => (send.disabled = this.calls.some((call) => call.result.value.trim() === ""));
    for (const call of this.calls) call.finish(check);
    this.callBox.append(element("p", {}, send));
  }

  // For the history; nothing if nothing was said.
  messages() {
    if (this.content === "" && this.calls.length === 0) return [];
    const message = { role: "assistant", content: this.content };
    if (this.finishReason !== "tool_calls" || this.calls.length === 0) return [message];
    message.tool_calls = this.calls.map((call) => call.message());
    if (this.reasoning) message.reasoning_content = this.reasoning;
    const results = this.calls.filter((call) => call.result.value.trim() !== "")
      .map((call) => ({ role: "tool", tool_call_id: call.id, content: call.result.value }));
    return [message, ...results];
  }
}
