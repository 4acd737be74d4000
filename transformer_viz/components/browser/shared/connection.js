// Streamlit drops what a page says while its connection is away. It is said again afterwards: first
// the values of all controls, then what acts once, such as a step of a slider or a choice of a page.

/** @typedef {{say: (name: string, value: any, id: string) => void}} Speaker
 *   id: the same each time that something is said, so that Python acts on it once */
/** @typedef {{speaker: Speaker, name: string, value: any, id: string}} Unheard */

const APP = "[data-testid='stApp']";
const CONNECTION = "data-test-connection-state", SCRIPT = "data-test-script-state";
const BACK = "tv-reconnected"; // the event that says so
const BOXES = ["stTextInput", "stTextArea", "stNumberInput"].map((name) => `[data-testid=${name}]`)
  .map((box) => `${box} input, ${box} textarea`).join(", ");
// What Streamlit and browsers say where a style sheet or a script did not come.
const BROKEN = /BidiComponent Error|dynamically imported module|module script failed/;

const CALM = 400; // milliseconds after which a page that is connected anew asks for no run itself

/** @typedef {{begun: boolean, connected: boolean, ran: boolean, due: boolean, timer: number,
 *   unheard: Unheard[], lost: Unheard[]}} Watch
 *   unheard: what was said since the server last began a run
 *   lost: what is said again when the page has come to rest */

// One for all scripts on a page, each of which has its own copy of this file: two wishes to run the
// page at once would break off the run of the first, and leave its controls empty.
const SHARED = Symbol.for("tv-connection");
/** @type {Watch} */
const watch = Object.assign(window, { [SHARED]: Reflect.get(window, SHARED) ?? {
  begun: false, connected: true, ran: false, due: false, timer: 0, unheard: [], lost: [] } })[SHARED];

/** Watch Streamlit's own element from now on. */
function watchConnection() {
  if (watch.begun || !document.querySelector(APP)) return;
  watch.begun = true;
  const look = () => {
    const app = document.querySelector(APP);
    if (!app) return;
    const connected = app.getAttribute(CONNECTION) === "CONNECTED";
    const runs = app.getAttribute(SCRIPT) !== "notRunning";
    if (connected && !watch.connected) {
      [watch.lost, watch.unheard] = [[...watch.lost, ...watch.unheard], []];
      watch.ran = runs;
      watch.due = true;
      rest();
    } else if (connected && runs) {
      watch.unheard = [];
      watch.ran = true;
      if (watch.due) rest();
    }
    watch.connected = connected;
  };
  const rest = () => {
    clearTimeout(watch.timer);
    watch.timer = setTimeout(() => {
      const app = document.querySelector(APP);
      if (watch.connected && app?.getAttribute(SCRIPT) !== "notRunning") return rest();
      watch.timer = 0;
      if (!watch.connected) return;
      commitBoxes();
      if (!watch.ran) window.dispatchEvent(new Event(BACK));
      else if (watch.lost.length) sayAgain();
      else {
        watch.due = false;
        if (isBroken()) location.reload(); // Streamlit does not ask for such a file again
      }
    }, CALM);
  };
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
  speaker.say(name, value, keepUntilHeard(speaker, name, value));
}

/**
 * Keep what Streamlit is told until a run begins; gives its number.
 * @param {Speaker} speaker  says it once more if the connection is lost before
 * @param {string} name
 * @param {any} value
 */
export function keepUntilHeard(speaker, name, value, id = Math.random().toString(36).slice(2)) {
  watchConnection();
  const others = watch.unheard.filter((one) => one.speaker !== speaker || one.name !== name);
  watch.unheard = [...others, { speaker, name, value, id }];
  return id;
}

function sayAgain() {
  const again = watch.lost;
  watch.lost = [];
  for (const { speaker, name, value, id } of again) {
    speaker.say(name, value, keepUntilHeard(speaker, name, value, id));
  }
}

/** Have Streamlit take the words of each box that is not being typed in: Enter did nothing there. */
function commitBoxes() {
  for (const box of document.querySelectorAll(BOXES)) {
    if (box !== document.activeElement) {
      box.dispatchEvent(new FocusEvent("focusout", { bubbles: true }));
    }
  }
}

function isBroken() {
  return [...document.querySelectorAll("[role=alert]")].some((one) => BROKEN.test(one.textContent ?? ""));
}

/**
 * Act whenever the connection is there again and no run came of it; gives what ends this.
 * @param {() => void} act
 */
export function onReconnect(act) {
  watchConnection();
  window.addEventListener(BACK, act);
  return () => window.removeEventListener(BACK, act);
}
