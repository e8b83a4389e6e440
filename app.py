"""Depthscope in a browser: `streamlit run app.py`.

What a run shows stands in `pages/common/main.py`. Beside that script lies no folder named `pages`; beside this one
there is, and Streamlit would take it for a menu of its own and greet the first link to a page with "Page not found".
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import streamlit as st

from pages.common import engine


@asynccontextmanager
async def lifespan(_: st.App) -> AsyncIterator[None]:
    """Import the tensor engine while the first visitor's browser still loads."""
    engine.load_beside()
    yield


app = st.App("pages/common/main.py", lifespan=lifespan)
