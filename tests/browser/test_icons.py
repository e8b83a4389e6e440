"""On a machine without an emoji font every icon is drawn from the font that Streamlit brings along."""

from __future__ import annotations

import pytest

from pages.common import navigation
from tests.browser.conftest import Visit

pytestmark = pytest.mark.heavy
# A symbol's name is drawn as one sign, as wide as the letters are high; in any other font it would be a word.
SYMBOLS = """
() => [...document.querySelectorAll('[data-testid=stIconMaterial], [role=img][translate=no]')]
  .filter(one => one.offsetParent && getComputedStyle(one).visibility === 'visible')
  .map(one => {
    const style = getComputedStyle(one), range = document.createRange();
    range.selectNodeContents(one);
    const high = parseFloat(style.fontSize);
    const loaded = document.fonts.check(`${high}px "Material Symbols Rounded"`);
    return { name: one.textContent, font: style.fontFamily, loaded, wide: range.getBoundingClientRect().width / high };
  })
"""
LOADED = "() => document.fonts.load('20px \"Material Symbols Rounded\"').then(() => document.fonts.ready).then(() => 0)"
# Every sign that a browser would look up in an emoji font.
EMOJI = r"() => document.body.innerText.match(/\p{Emoji_Presentation}|\uFE0F/gu) || []"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_icon_of_every_page_is_a_symbol_of_the_bundled_font(visitor: Visit, scheme: str) -> None:
    tab = visitor(color_scheme=scheme)
    for entry in navigation.ENTRIES.values():
        tab.open(f"/{entry.name}", entry.title)
        tab.page.evaluate(LOADED)
        symbols = tab.page.evaluate(SYMBOLS)
        names = {one["name"] for one in symbols}
        assert {other.icon for other in navigation.ENTRIES.values()} <= names, entry.name
        for one in symbols:
            assert "Material Symbols Rounded" in one["font"], (entry.name, one)
            assert one["loaded"], (entry.name, one)
            assert one["wide"] < 1.5, (entry.name, one)
        assert tab.page.evaluate(EMOJI) == [], entry.name


def test_the_browser_tab_shows_a_picture_of_this_server(visitor: Visit) -> None:
    tab = visitor().open("/", "Health")
    icon = str(tab.page.locator("link[rel~=icon]").first.get_attribute("href"))
    assert icon.startswith("data:image/svg+xml")
