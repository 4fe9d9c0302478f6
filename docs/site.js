// Browsers let no page that is opened as a file read the search index: say so where the field would be.
if (location.protocol === "file:" && matchMedia("(min-width: 60em)").matches) {
  addEventListener("DOMContentLoaded", () => {
    const note = document.createElement("span");
    note.style.fontSize = "0.7rem";
    note.textContent = "search needs a server: python -m http.server -d site";
    document.querySelector(".md-header__inner")?.append(note);
  });
}
