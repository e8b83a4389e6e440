"""The labs: small numerical experiments, one per file, and studies of one initialized matrix and of the ratio band."""
