"""Agents written for HDeepRM: the bases that they derive from, and what makes agents of hdrl of them."""
