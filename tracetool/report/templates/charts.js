"use strict";
// Every chart of the page: drawn once, then kept in the reader's theme.
const charts = (() => {
  // The light page's colors, as in pictures/charts.py, and the style that holds the reader's.
  const styles = { "#1b1f24": "--ink", "#57606a": "--soft", "#d0d7de": "--line", "#ffffff": "--back",
    "#c2410c": "--measured", "#1d4ed8": "--model" };
  const drawn = [];

  function* inside(root) {
    for (const e of root.querySelectorAll("*")) {
      yield e;
      if (e.shadowRoot) yield* inside(e.shadowRoot);
    }
  }
  function* plots(view) {
    if (view.repaint && view.frame) yield view;
    for (const child of view.child_views || []) yield* plots(child);
  }
  // The colors of a document that follow the theme: [model, property, style].
  function themed(document) {
    const found = [];
    for (const model of document.all_models) {
      for (const name of Object.keys(model.attributes)) {
        const value = name.endsWith("_color") ? model[name] : null;
        const style = styles[value?.value ?? value];
        if (style) found.push([model, name, style]);
      }
    }
    return found;
  }
  function dress(chart) {
    const style = getComputedStyle(document.documentElement);
    for (const [model, name, key] of chart.themed) {
      const color = style.getPropertyValue(key).trim();
      model[name] = model[name]?.value === undefined ? color : { value: color };
    }
  }
  const reset = (chart) => chart.models.forEach((m) => { if (m.type === "Range1d") m.reset(); });

  async function draw(place) {
    const item = JSON.parse(place.nextElementSibling.textContent);
    const view = (await Bokeh.embed.embed_item(item, place.id)).roots[0];
    const models = [...view.model.document.all_models];
    const chart = { place, view, models, themed: themed(view.model.document), named: (name) => models.find((m) => m.name === name) };
    for (const e of inside(place)) {
      if (!e.classList.contains("bk-events")) continue;
      e.removeAttribute("tabindex"); // the chart as a whole takes the focus
      e.style.setProperty("touch-action", "pan-y", "important"); // a finger scrolls the page
    }
    place.addEventListener("dblclick", () => reset(chart));
    place.addEventListener("keydown", (e) => { if (e.key === "0" || e.key === "Escape") reset(chart); });
    dress(chart);
    drawn.push(chart);
    return chart;
  }

  const redress = () => drawn.forEach(dress);
  document.getElementById("theme")?.addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    redress();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redress);
  // On paper a picture of the chart takes its place: the chart could not be laid out anew in time.
  function paper({ place, view }) {
    const { canvas } = view.export("png", true);
    canvas.className = "paper";
    canvas.removeAttribute("style");
    canvas.style.width = `${place.clientWidth}px`;
    place.append(canvas);
  }
  let before;
  addEventListener("beforeprint", () => {
    document.querySelectorAll("details").forEach((d) => { d.open = true; });
    before = document.documentElement.dataset.theme;
    document.documentElement.dataset.theme = "light";
    redress();
    for (const { view } of drawn) for (const plot of plots(view)) {
      for (const mark of plot.computed_renderer_views) mark.set_visuals?.();
      plot.repaint(); // now, not at the next frame
    }
    drawn.forEach(paper);
  });
  addEventListener("afterprint", () => {
    if (before) document.documentElement.dataset.theme = before;
    else delete document.documentElement.dataset.theme;
    document.querySelectorAll(".paper").forEach((e) => e.remove());
    redress();
  });

  const all = new Map([...document.querySelectorAll(".chart")].map((place) => [place.id, draw(place)]));
  Promise.all(all.values()).then(() => { document.documentElement.dataset.charts = "drawn"; });
  return all;
})();
