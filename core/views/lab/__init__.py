"""How the experiments of the labs are shown: figures that read their tables, words, formulas and published values."""
