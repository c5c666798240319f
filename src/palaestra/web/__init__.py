"""The page: watch training, compare runs, see agents act, play against them and record demonstrations (extra `view`).

`serving.py` opens it, `access.py` decides who may see it, `layout.py` has the common parts of all pages. Each folder is
one page.
"""
