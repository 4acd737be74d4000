// A page of its own, without Python behind it: the same pictures, linked with each other.

import { afterPainting } from "../shared/streamlit_view.js";
import { inflated, ReportBook } from "./book.js";
import { Report } from "./page.js";
import { learn } from "../shared/i18n.js";
import { watchLetters } from "../letters/missing_letters.js";

const OLD = "This browser cannot unpack the pictures on this page; a newer one can.";

async function startReport() {
  const place = document.getElementById("tv-report"), holder = document.getElementById("tv-data");
  if (!place || !holder) return; // these modules are also read where there is no report
  try {
    const book = new ReportBook(await inflated(holder));
    learn(book.speech);
    const report = new Report(place, book);
    report.show();
    window.addEventListener("tv-dressed", () => report.show());
    watchLetters();
    afterPainting(() => place.setAttribute("data-painted", "1"));
  } catch (error) {
    place.textContent = typeof DecompressionStream === "undefined" ? OLD : String(error);
  }
}

startReport();
