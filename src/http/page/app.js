// Puts the page together: models, state of the server, API key, side panel, keys of the keyboard.
import { hasKey, onKeyNeeded, request, setKey } from "./api.js";
import { Chat } from "./chat.js";
import { byId, element } from "./dom.js";
import { Panel } from "./panel.js";
import { Settings } from "./settings.js";

const kStates = {
  connecting: "connecting",
  loading: "loading the model",
  ready: "ready",
  draining: "shutting down",
  unreachable: "not reachable",
};
const kWide = matchMedia("(min-width: 900px)");

function showSide(shown) {
  byId("side").classList.toggle("open", shown);
  byId("side").inert = !shown;
  byId("side-toggle").setAttribute("aria-expanded", String(shown));
}
const sideShown = () => byId("side").classList.contains("open");

// Asks for the API key; null if the user has none.
function askForKey(message) {
  const dialog = byId("key-dialog");
  byId("key-message").textContent = message;
  byId("key").value = "";
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      resolve(dialog.returnValue === "ok" ? byId("key").value : null);
      byId("key").value = "";
    }, { once: true });
  });
}

let loadingModels = false;
let modelsKnown = false;

async function loadModels() {
  if (loadingModels) return;
  loadingModels = true;
  const picker = byId("model");
  try {
    const { data } = await (await request("v1/models")).json();
    const chosen = picker.value;
    picker.replaceChildren(...data.map(({ id, max_model_len: length }) =>
      element("option", { value: id, title: `${length} tokens of context` }, id)));
    if (data.some((model) => model.id === chosen)) picker.value = chosen;
    picker.disabled = false;
    modelsKnown = true;
  } catch (error) {
    picker.replaceChildren(element("option", { value: "", title: error.message }, "no model"));
    picker.disabled = true;
    modelsKnown = error.status === 401;  // asked again with the next message, not every second
  }
  byId("forget-key").hidden = !hasKey();
  loadingModels = false;
}

function showState(state) {
  const status = byId("status");
  if (status.dataset.state !== state) {
    status.dataset.state = state;
    status.querySelector("b").textContent = kStates[state] ?? state;
    status.title = `The server: ${kStates[state] ?? state}`;
    if (state === "loading" || state === "unreachable") modelsKnown = false;  // it may come back with others
  }
  if (state === "ready" && !modelsKnown) loadModels();
}

function start() {
  onKeyNeeded(async (message) => {
    const key = await askForKey(message);
    if (key !== null) modelsKnown = false;  // the list may have been refused before
    return key;
  });
  const settings = new Settings(() => showSide(true));
  const chat = new Chat(() => {
    const options = settings.read();
    if (!options) return null;
    const model = byId("model").value;
    return { ...options, fields: model ? { model, ...options.fields } : options.fields };
  });
  new Panel(showState);

  showSide(kWide.matches);
  kWide.addEventListener("change", () => showSide(kWide.matches));
  byId("side-toggle").addEventListener("click", () => showSide(!sideShown()));
  byId("key-cancel").addEventListener("click", () => byId("key-dialog").close(""));
  byId("forget-key").addEventListener("click", () => {
    setKey("");
    byId("forget-key").hidden = true;
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || byId("key-dialog").open) return;
    if (chat.running) {
      chat.stop();
    } else if (sideShown() && !kWide.matches) {
      showSide(false);
      byId("side-toggle").focus();
    }
  });
}

start();
