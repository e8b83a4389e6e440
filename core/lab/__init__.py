"""The labs: experiments, one per file, and the studies of an initializer and of the band."""
