// The conversation: sends it to the server and shows the answer as it comes.
import { errorOf, events, request, ServerError } from "./api.js";
import { byId } from "./dom.js";
import { AnswerTurn, UserTurn } from "./turn.js";

const kPinned = 48;      // px from the end within which the view follows the answer
const kAnnounced = 600;  // characters of an answer that are read out

export class Chat {
  // options(): the fields of a request besides messages as {fields, raw} where raw is JSON to add as
  // it is; null = the settings are wrong (and the user was told).
  constructor(options) {
    this.options = options;
    this.turns = [];
    this.running = null;  // AbortController of the answer that is coming
    this.log = byId("log");
    this.input = byId("input");
    this.empty = byId("empty");
    byId("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.send();
    });
    byId("stop").addEventListener("click", () => this.stop());
    byId("clear").addEventListener("click", () => this.clear());
    this.input.addEventListener("input", () => this.fit());
    this.input.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.send();
    });
  }

  // The field grows with its text; CSS limits it.
  fit() {
    this.input.rows = Math.min(10, this.input.value.split("\n").length);
  }

  add(turn) {
    this.empty.hidden = true;
    this.turns.push(turn);
    this.log.append(turn.root);
    this.log.scrollTop = this.log.scrollHeight;
  }

  send() {
    const text = this.input.value;
    if (this.running || text.trim() === "" || !this.options()) return;
    this.input.value = "";
    this.fit();
    this.add(new UserTurn(text));
    this.answer();
  }

  stop() {
    this.running?.abort();
  }

  clear() {
    this.stop();
    for (const turn of this.turns) turn.root.remove();
    this.turns = [];
    this.empty.hidden = false;
    byId("announce").textContent = "";
    this.input.focus();
  }

  // Takes the conversation back to before `turn` and asks again.
  retry(turn) {
    if (this.running || !this.options()) return;
    const at = this.turns.indexOf(turn);
    for (const gone of this.turns.splice(at)) gone.root.remove();
    this.answer();
  }

  async answer() {
    const options = this.options();
    if (!options || this.running) return;
    const turn = new AnswerTurn({
      retry: () => this.retry(turn),
      sendResults: () => {
        if (this.running || !this.options()) return false;
        this.answer();
        return true;
      },
      onDraw: () => this.follow(),
    });
    const body = this.body(options);
    this.add(turn);
    this.setRunning(new AbortController());
    const { signal } = this.running;
    const result = {};
    try {
      await this.receive(turn, body, signal);
    } catch (error) {
      if (signal.aborted) result.stopped = true;
      else result.error = error instanceof ServerError ? error
        : new ServerError("The connection was cut.", "Retry; the server’s log may say why.");
    }
    turn.finish(result);
    this.setRunning(null);
    this.follow();
    this.announce(turn, result);
  }

  body({ system, fields, raw }) {
    const messages = this.turns.flatMap((turn) => turn.messages());
    if (system) messages.unshift({ role: "system", content: system });
    const text = JSON.stringify({ ...fields, messages, stream: true, stream_options: { include_usage: true } });
    return raw ? `${text.slice(0, -1)},${raw}}` : text;
  }

  async receive(turn, body, signal) {
    const response = await request("v1/chat/completions", { body, signal });
    turn.seed = response.headers.get("X-Fathom-Seed") ?? "";
    for await (const data of events(response)) {
      if (data === "[DONE]") return;
      const chunk = JSON.parse(data);
      if (chunk.error) throw errorOf(chunk, 0);
      turn.take(chunk);
    }
    throw new ServerError("The answer ended before it was complete.", "Retry; the server’s log may say why.");
  }

  setRunning(controller) {
    this.running = controller;
    const stop = byId("stop");
    const send = byId("send");
    const moveFocus = document.activeElement === (controller ? send : stop);
    send.hidden = controller !== null;
    stop.hidden = controller === null;
    this.log.setAttribute("aria-busy", String(controller !== null));
    if (controller) {
      this.pinned = true;
      byId("announce").textContent = "The answer is coming.";
      this.log.onscroll = () => {
        this.pinned = this.log.scrollHeight - this.log.scrollTop - this.log.clientHeight < kPinned;
      };
    }
    if (moveFocus) this.input.focus();
  }

  follow() {
    if (this.pinned) this.log.scrollTop = this.log.scrollHeight;
  }

  announce(turn, { error, stopped }) {
    const text = error ? `${error.message} ${error.advice}` : stopped ? "Stopped." : turn.content;
    byId("announce").textContent = text.length > kAnnounced ? text.slice(0, kAnnounced) + " …" : text;
  }
}
