"""The ways to set the current model: choose one, upload files, paste settings or type sizes; and its input.

All of them set the controls of `model_controls`. Files are read once: sizes and a digest are stored, and the audit's
private copy of a folder with weights, which is deleted with the session.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import streamlit as st

from core.errors import DepthscopeError
from pages.common import model, model_files, panels, uploads
from pages.common import model_controls as controls
from pages.common.widgets import Control, draw_beside

# Session entries: the way that the dialog shows, and whether a button elsewhere on the page asks for the dialog.
WAY, ASKED = "way-in", "change was asked for"


@st.dialog("Change the model", width="large", on_dismiss="rerun")
def change(on_page: Collection[Control]) -> None:
    """Draw the dialog of the model bar; changes take effect at once.

    `on_page` are the controls that the page draws already, so the dialog leaves them out.
    """
    way = st.segmented_control(
        "Way in", list(WAYS), default=next(iter(WAYS)), required=True, key=WAY, label_visibility="collapsed", wrap=True
    )
    for row in ROWS.get(str(way), ()):
        drawn = [control.name for control in on_page]
        if left := [control for control in row if control.name not in drawn]:
            draw_beside(controls.depth() if control is controls.BLOCKS else control for control in left)
    WAYS[str(way)]()
    refusal()
    if st.button("Done", key="change-done", type="primary"):
        st.rerun()


def choose(key: str = "choose-model") -> None:
    """Draw a menu of the chapter's decoders and of well-known models; a choice takes effect at once."""
    st.selectbox(
        "A well-known model", list(model.KNOWN), index=None, key=key, on_change=_chosen, args=(key,),
        placeholder="Choose one, or type its name", format_func=lambda name: model.KNOWN[name].title,
        help="Its published sizes, with fresh weights as its own code draws them.",
    )  # fmt: skip


def drop(key: str = "model-files") -> None:
    """Draw a file uploader; uploaded files are read at once."""
    st.file_uploader(
        "Your config.json, a zip, or config and safetensors", type=list(model_files.SUFFIXES), key=key,
        accept_multiple_files=True, max_upload_size=uploads.MAX_MEGABYTES, on_change=model_files.take, args=(key,),
        help=uploads.LIMITS,
    )  # fmt: skip


def family() -> None:
    """Draw a menu of the library's families, and the depth and width of the small model that is built of one."""
    st.selectbox(
        "A family of the transformers library", controls.FAMILIES, index=None, key="choose-family", on_change=_family,
        placeholder=controls.FAMILY.placeholder, help=controls.FAMILY.help,
    )  # fmt: skip
    st.caption("It is built small, with fresh weights by its own code; drop a config.json to have its own sizes.")


def paste() -> None:
    """Draw a text field for settings."""
    st.text_area(
        "nanoGPT settings, or the text of a config.json", key="model-text", height=160,
        placeholder="n_layer = 12\nn_head = 12\nn_embd = 768\nblock_size = 1024\nvocab_size = 50304\nbias = False",
        help="Lines name = value, as in a nanoGPT training file; other lines are left alone.",
    )  # fmt: skip
    st.button("Read it", key="read-text", type="primary", on_click=_pasted)


def _check_sizes() -> None:
    """Draw the sentence about sizes that do not fit together, if there are any."""
    try:
        controls.config_of({control.name: control.value for control in controls.MODEL})
    except DepthscopeError as error:
        panels.refusal(panels.told(error))


def _input() -> None:
    """Draw the fields for typed and uploaded input."""
    kind = controls.BATCH.value
    if kind == controls.ROWS:
        draw_beside((controls.INPUTS, controls.TARGETS))
    elif kind == controls.WORDS:
        controls.TEXT.draw()
    elif kind == controls.UPLOADED_BATCH:
        st.file_uploader(
            "Batch, JSON", type=["json"], key="batch_file", max_upload_size=1, on_change=_keep_batch,
            help='{"inputs": [[..]], "targets": [[..]], "valid": [[true, ..]], "segments": [[0, ..]]}; the last two '
            "may be left out.",
        )  # fmt: skip


CHOOSE, DROP, PASTE, SIZES, INPUT = "Choose", "Drop files", "Paste settings", "Type sizes", "Input, seeds and band"
FAMILY = "Library family"
WAYS: Mapping[str, Callable[[], None]] = {
    CHOOSE: choose, DROP: drop, PASTE: paste, SIZES: _check_sizes, FAMILY: family, INPUT: _input,
}  # fmt: skip
# What stands above it, row by row.
ROWS: Mapping[str, tuple[tuple[Control, ...], ...]] = {
    SIZES: (
        (controls.BLOCKS, controls.RECIPE), controls.SIZES[:3], controls.SIZES[3:], controls.GRAPH[:4],
        controls.GRAPH[4:], controls.SPREADS,
    ),
    INPUT: (
        (controls.SEED, controls.SEEDS, controls.MORE[0]), controls.MORE[1:],
        (controls.BATCH, controls.CONTEXT, controls.ROW_COUNT),
    ),
}  # fmt: skip


def ask(way: str) -> None:
    """Callback: open the dialog at the given way of choosing a model."""
    st.session_state[WAY], st.session_state[ASKED] = way, True


def asked() -> bool:
    """Return whether a button outside the model bar asked for the dialog; True is returned once."""
    return bool(st.session_state.pop(ASKED, False))


def refusal() -> None:
    """Draw why the last file or text was refused, once."""
    if (sentence := st.session_state.pop(model_files.REFUSAL, None)) is not None:
        panels.refusal(sentence)


def _chosen(key: str) -> None:
    name = st.session_state[key]
    if name is not None:
        model.take_known(name)


def _family() -> None:
    chosen = st.session_state["choose-family"]
    if chosen is not None:
        model.take_family(chosen)


def _pasted() -> None:
    model_files.take_text(str(st.session_state.get("model-text", "")))


def _keep_batch() -> None:
    """Callback of the batch uploader: store its file, because the uploader forgets it when the page changes."""
    file = st.session_state.get("batch_file")
    if file is not None:
        controls.keep_batch(file.getvalue(), file.name)
