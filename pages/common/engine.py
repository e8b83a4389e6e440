"""The tensor engine: torch and what stands on it, imported once a server, given one thread.

Two threads on tensors as small as a page's wait for each other; beside a busy browser they are a hundred times slower.
Streamlit collects all garbage after every run of a script, holding the interpreter while the browser waits for the last
figure. What the imports made lives as long as the server, so the collector is told to leave it out.
"""

from __future__ import annotations

import gc
import threading

_LOCK = threading.Lock()
_READY = threading.Event()


def ready() -> bool:
    """Whether the engine is imported."""
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
    """Begin to import the engine in a separate thread, before anybody asks."""
    threading.Thread(target=load, name="engine", daemon=True).start()
