"""Looking at one environment of a batch: its arrays are rows of the batch's, but for what all environments share.

A new tuple of views for each environment would be some hundred machine words to write; here the tuple is made once in a
call (`hdrl.compiled.fields.first_row_of`), and only the pointers in it are moved on from one environment to the next.
"""

from __future__ import annotations

from hdrl.compiled.jit import backend

copy_rows, moved_to = backend("rows.copy_rows"), backend("rows.moved_to")
