"""A visitor's own config, and models that the transformers library builds because the decoder has not their graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import streamlit as st

from core.errors import ConfigError
from core.plan.observed_config import ObservedModel
from core.plan.request import PlanRequest
from core.strict_json import JsonValue
from pages.common import model_controls as controls

# Session entry: the visitor's configs by their digest.
FILES, KEPT_FILES = "configs given", 8


@dataclass(frozen=True, kw_only=True)
class Config:
    """A visitor's config: its name, its content, and the decoder and plan that it describes.

    Decoder and plan are None where its family has another graph, which the library's own code builds.
    """

    name: str
    document: Mapping[str, JsonValue]
    found: ObservedModel | None = None
    plan: PlanRequest | None = None


@dataclass(frozen=True, kw_only=True)
class LibraryModel:
    """A current model that the transformers library builds, and not this app's decoder.

    `config` is the visitor's own; None for a small model of the family with the given depth and width.
    """

    family: str
    blocks: int
    width: int
    seeds: int
    config: Config | None = None

    @property
    def name(self) -> str:
        """The name for display."""
        return (
            f"{self.family} of the library, built small" if self.config is None else f"Your config.json, {self.family}"
        )


def library() -> LibraryModel | None:
    """Return the current model if the library builds it; None if it is a decoder.

    Raises `ConfigError` if it is a visitor's own config that this session does not have.
    """
    family = controls.FAMILY.value
    if family is None:
        return None
    blocks, width, seeds = controls.BLOCKS.value, controls.SIZES[0].value, controls.SEEDS.value
    return LibraryModel(family=family, blocks=blocks, width=width, seeds=seeds, config=given())


def given() -> Config | None:
    """Return the visitor's config of the current model; None if it is of no file.

    Raises `ConfigError` if this session does not have the file, as after opening a link.
    """
    if not (digest := controls.FILE.value):
        return None
    found: Config | None = st.session_state.get(FILES, {}).get(digest)
    if found is None and controls.FAMILY.value is not None:
        raise ConfigError(
            "This link is about a config.json that a link does not carry; press Change and drop the file again."
        )
    return found


def keep(digest: str, config: Config) -> None:
    """Store a visitor's config in the session."""
    st.session_state[FILES] = {
        **dict(list(st.session_state.get(FILES, {}).items())[-(KEPT_FILES - 1) :]),
        digest: config,
    }
