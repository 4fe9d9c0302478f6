// Zoom of icicles: a box made the full width, with the mouse or the keyboard.
for (const picture of document.querySelectorAll(".icicle")) {
  const boxes = [...picture.querySelectorAll(".box")].map((node) => ({
    node, x: Number(node.dataset.x), w: Number(node.dataset.w), level: Number(node.dataset.l),
  }));
  const detail = picture.nextElementSibling;
  const near = 1e-6;
  let zoomed = boxes[0];
  const around = (outer, box) => box.x >= outer.x - near && box.x + box.w <= outer.x + outer.w + near;
  const zoom = (box) => {
    zoomed = box;
    for (const one of boxes) {
      const outer = one.level < box.level && around(one, box);
      const inner = one.level >= box.level && around(box, one);
      one.node.hidden = !(outer || inner);
      one.node.classList.toggle("outer", outer);
      const [x, w] = outer ? [0, 1] : [(one.x - box.x) / box.w, one.w / box.w];
      one.node.style.left = `${100 * x}%`;
      one.node.style.width = `${100 * w}%`;
    }
  };
  const focus = (box) => {
    if (!box) return;
    for (const one of boxes) one.node.tabIndex = one === box ? 0 : -1;
    box.node.focus();
  };
  const visible = () => boxes.filter((one) => !one.node.hidden);
  const beside = (box, step) => {
    const row = visible().filter((one) => one.level === box.level);
    return row[row.indexOf(box) + step];
  };
  const moves = {
    ArrowLeft: (box) => beside(box, -1),
    ArrowRight: (box) => beside(box, 1),
    ArrowUp: (box) => visible().find((one) => one.level === box.level - 1 && around(one, box)),
    ArrowDown: (box) => visible().find((one) => one.level === box.level + 1 && around(box, one)),
    Home: () => boxes[0],
  };
  for (const box of boxes) {
    box.node.addEventListener("click", () => { zoom(box); focus(box); });
    box.node.addEventListener("focus", () => { detail.textContent = box.node.title; });
    box.node.addEventListener("mouseenter", () => { detail.textContent = box.node.title; });
    box.node.addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        zoom(boxes[0]);
      } else if (event.key in moves) {
        focus(moves[event.key](box));
      } else {
        return;
      }
      event.preventDefault();
    });
  }
}
