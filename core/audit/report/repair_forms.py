"""The forms in which a repair is written, and their languages."""

PYTHON, YAML = "python", "yaml"
# A loop over named parameters, an override of transformers' `_init_weights`, the steps of a pipeline.
LOOP, OVERRIDE, CI = "loop", "init_weights", "ci"
