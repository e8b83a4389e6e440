// The residual site that figures, tower and table of a page point at together, kept in the browser. `at` is under the
// pointer, `chosen` was clicked; each is null or a whole number. A script of several components holds this one too.
const sites = (window.depthscopeSites ??= Object.assign(new EventTarget(), { at: null, chosen: null }));

function pointAt(site) {
  if (sites.at === site) return;
  sites.at = site;
  sites.dispatchEvent(new Event("change"));
}

function chosen(site) {
  if (sites.chosen === site) return;
  sites.chosen = site;
  sites.dispatchEvent(new Event("change"));
}

// The tower tells the server, which draws the block and answers with the site that is chosen from then on.
function choose(site) {
  sites.dispatchEvent(new CustomEvent("choose", { detail: site }));
}
