// The live panel: asks the server for its metrics every second.
import { byId } from "./dom.js";

const kInterval = 1000;  // ms
const kSamples = 120;    // of the chart
const kWidth = 120;      // of the chart's view box
const kHeight = 40;

// Values of Prometheus' text form by name; series that differ in labels only are added up.
export function parseMetrics(text) {
  const values = new Map();
  for (const line of text.split("\n")) {
    const found = /^([A-Za-z_:][\w:]*)(?:\{.*\})? (\S+)/.exec(line);
    if (found) values.set(found[1], (values.get(found[1]) ?? 0) + Number(found[2]));
  }
  return values;
}

function percent(ratio) {
  return `${(100 * ratio).toFixed(ratio > 0 && ratio < 0.1 ? 1 : 0)}%`;
}
function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; count >= 1024 && unit + 1 < units.length; ++unit) count /= 1024;
  return `${count.toFixed(count < 10 && unit > 0 ? 1 : 0)} ${units[unit]}`;
}
const short = (value) => (value >= 100 || value === 0 ? Math.round(value).toLocaleString("en") : value.toFixed(1));

export class Panel {
  // onState("connecting" | "loading" | "ready" | "draining" | "unreachable")
  constructor(onState) {
    this.onState = onState;
    this.speeds = [];
    this.before = null;  // {time, values} of the last answer
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this.poll();
    });
    this.poll();
  }

  // Nothing is asked while nobody looks.
  async poll() {
    clearTimeout(this.timer);
    if (document.hidden || this.polling) return;
    this.polling = true;
    try {
      const [ready, metrics] = await Promise.all([this.get("ready"), this.get("metrics")]);
      this.onState((await ready.json()).status ?? "unreachable");
      if (metrics.ok) this.take(parseMetrics(await metrics.text()));
    } catch {
      this.onState("unreachable");
      this.before = null;
      this.show("m-speed", "–");
    }
    this.polling = false;
    this.timer = setTimeout(() => this.poll(), kInterval);
  }
  get(path) {
    return fetch(path, { cache: "no-store", credentials: "omit", signal: AbortSignal.timeout(5 * kInterval) });
  }

  show(id, text) {
    const place = byId(id);
    if (place.textContent !== text) place.textContent = text;
  }

  take(values) {
    const now = { time: performance.now(), values };
    const get = (name) => values.get(`fathom:${name}`) ?? 0;
    const rate = (name) => {
      const was = this.before?.values.get(`fathom:${name}`);
      if (was === undefined) return 0;
      return Math.max(0, get(name) - was) * 1000 / (now.time - this.before.time);  // a restart counts from 0 again
    };
    if (this.before) this.draw(rate("generation_tokens_total"));
    this.show("m-prompt", short(rate("prompt_tokens_total")));
    this.show("m-running", String(get("num_requests_running")));
    this.show("m-waiting", String(get("num_requests_waiting")));
    const pages = get("kv_cache_pages");
    const used = get("kv_cache_usage_ratio");
    this.show("m-kv", pages ? `${percent(used)} of ${bytes(get("kv_cache_memory_bytes"))}` : "–");
    byId("m-kv-bar").value = used;
    const asked = get("prefix_cache_queries_total");
    this.show("m-hits", asked ? percent(get("prefix_cache_hits_total") / asked) : "–");
    this.show("m-preemptions", String(get("num_preemptions_total")));
    this.show("m-memory", bytes(values.get("process_resident_memory_bytes") ?? 0));
    this.before = now;
  }

  draw(speed) {
    this.show("m-speed", short(speed));
    this.speeds.push(speed);
    if (this.speeds.length > kSamples) this.speeds.shift();
    const top = Math.max(1, ...this.speeds);
    this.show("chart-top", top > 1 ? `peak ${short(top)}` : "");
    const x = (i) => kWidth - (this.speeds.length - 1 - i) * kWidth / (kSamples - 1);
    const y = (value) => kHeight - 1 - value / top * (kHeight - 4);
    const line = this.speeds.map((value, i) => `${i ? "L" : "M"}${x(i).toFixed(1)} ${y(value).toFixed(1)}`).join("");
    byId("chart-line").setAttribute("d", line);
    byId("chart-area").setAttribute("d", `${line}L${kWidth} ${kHeight}L${x(0).toFixed(1)} ${kHeight}Z`);
  }
}
