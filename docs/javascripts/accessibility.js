// A name for the search, which the theme leaves without one.
document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
