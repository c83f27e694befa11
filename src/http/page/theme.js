// Sets the colours before the first paint: those of the system, or the ones chosen with the button.
(() => {
  const themes = { "": "as the system", light: "light", dark: "dark" };
  const read = () => {
    try {
      return localStorage.getItem("fathom.theme") ?? "";
    } catch {
      return "";  // storage is switched off
    }
  };
  let current = Object.hasOwn(themes, read()) ? read() : "";
  const show = () => {
    if (current) document.documentElement.dataset.theme = current;
    else delete document.documentElement.dataset.theme;
  };
  show();
  addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const describe = () => {
      button.title = `Colours: ${themes[current]}`;
      button.setAttribute("aria-label", button.title);
    };
    describe();
    button.addEventListener("click", () => {
      const names = Object.keys(themes);
      current = names[(names.indexOf(current) + 1) % names.length];
      show();
      describe();
      try {
        localStorage.setItem("fathom.theme", current);
      } catch {
        // Then the choice ends with the page.
      }
    });
  });
})();
