"""One experiment: a name, the page it stands on, its options, its presets and the function that runs it."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast, get_type_hints

from core import __version__
from core.decoder.progress import Told, silent
from core.errors import LabError, shown
from core.lab.options import Options
from core.lab.result import Result

Page = Literal["signal_lab", "norm_lab", "residual_paths"]
SCHEMA = "depthscope.lab/1"


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """An entry of the registry; `place` is `module:function` below `core.lab`, imported when first needed.

    `presets` are settings by name, each a mapping of the options that differ from the defaults. `torch` says that
    running it imports torch, whatever the options.
    """

    name: str
    title: str
    page: Page
    place: str
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    torch: bool = False

    @property
    def function(self) -> Callable[[Any], Result]:
        """The core function: options in, result out."""
        module, function = self.place.split(":")
        return cast(Callable[[Any], Result], getattr(importlib.import_module(f"core.lab.{module}"), function))

    @property
    def options_type(self) -> type[Options]:
        """The options class that the function takes."""
        return cast(type[Options], get_type_hints(self.function)["options"])

    def options(self, given: Mapping[str, object] | None = None, preset: str | None = None) -> Options:
        """Checked options: the defaults, changed by a preset, changed by `given`. Raises `LabError`."""
        if preset is not None and preset not in self.presets:
            known = f"the presets are {', '.join(self.presets)}" if self.presets else "it has none"
            raise LabError(f"The preset {shown(preset)} of {self.name} is unknown; {known}.")
        chosen = self.presets[preset] if preset is not None else {}
        return self.options_type.parse({**chosen, **(given or {})})

    def needs_torch(self, options: Options) -> bool:
        """Whether running with these options imports torch."""
        return self.torch or getattr(options, "source", None) == "decoder"

    def run(self, options: Options | None = None, told: Told = silent) -> Result:
        """The result for options of this experiment's own class; the defaults unless given.

        `told` hears of the draws of an experiment that counts them.
        """
        options = self.options() if options is None else options
        if type(options) is not self.options_type:
            raise LabError(f"{self.name} takes {self.options_type.__name__}, not {type(options).__name__}.")
        function: Callable[..., Result] = self.function
        counts = "told" in inspect.signature(function).parameters
        return function(options, told=told) if counts else function(options)

    def document(self, options: Options | None = None, result: Result | None = None) -> dict[str, Any]:
        """The `lab` document: identity, options and result, for JSON; `result` is what `run` gave for `options`."""
        options = self.options() if options is None else options
        result = self.run(options) if result is None else result
        return {
            "schema": SCHEMA,
            "version": __version__,
            "experiment": self.name,
            "title": self.title,
            "page": self.page,
            "options": options.document(),
            **result.document(),
        }
