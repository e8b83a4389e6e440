"""Torch and all that uses it, imported once per server and limited to one thread.

With tensors as small as a page's, two threads wait for each other; beside a busy browser they are a hundred times
slower. Imported objects live as long as the server, so the garbage collector, which Streamlit starts after every run of
a script, is made to leave them out.
"""

from __future__ import annotations

import gc
import threading

_LOCK = threading.Lock()
_READY = threading.Event()


def ready() -> bool:
    """Return True if torch is imported."""
    return _READY.is_set()


def load() -> None:
    """Import torch and the core's engine, and limit torch to one thread; a second caller waits.

    Safe from any thread.
    """
    with _LOCK:
        if _READY.is_set():
            return
        import torch

        import core.health.report  # noqa: F401

        torch.set_num_threads(1)
        gc.freeze()
        _READY.set()


def load_beside() -> None:
    """Start to import torch in a separate thread, before a page needs it."""
    threading.Thread(target=load, name="engine", daemon=True).start()
