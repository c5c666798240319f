"""Scene in three dimensions: `packing.py` packs drawings, `stream.py` sends them, `canvas.js` shows them."""
