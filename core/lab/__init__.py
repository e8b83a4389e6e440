"""The labs: one experiment, one file; and the studies of an initializer and of the band."""
