"""Small studies beside the observed decoders: worked values, symbolic plans, initialization."""
