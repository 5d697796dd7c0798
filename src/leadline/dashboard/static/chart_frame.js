// What stands around a plot: its title, the choice of the scale, and the list of findings.

// The title bar of a chart; with a button that changes the scale where the chart has one.
export function titleBar(name, scale, onChange) {
  const bar = document.createElement("div");
  bar.className = "chart-head";
  const title = document.createElement("h3");
  title.textContent = name;
  bar.append(title);
  if (scale) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "small scale";
    button.textContent = "log";
    button.title = "Logarithmic value axis";
    button.setAttribute("aria-label", `Logarithmic value axis of ${name}`);
    button.setAttribute("aria-pressed", String(scale === "log"));
    button.addEventListener("click", () => onChange(scale === "log" ? "linear" : "log"));
    bar.append(button);
  }
  return bar;
}

// The findings of the numbered flags, in their order.
export function flagList(texts, more) {
  const list = document.createElement("ol");
  list.className = "flags";
  for (const text of texts) {
    const entry = document.createElement("li");
    entry.textContent = text;
    list.append(entry);
  }
  if (more > 0) {
    const rest = document.createElement("li");
    rest.className = "more";
    rest.textContent = `and ${more.toLocaleString("en")} more`;
    list.append(rest);
  }
  return list;
}
