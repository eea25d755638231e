// Brings the parts of a page that are live up to date. Without it, every page can still be read.
"use strict";

const PAUSE = 500; // milliseconds between two updates
const status = document.getElementById("connection");
const shown = document.documentElement.dataset;
let asked = false;
let last = 0;

// Makes `old` like `fresh` and keeps as many elements as possible, so that focus and selection stay.
function update(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  if (old.nodeType !== Node.ELEMENT_NODE || old.nodeName !== fresh.nodeName) {
    old.replaceWith(document.importNode(fresh, true));
    return;
  }
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name)) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  const before = [...old.childNodes];
  const after = [...fresh.childNodes];
  after.forEach((child, at) => {
    if (at < before.length) update(before[at], child);
    else old.append(document.importNode(child, true));
  });
  for (const child of before.slice(after.length)) child.remove();
}

// Whether somebody is reading or using a part with the keyboard or a selection.
function isUsed(part) {
  const selection = document.getSelection();
  return part.contains(document.activeElement)
    || (selection && !selection.isCollapsed && part.contains(selection.anchorNode));
}

async function refresh() {
  asked = false;
  last = Date.now();
  if (document.hidden) return;
  try {
    const answer = await fetch(location.href, { headers: { accept: "text/html" } });
    if (!answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of document.querySelectorAll("[data-live]")) {
      const other = fresh.querySelector(`[data-live="${CSS.escape(part.dataset.live)}"]`);
      if (other && !isUsed(part)) update(part, other);
    }
    const subtitle = fresh.querySelector("header .soft");
    if (subtitle) document.querySelector("header .soft").textContent = subtitle.textContent;
    shown.version = fresh.documentElement.dataset.version;
  } catch {
    // The stream says when the server is gone.
  }
}

function ask() {
  if (asked) return;
  asked = true;
  setTimeout(refresh, Math.max(0, last + PAUSE - Date.now()));
}

// A browser keeps few connections to a server: a page that nobody sees gives its own back.
let stream = null;

function follow() {
  if (document.hidden) {
    if (stream) stream.close();
    stream = null;
    return;
  }
  if (stream) return;
  stream = new EventSource("/events");
  stream.addEventListener("change", (event) => {
    if (JSON.parse(event.data).version !== shown.version) ask();
  });
  stream.onopen = () => {
    status.textContent = "";
  };
  stream.onerror = () => {
    status.textContent = "The server does not answer; what is shown may be old.";
  };
}

if (document.querySelector("[data-live]")) {
  follow();
  document.addEventListener("visibilitychange", follow);
}
shown.script = "ready";
