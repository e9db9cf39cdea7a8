"""Gymnasium environments of hdrl, single and vectorised; importing this package registers them."""
