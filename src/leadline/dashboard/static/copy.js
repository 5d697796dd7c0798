// Copy buttons: <button data-copy> copies the adjacent <code>, or the element named by data-copy.

export function startCopyButtons() {
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy]");
    if (button) copy(button);
  });
}

async function copy(button) {
  const source = document.getElementById(button.dataset.copy) ?? button.parentElement.querySelector("code, pre");
  const label = button.textContent;
  button.textContent = (await isCopied(source)) ? "Copied" : "Press Ctrl+C";
  setTimeout(() => (button.textContent = label), 1500);
}

async function isCopied(source) {
  try {
    await navigator.clipboard.writeText(source.textContent);
    return true;
  } catch {
    getSelection().selectAllChildren(source); // no clipboard access without https or permission: select for manual copying
    return false;
  }
}
