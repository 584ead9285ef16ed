"use strict";
// Sliders: how much of the lower picture is seen.
for (const slider of document.querySelectorAll(".slider")) {
  const layers = slider.querySelector(".layers"), input = slider.querySelector("input");
  const show = () => layers.style.setProperty("--cut", `${input.value}%`);
  input.addEventListener("input", show);
  layers.addEventListener("pointermove", (event) => {
    if (event.pointerType !== "mouse") return;
    const box = layers.getBoundingClientRect();
    input.value = 100 * (event.clientX - box.left) / box.width;
    show();
  });
  show();
}
// Players: videos that show the same frame, with one button and one range.
for (const part of document.querySelectorAll(".players")) {
  const videos = [...part.querySelectorAll("video")], range = part.querySelector("input");
  const button = part.querySelector(".play"), output = part.querySelector("output");
  const codes = JSON.parse(part.querySelector("script").textContent), rate = Number(part.dataset.rate);
  const pause = () => { videos.forEach((video) => video.pause()); button.textContent = "Play"; };
  const show = (frame) => { range.value = frame; output.textContent = codes[frame]; };
  const seek = (frame) => {
    videos.forEach((video) => { video.currentTime = (Number(frame) + 0.5) / rate; });
    show(frame);
  };
  const follow = () => {
    show(Math.min(codes.length - 1, Math.floor(videos[0].currentTime * rate)));
    for (const video of videos.slice(1))
      if (Math.abs(video.currentTime - videos[0].currentTime) > 1 / rate) video.currentTime = videos[0].currentTime;
    if (videos[0].ended) pause();
    else if (!videos[0].paused) requestAnimationFrame(follow);
  };
  button.addEventListener("click", () => {
    if (!videos[0].paused) return pause();
    if (videos[0].ended) seek(0);
    Promise.all(videos.map((video) => video.play())).then(() => { button.textContent = "Pause"; follow(); }, pause);
  });
  range.addEventListener("input", () => { pause(); seek(range.value); });
  for (const event of part.parentElement.querySelectorAll("[data-frame]"))
    event.addEventListener("click", () => { pause(); seek(event.dataset.frame); part.scrollIntoView({ block: "nearest" }); });
}
// Tables: a heading sorts by its column, numbers by size, empty cells last.
for (const heading of document.querySelectorAll("th button")) heading.addEventListener("click", () => {
  const th = heading.parentElement, body = th.closest("table").tBodies[0], column = th.cellIndex;
  const down = th.getAttribute("aria-sort") === "ascending";
  for (const other of th.parentElement.cells) other.removeAttribute("aria-sort");
  th.setAttribute("aria-sort", down ? "descending" : "ascending");
  const key = (row) => row.cells[column].dataset.sort;
  const compare = (a, b) => {
    if (!a || !b) return (a ? -1 : 0) + (b ? 1 : 0);
    const order = isNaN(a) || isNaN(b) ? a.localeCompare(b, "en", { numeric: true }) : a - b;
    return down ? -order : order;
  };
  body.append(...[...body.rows].sort((a, b) => compare(key(a), key(b))));
});
