import numpy as np
import pytest

from palaestra.runtime.recording.panels import GAP, PANEL_GAP, Panel, compose, fitted, font_of, strip_height, tile


def flat(height, width, shade):
    return np.full((height, width, 3), shade, np.uint8)


def test_areas_lie_in_a_grid_with_gaps():
    pictures = [flat(10, 20, shade) for shade in (0, 1, 2)]
    whole = tile(pictures)
    assert whole.shape == (10 + GAP + 10, 20 + GAP + 20, 3)
    np.testing.assert_array_equal(whole[10 + GAP :, :20], pictures[2])
    assert (whole[10 + GAP :, 20:] == 255).all()


def test_pictures_of_different_sizes_share_a_grid():
    assert tile([flat(10, 20, 0), flat(30, 5, 0)]).shape == (30, 20 + GAP + 20, 3)


@pytest.mark.parametrize("width", [64, 333, 480, 1001])
def test_a_picture_has_the_width_asked_for_and_a_strip_for_its_title(width):
    panel = Panel(flat(50, 100, 0), "first", "reward 1.0")
    bare = compose([panel], width, titles=False)
    assert bare.size == (width, round(width / 2))
    titled = compose([panel], width)
    strip = strip_height(width)
    assert titled.size == (width, bare.height + strip)
    letters = np.asarray(titled)[:strip]
    assert (letters < 128).any()  # ink
    assert (np.asarray(titled)[strip:] == 0).all()


def test_panels_of_different_shapes_lie_side_by_side_with_one_height():
    picture = np.asarray(
        compose([Panel(flat(50, 50, 0)), Panel(flat(50, 100, 9)), Panel(flat(10, 10, 0))], 416, titles=False)
    )
    assert picture.shape == (100, 416, 3)
    assert (picture[:, :100] == 0).all()
    assert (picture[:, 100 : 100 + PANEL_GAP] == 255).all()
    assert (picture[:, 108:308] == 9).all()


def test_the_narrowest_panel_chooses_the_letters_of_all():
    one = compose([Panel(flat(50, 400, 0), "title", "reward")], 800)
    both = compose([Panel(flat(50, 400, 0), "title", "reward"), Panel(flat(50, 50, 0), "x", "y")], 800)
    assert both.height - round((800 - PANEL_GAP) / 9) == strip_height(round((800 - PANEL_GAP) / 9))
    assert one.height == 100 + strip_height(800)


def test_a_title_without_room_ends_in_dots():
    font = font_of(12)
    short = fitted("a very long title of a run", 80, font)
    assert short.startswith("a very")
    assert short.endswith("...")
    assert font.getlength(short) <= 80
    assert fitted("short", 80, font) == "short"
    assert fitted("anything", 2, font) == ""
