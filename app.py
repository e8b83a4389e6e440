"""Depthscope in a browser: `streamlit run app.py`.

The code of a run is in `pages/common/main.py`, because no folder named `pages` may be beside the script that Streamlit
runs: Streamlit would build its own menu from it and answer the first link to a page with "Page not found".
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module

import streamlit as st

from pages.common import chart, engine


@asynccontextmanager
async def lifespan(_: st.App) -> AsyncIterator[None]:
    """Import the landing page before the server answers, and the tensor engine while the first browser loads the page.

    If both were imported at once, each would slow down the other, and the visitor would wait for both.
    """
    for module in ("pages.common.navigation", "pages.residual_health.tabs"):
        import_module(module)
    engine.load_beside()
    yield


app = st.App("pages/common/main.py", lifespan=lifespan, routes=[chart.ROUTE])
