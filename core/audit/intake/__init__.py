"""What may come in: files, configurations, weights and families, screened before anything is built from them."""
