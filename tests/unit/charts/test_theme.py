"""Figure theme: distinguishable colours, escaped text, interrupted bands."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from leadline.charts import theme

WHITE, DARK = "#ffffff", "#14181f"
MACHADO = {
    "all cones": np.eye(3),
    "no red": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "no green": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
}
"""What an eye without a kind of cone sees, of linear RGB: Machado, Oliveira, Fernandes 2009, severity 1."""


def linear(colour: str) -> np.ndarray:
    given = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    return np.where(given <= 0.04045, given / 12.92, ((given + 0.055) / 1.055) ** 2.4)


def luminance(colour: str) -> float:
    return float(linear(colour) @ [0.2126, 0.7152, 0.0722])


def contrast(one: str, other: str) -> float:
    """As WCAG 2.2 defines it."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def lab(seen: np.ndarray) -> np.ndarray:
    """CIELAB under D65."""
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    ratio = to_xyz @ np.clip(seen, 0, 1) / [0.9505, 1.0, 1.089]
    f = np.where(ratio > 0.008856, np.cbrt(ratio), 7.787 * ratio + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("colour", [*theme.PALETTE, theme.FAULT, theme.GREY, theme.TEXT, *theme.PHASE_COLOURS.values()])
@pytest.mark.parametrize("ground", [WHITE, DARK])
def test_colours_are_seen_on_light_and_dark(colour: str, ground: str) -> None:
    assert contrast(colour, ground) >= 3.0


def test_red_is_for_faults_alone() -> None:
    assert theme.FAULT not in (*theme.PALETTE, *theme.PHASE_COLOURS.values())


@pytest.mark.parametrize("eye", MACHADO)
def test_palette_colours_are_distinguishable(eye: str) -> None:
    seen = {colour: lab(np.asarray(MACHADO[eye]) @ linear(colour)) for colour in theme.PALETTE}
    closest = min(float(np.linalg.norm(seen[a] - seen[b])) for a, b in itertools.combinations(seen, 2))
    assert closest >= 18.0


def test_series_beyond_the_palette_have_another_dash() -> None:
    looks = [(theme.series_colour(at), theme.series_dash(at)) for at in range(theme.MAX_SERIES)]
    assert len(set(looks)) == theme.MAX_SERIES


@pytest.mark.parametrize(
    ("given", "fig"),
    [
        ("layer1.0.weight", "layer1.0.weight"),
        ("<b>x</b>", "&lt;b&gt;x&lt;/b&gt;"),
        ("a & b", "a &amp; b"),
        ("&lt;", "&amp;lt;"),
        ("$x^2$", "&#36;x^2&#36;"),
        ("%{y}", "&#37;{y}"),
        ("50 %", "50 %"),
        ("a\nb\tc\x00d", "a b c d"),
        ("a\u202eb\u2066c", "abc"),
        ("\ud800", " "),
        ("👩‍🚀 schön", "👩‍🚀 schön"),
        (7, "7"),
    ],
)
def test_text_of_a_run_is_shown_literally(given: object, fig: str) -> None:
    assert theme.plain_text(given) == fig


def test_long_names_are_cut_in_the_middle() -> None:
    fig = theme.plain_text("model." + "x" * 500 + ".weight", 40)
    assert len(fig) == 40
    assert fig.startswith("model.")
    assert fig.endswith(".weight")
    assert theme.plain_text("x" * 40, 40) == "x" * 40


def test_equal_labels_are_numbered() -> None:
    assert theme.unique_labels(["a", "b", "a", "a"]) == ["a", "b", "a (2)", "a (3)"]
    cut = theme.unique_labels(["x" * 90 + "1" + "y" * 90, "x" * 90 + "2" + "y" * 90])
    assert len(set(cut)) == 2


def test_a_band_ends_where_numbers_do() -> None:
    fig = theme.figure("x")
    low, high = np.array([0.0, 1.0, np.nan, 3.0, 4.0]), np.array([1.0, 2.0, 2.5, 4.0, np.inf])
    theme.add_band(fig, np.arange(5), low, high, index=0, group="x")
    band = fig.data[0]
    assert band.x.tolist()[:4] == [0, 1, 1, 0]
    assert band.y.tolist()[:4] == [1, 2, 1, 0]
    assert np.isnan(band.y[4])
    assert band.x.tolist()[5:] == [3, 3]
    theme.add_band(fig, np.arange(2), np.full(2, np.nan), np.ones(2), index=0, group="none")
    assert len(fig.data) == 1


def test_times_are_milliseconds() -> None:
    assert theme.epoch_ms([1_795_000_000_123_456_789]).tolist() == [1_795_000_000_123.0]


def test_numbers_that_cannot_be_drawn_have_no_point() -> None:
    drawn = theme.float32([1.5, np.nan, np.inf, 1e300, -2.0])
    assert drawn.dtype == np.float32
    assert np.isnan(drawn).tolist() == [False, True, True, True, False]


def test_a_legend_of_one_is_none() -> None:
    fig = theme.figure("x")
    fig.add_scatter(x=[1], y=[1], name="only")
    assert theme.set_legend(fig).layout.showlegend is False
    for at in range(12):
        fig.add_scatter(x=[1], y=[1], name=f"series number {at}")
    one_row = 58 + 19
    assert theme.set_legend(fig).layout.showlegend is True
    assert fig.layout.margin.b > one_row
