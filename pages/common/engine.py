"""The tensor engine: torch and what uses it, imported once per server and limited to one thread.

With tensors as small as a page's, two threads wait for each other; beside a busy browser they are a hundred times
slower. Streamlit collects all garbage after every run of a script, while the browser waits for the last figure.
Imported objects live as long as the server, so the collector is made to leave them out.
"""

from __future__ import annotations

import gc
import threading

_LOCK = threading.Lock()
_READY = threading.Event()


def ready() -> bool:
    """Return whether the engine is imported."""
    return _READY.is_set()


def load() -> None:
    """Import the engine; a second caller waits for the first. Safe from any thread."""
    with _LOCK:
        if _READY.is_set():
            return
        import torch

        import core.health.report  # noqa: F401

        torch.set_num_threads(1)
        gc.freeze()
        _READY.set()


def load_beside() -> None:
    """Start to import the engine in a separate thread, before a page needs it."""
    threading.Thread(target=load, name="engine", daemon=True).start()
