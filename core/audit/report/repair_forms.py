"""Names of the ways to write a repair, and of the file languages.

The ways are a loop over parameters, an override of `_init_weights`, and the steps of continuous integration (CI).
"""

PYTHON, YAML = "python", "yaml"
# A loop over named parameters, an override of transformers' `_init_weights`, the steps of a pipeline.
LOOP, OVERRIDE, CI = "loop", "init_weights", "ci"
