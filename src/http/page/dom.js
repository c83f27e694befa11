// Builds elements. Text is only ever set as text, so that nothing that a model writes becomes markup.

export const byId = (id) => document.getElementById(id);

// element("p", {className: "note"}, "text", otherElement)
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("aria-") || name === "role") made.setAttribute(name, value);
    else made[name] = value;
  }
  made.append(...children);
  return made;
}

export function button(text, onClick, properties = {}) {
  const made = element("button", { type: "button", ...properties }, text);
  made.addEventListener("click", onClick);
  return made;
}

async function toClipboard(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  // Over plain HTTP from another machine browsers have no clipboard but this.
  const area = element("textarea", { value: text, className: "hidden" });
  document.body.append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  if (!copied) throw new Error("refused");
}

// A button that copies what `text()` gives at the time.
export function copyButton(text, label = "Copy") {
  const made = button(label, async () => {
    try {
      await toClipboard(text());
      made.textContent = "Copied";
    } catch {
      made.textContent = "Not allowed";
    }
    setTimeout(() => (made.textContent = label), 1500);
  });
  return made;
}
