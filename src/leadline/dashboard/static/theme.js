// Light or dark theme: the viewer's choice, else the system's. Runs before the first paint, so it is not a module.
(() => {
  const KEY = "leadline-theme";
  const system = matchMedia("(prefers-color-scheme: dark)");
  const chosen = () => {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null; // storage is not allowed
    }
  };
  const show = () => {
    const theme = chosen() ?? (system.matches ? "dark" : "light");
    if (document.documentElement.dataset.theme === theme) return;
    document.documentElement.dataset.theme = theme;
    document.dispatchEvent(new CustomEvent("theme-changed", { detail: theme }));
  };
  const choose = () => {
    const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    try {
      const isSystem = (theme === "dark") === system.matches;
      if (isSystem) localStorage.removeItem(KEY);
      else localStorage.setItem(KEY, theme);
    } catch {
      document.documentElement.dataset.theme = theme; // for this page only
      document.dispatchEvent(new CustomEvent("theme-changed", { detail: theme }));
      return;
    }
    show();
  };
  show();
  system.addEventListener("change", show);
  addEventListener("storage", show);
  document.addEventListener("click", (event) => {
    if (event.target.closest?.("[data-toggle-theme]")) choose();
  });
})();
