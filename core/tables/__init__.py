"""The long tables of documents, sweeps and comparisons, what people read of them, and the sentences beside them."""
