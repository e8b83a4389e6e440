"""What every page adds to the browser: one history entry per page, and text colours with enough contrast.

Streamlit adds an entry whenever the server changes the URL: at a preset, at a stop of a tour, and at every change of
the page, where parameters that the new page does not have are removed. Without the script, Back would lead to the same
page.
"""

from __future__ import annotations

import streamlit as st

from core.figures.style import PALETTES

# A change of the address that stays on the path replaces the entry. On the way to another page the server changes the
# address of the page that is left too, which gets back what it had when the visitor acted.
SCRIPT = """
<script>
if (!history.onePerPage) {
  history.onePerPage = true;
  const push = history.pushState.bind(history);
  const path = (address) => new URL(address, location.href).pathname;
  let left = location.href;
  for (const kind of ["click", "change"]) addEventListener(kind, () => { left = location.href; }, true);
  history.pushState = (state, title, address) => {
    if (path(address) === location.pathname) return history.replaceState(state, title, address);
    if (path(left) === location.pathname) history.replaceState(state, title, left);
    push(state, title, address);
  };
  // Share copies the address; where the browser keeps its clipboard from an insecure page, by way of a field.
  addEventListener("click", (event) => {
    if (!event.target.closest(".st-key-share button")) return;
    if (navigator.clipboard) return navigator.clipboard.writeText(location.href);
    const field = Object.assign(document.createElement("textarea"), { value: location.href });
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }, true);
}
</script>
"""
# What has the theme's primary colour as its ground. No single colour reads well both as the ground of white text and as
# text on the dark page, so there the ink changes instead; by the browser, which may change its theme without a run.
FILLED = ('button[kind^="primary"]:not(:disabled) *', '[data-testid="stMultiSelect"] [data-tag] *')

# Streamlit leaves six lines free above a page; the model bar stands there.
ABOVE = (
    '[data-testid="stMainBlockContainer"] '
    "{ padding-top: 4.25rem; padding-bottom: 3rem; padding-inline: clamp(1rem, 3vw, 5rem); }"
)
# On a wide screen a text breaks its lines and its buttons stay beside it.
BESIDE = (
    "@media (min-width: 736px) { .st-key-model-line, .st-key-suggestion { flex-wrap: nowrap; } "
    ":is(.st-key-model-line, .st-key-suggestion) > :first-child { min-width: 0; } "
    ":is(.st-key-model-line, .st-key-suggestion) > :not(:first-child) { flex: none; width: auto; } }"
)


def prepare() -> None:
    """Install the script, once per browser tab, and the style. Call it where nothing is drawn below."""
    st.html(SCRIPT, unsafe_allow_javascript=True)
    ink = f"light-dark({PALETTES['light'].paper}, {PALETTES['dark'].paper})"
    filled = f"{', '.join(FILLED)} {{ color: {ink} !important; }}"
    st.html(f"<style>{filled} {ABOVE} {BESIDE}</style>")
