"""Scene in three dimensions: `packing.py` packs drawings into numbers, `stream.py` sends them, `canvas.py` and
`canvas.js` show them.
"""
