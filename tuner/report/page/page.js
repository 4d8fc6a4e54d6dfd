"use strict";
(function () {
  const told = JSON.parse(document.getElementById("hovers").textContent);
  const box = document.getElementById("hover");
  let pinned = false;

  async function copy(text, button) {
    let done = false;
    try {
      await navigator.clipboard.writeText(text);
      done = true;
    } catch {
      // A page opened from a file may have no clipboard: the old way works there.
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      done = document.execCommand("copy");
      area.remove();
    }
    button.textContent = done ? "Copied" : "Select it by hand";
    setTimeout(() => (button.textContent = "Copy"), 1600);
  }

  for (const one of document.querySelectorAll(".command"))
    one.querySelector("button").addEventListener("click", (event) =>
      copy(one.querySelector("code").textContent, event.currentTarget));

  function element(tag, text) {
    const made = document.createElement(tag);
    made.textContent = text;
    return made;
  }

  function show(mark) {
    const one = told[Number(mark.dataset.h)];
    box.replaceChildren(element("b", one.t), ...one.l.map((line) => element("p", line)));
    if (one.c) {
      const button = element("button", "Copy");
      button.type = "button";
      button.addEventListener("click", () => copy(one.c, button));
      box.append(element("pre", one.c), button);
    }
    box.hidden = false;
    const at = mark.getBoundingClientRect();
    const left = Math.min(Math.max(8, at.left + 12), document.documentElement.clientWidth - box.offsetWidth - 8);
    const below = at.bottom + box.offsetHeight + 12 < innerHeight || at.top < box.offsetHeight + 12;
    box.style.left = `${Math.max(8, left) + scrollX}px`;
    box.style.top = `${(below ? at.bottom + 8 : at.top - box.offsetHeight - 8) + scrollY}px`;
  }

  function hide() {
    pinned = false;
    box.hidden = true;
  }

  const markOf = (event) => event.target.closest?.("[data-h]");
  document.addEventListener("mouseover", (event) => {
    const mark = markOf(event);
    if (mark && !pinned) show(mark);
  });
  document.addEventListener("mouseout", (event) => markOf(event) && !pinned && hide());
  document.addEventListener("focusin", (event) => markOf(event) && show(markOf(event)));
  // A click or a tap holds it, so that the command can be copied.
  document.addEventListener("click", (event) => {
    const mark = markOf(event);
    if (mark) {
      show(mark);
      pinned = true;
    } else if (!box.contains(event.target)) hide();
  });
  document.addEventListener("keydown", (event) => event.key === "Escape" && hide());
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    for (const one of folded) one.open = true;
  });
  addEventListener("afterprint", () => {
    for (const one of folded) one.open = false;
  });
})();
