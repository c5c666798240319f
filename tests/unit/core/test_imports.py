import gc

import pytest

from palaestra.core.plugins import without_garbage_collection


def test_what_is_made_within_is_never_looked_at_again():
    before = gc.get_freeze_count()
    with without_garbage_collection():
        assert not gc.isenabled()
        made = [[] for _ in range(10_000)]
    assert gc.isenabled()
    assert gc.get_freeze_count() >= before + len(made)


def test_garbage_is_looked_for_again_after_an_import_that_fails():
    with pytest.raises(ImportError), without_garbage_collection():
        raise ImportError
    assert gc.isenabled()
