"""Figures that settings offer, and the drawing that they share; nothing here refers to a setting."""
