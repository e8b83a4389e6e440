"""Make the README's pictures again from a fresh server: `python -m tests.benchmarks.readme_pictures [FOLDER]`."""

from __future__ import annotations

import argparse
import io
from pathlib import Path
from urllib.parse import urlencode

from PIL import Image

from tests.browser.harness import ROOT, browser, running_server, visit

FOLDER = ROOT / "pages" / "common" / "screenshots"
WIDTH = 1400
# File, page, its query, theme and height.
PICTURES = (
    ("residual-health", "/residual_health", {"blocks": "32"}, "light", 2060),
    ("the-block", "/residual_health", {"view": "The block"}, "dark", 1150),
    ("mend-it", "/residual_health", {"blocks": "32", "recipe": "unscaled", "view": "Mend it"}, "light", 820),
    ("laptop-plan", "/laptop_plan", {}, "light", 1000),
)


def main() -> None:
    """Write every picture as a PNG of few colours."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    with running_server() as address, browser() as opened:
        for name, path, query, theme, height in PICTURES:
            with visit(opened, address, viewport={"width": WIDTH, "height": height}, color_scheme=theme) as tab:
                tab.open(f"{path}?{urlencode(query)}")
                tab.page.locator(".st-key-export-page").wait_for()
                tab.settle()
                if "view" in query:
                    # Else the open tab stands below the picture; the page's head covers a strip at the top.
                    tab.page.get_by_role("tablist").evaluate(
                        "tabs => { tabs.style.scrollMarginTop = '80px'; tabs.scrollIntoView(); }"
                    )
                tab.settle(1500)
                picture = Image.open(io.BytesIO(tab.page.screenshot())).convert("RGB")
            picture.quantize(256).save(folder / f"{name}.png", optimize=True)
            print(folder / f"{name}.png")


if __name__ == "__main__":
    main()
