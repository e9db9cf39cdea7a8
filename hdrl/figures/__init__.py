"""What settings offer to look at, and the drawing that their pictures share; nothing here refers to a setting."""
