// Copy buttons: <button data-copy> takes the text of the <code> beside it, or of the element that data-copy names.

export function startCopying() {
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy]");
    if (button) copy(button);
  });
}

async function copy(button) {
  const source = document.getElementById(button.dataset.copy) ?? button.parentElement.querySelector("code, pre");
  const words = button.textContent;
  button.textContent = (await isCopied(source)) ? "Copied" : "Press Ctrl+C";
  setTimeout(() => (button.textContent = words), 1500);
}

async function isCopied(source) {
  try {
    await navigator.clipboard.writeText(source.textContent);
    return true;
  } catch {
    getSelection().selectAllChildren(source); // no clipboard without https or leave: the viewer copies it
    return false;
  }
}
