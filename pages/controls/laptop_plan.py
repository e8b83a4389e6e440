"""Controls of this page alone."""

from pages.common.control import Control

CONTROLS: tuple[Control, ...] = ()
