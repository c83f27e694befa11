// The settings: kept in the browser, checked, and turned into the fields of a request.
import { byId } from "./dom.js";

const kStored = "fathom.settings";
const kFields = ["system", "temperature", "top-p", "max-tokens", "seed", "thinking", "tools"];
const field = (name) => byId(`s-${name}`);

function load() {
  let stored = {};
  try {
    stored = JSON.parse(localStorage.getItem(kStored) ?? "{}") ?? {};
  } catch {
    // Storage is switched off or broken: the settings begin empty.
  }
  for (const name of kFields) {
    if (typeof stored[name] === "string") field(name).value = stored[name];
  }
}

function save() {
  try {
    localStorage.setItem(kStored, JSON.stringify(Object.fromEntries(kFields.map((name) => [name, field(name).value]))));
  } catch {
    // Then they end with the page.
  }
}

export class Settings {
  // `reveal()` makes the settings visible.
  constructor(reveal) {
    this.reveal = reveal;
    this.form = byId("settings");
    this.problem = byId("settings-error");
    load();
    this.form.addEventListener("input", () => {
      this.tell("");
      save();
    });
    this.form.addEventListener("reset", () => setTimeout(() => {
      this.tell("");
      save();
    }));
    this.form.addEventListener("submit", (event) => event.preventDefault());
  }

  tell(problem) {
    this.problem.textContent = problem;
    this.problem.hidden = problem === "";
  }

  wrong(place, problem) {
    this.reveal();
    for (let box = place.closest("details"); box; box = box.parentElement.closest("details")) box.open = true;
    this.tell(problem);
    place.focus();
    return null;
  }

  // {system, fields, raw} for Chat; null if something is wrong, which the user is told.
  read() {
    const fields = {};
    const names = { temperature: "Temperature", "top-p": "Top p", "max-tokens": "Max tokens" };
    for (const [name, title] of Object.entries(names)) {
      const place = field(name);
      if (!place.checkValidity()) {
        return this.wrong(place, `${title} must be a ${place.step === "1" ? "whole " : ""}number` +
          (place.max ? ` from ${place.min} to ${place.max}.` : ` of at least ${place.min}.`));
      }
      if (place.value !== "") fields[name.replace("-", "_")] = Number(place.value);
    }
    if (!field("seed").checkValidity()) {
      return this.wrong(field("seed"), "Seed must be a whole number of up to 19 digits.");
    }
    if (field("thinking").value) fields.thinking = { type: field("thinking").value };
    if (field("tools").value.trim() !== "") {
      try {
        fields.tools = JSON.parse(field("tools").value);
      } catch (error) {
        return this.wrong(field("tools"), `Tools are not JSON: ${error.message}.`);
      }
      if (!Array.isArray(fields.tools)) return this.wrong(field("tools"), "Tools must be a JSON list.");
    }
    // As text: numbers of JavaScript do not hold 64 bits. BigInt drops zeros in front.
    const seed = field("seed").value;
    return { system: field("system").value, fields, raw: seed === "" ? "" : `"seed":${BigInt(seed)}` };
  }
}
