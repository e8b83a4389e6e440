"""The page Signal lab: variance and gradients through layers, chains of layers and residual additions."""

from pages.common.lab import show
from pages.common.lab_controls import PAGES

show(
    PAGES["signal_lab"],
    "Whether a deep decoder is healthy at its start is variance arithmetic: what one layer does to a size, what fifty "
    "do, and what an addition does when its terms have something in common. Touch each rule, and see where it stops "
    "holding.",
)
