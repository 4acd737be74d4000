// Streamlit drops what a page says while its connection is away. It is said again afterwards.

/** @typedef {{say: (name: string, value: any) => void}} Speaker */
/** @typedef {{speaker: Speaker, name: string, value: any}} Unheard */

const APP = "[data-testid='stApp']";
const CONNECTION = "data-test-connection-state", SCRIPT = "data-test-script-state";
const BACK = "tv-reconnected"; // the event that says so; each script on a page has its own copy

/** @type {Unheard[]} */
let unheard = []; // what was said since the server last began a run
const watch = { begun: false, connected: true };

/** Watch Streamlit's own element from now on. */
function watchConnection() {
  if (watch.begun || !document.querySelector(APP)) return;
  watch.begun = true;
  const look = () => {
    const app = document.querySelector(APP);
    if (!app) return;
    const connected = app.getAttribute(CONNECTION) === "CONNECTED";
    if (connected && !watch.connected) window.dispatchEvent(new Event(BACK));
    else if (connected && app.getAttribute(SCRIPT) === "running") unheard = [];
    watch.connected = connected;
  };
  window.addEventListener(BACK, sayAgain);
  new MutationObserver(look).observe(document.body,
    { subtree: true, attributes: true, attributeFilter: [CONNECTION, SCRIPT] });
  look();
}

/**
 * Say something to Python, and once more if the connection was lost before Python began a run.
 * @param {Speaker} speaker
 * @param {string} name
 * @param {any} value
 */
export function sayHeard(speaker, name, value) {
  watchConnection();
  unheard = unheard.filter((one) => one.speaker !== speaker || one.name !== name);
  unheard.push({ speaker, name, value });
  speaker.say(name, value);
}

function sayAgain() {
  const again = unheard;
  unheard = [];
  for (const { speaker, name, value } of again) sayHeard(speaker, name, value);
}

/**
 * Act whenever the connection is there again; gives what ends this.
 * @param {() => void} act
 */
export function onReconnect(act) {
  watchConnection();
  window.addEventListener(BACK, act);
  return () => window.removeEventListener(BACK, act);
}
