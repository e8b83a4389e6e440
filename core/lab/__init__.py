"""The labs: small numerical experiments, one per file, and the studies of one initialized matrix and of the ratio band."""
