"""How far a patch on a photo spreads: counted by formula, and seen through the real decoder and resizer."""

import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from majorcert.core.threat import Patch, as_patch
from majorcert.errors import DataError, PatchError
from majorcert.files.asked_patches import blamed, read_patches
from majorcert.files.photo import (
    HALVES,
    Filter,
    Fit,
    Photos,
    Resizing,
    patch_from_photo,
    patch_on_photo,
    side_on_photo,
    spread,
    supports,
)
from majorcert.nets.sources.decode import glance, read_image, read_photo

SIZES = [(320, 32), (33, 32), (32, 32), (100, 32), (64, 32), (50, 7), (20, 32), (7, 50), (1, 8), (31, 32), (96, 8)]
FITS: tuple[Fit, ...] = ("squash", "crop", "pad")


@pytest.mark.parametrize(("n_photo", "n_network"), SIZES)
@pytest.mark.parametrize("name", HALVES)
def test_the_supports_are_those_of_the_filter(n_photo: int, n_network: int, name: Filter) -> None:
    """Row i of the picture is an impulse at pixel i; in floating point, no weight is too small to be seen."""
    impulses = Image.fromarray(np.eye(n_photo, dtype=np.float32))
    weights = np.asarray(impulses.resize((n_network, n_photo), Image.Resampling[name.upper()]))
    first, last = supports(n_photo, n_network, name)
    pixels = np.arange(n_photo)
    for place in range(n_network):
        seen = np.flatnonzero(abs(weights[:, place]) > 1e-7)  # a weight of less is nothing in 8 bits
        assert first[place] <= seen[0]
        assert seen[-1] <= last[place]
        if name == "bilinear":
            assert seen.tolist() == pixels[first[place] : last[place] + 1].tolist()
        assert seen[0] - first[place] + last[place] - seen[-1] <= 2, "nor is more claimed than a zero at either end"
    assert (np.diff(first) >= 0).all()
    assert (np.diff(last) >= 0).all()


@pytest.mark.parametrize(("n_photo", "n_network"), [pair for pair in SIZES if pair[0] < 100])
def test_a_side_on_the_photo_is_the_largest_that_is_covered(n_photo: int, n_network: int) -> None:
    """Against the definition: the most supports that any window of so many pixels meets."""
    name: Filter
    for name in ("box", "bilinear", "lanczos"):
        first, last = supports(n_photo, n_network, name)
        for side in range(1, n_photo + 1):
            most = max(int(((last >= at) & (first < at + side)).sum()) for at in range(n_photo - side + 1))
            assert spread(side, n_photo, n_network, name) == most
            for certified in range(n_network + 1):
                assert (side_on_photo(certified, n_photo, n_network, name) >= side) == (most <= certified)


def changed(
    folder: Path, photo: np.ndarray, box: tuple[slice, slice], network: tuple[int, int], how: Resizing
) -> Patch:
    """The extent of what painting the box black or white changes, from file to the networks' image."""
    found = np.zeros(network, dtype=bool)
    Image.fromarray(photo).save(folder / "clean.ppm")
    clean = read_image(folder / "clean.ppm", network, resizing=how)
    for paint in (0, 255):
        painted = photo.copy()
        painted[box] = paint
        Image.fromarray(painted).save(folder / "painted.ppm")
        found |= (read_image(folder / "painted.ppm", network, resizing=how) != clean).any(axis=0)
    rows, columns = np.nonzero(found)
    return Patch(int(np.ptp(rows)) + 1, int(np.ptp(columns)) + 1) if len(rows) else Patch(1)


def try_patches(folder: Path, n: int, seed: int) -> list[tuple[Patch, Patch]]:
    """What n patches by lot and at the corners change, and what is said that they can; all else varies too."""
    rng, seen = np.random.default_rng(seed), []
    for k in range(n):
        photo_size, network = tuple(rng.integers(2, 140, 2).tolist()), tuple(rng.integers(2, 40, 2).tolist())
        how = Resizing(FITS[k % 3], list(HALVES)[k % 5])
        patch = Patch(*(int(rng.integers(1, side + 1)) for side in photo_size))
        free = [most - side for most, side in zip(photo_size, (patch.height, patch.width), strict=True)]
        top, left = (int(rng.choice([0, most, rng.integers(0, most + 1)])) for most in free)
        photo = rng.integers(100, 156, (*photo_size, 3), dtype=np.uint8)
        box = slice(top, top + patch.height), slice(left, left + patch.width)
        seen.append((changed(folder, photo, box, network, how), patch_from_photo(patch, photo_size, network, how)))
    return seen


def check_tried(seen: list[tuple[Patch, Patch]]) -> None:
    for real, said in seen:
        assert real.height <= said.height
        assert real.width <= said.width
    assert sum(real.height == said.height for real, said in seen) > len(seen) / 4, "the bound is often met"


def test_patches_by_lot_change_no_more_than_is_said(tmp_path: Path) -> None:
    check_tried(try_patches(tmp_path, 100, seed=0))


@pytest.mark.slow
def test_ten_thousand_patches_change_no_more_than_is_said(tmp_path: Path) -> None:
    check_tried(try_patches(tmp_path, 10_000, seed=1))


@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize(("photo", "network"), [((36, 48), (8, 8)), ((29, 22), (9, 7)), ((5, 9), (8, 8))])
def test_every_placement_changes_no_more_than_is_said(
    photo: tuple[int, int], network: tuple[int, int], fit: Fit, tmp_path: Path
) -> None:
    """All tops with all lefts in turn; somewhere the bound is met."""
    how, grey = Resizing(fit), np.full((*photo, 3), 128, np.uint8)
    patch = Patch(max(1, photo[0] // 6), max(1, photo[1] // 7))
    said = patch_from_photo(patch, photo, network, how)
    tops, lefts = patch.n_placements(photo)
    most = [0, 0]
    for k in range(max(tops, lefts)):
        box = (slice(k % tops, k % tops + patch.height), slice(k % lefts, k % lefts + patch.width))
        real = changed(tmp_path, grey, box, network, how)
        most = [max(most[0], real.height), max(most[1], real.width)]
    assert (said.height - 1, said.width - 1) <= tuple(most) <= (said.height, said.width)


def test_the_naive_conversion_is_false() -> None:
    """A sticker of exactly 5/32 of a 480x640 photo changes up to 7x7 network pixels, and 5x5 covers 47x61."""
    assert patch_from_photo("75x100px", (480, 640), (32, 32)) == Patch(7)
    assert patch_on_photo(Patch(5), (320, 320), (32, 32)) == (31, 31)
    assert patch_on_photo(5, (480, 640), (32, 32)) == (47, 61)
    assert patch_on_photo(Patch(5, 3), (32, 32), (32, 32)) == (5, 3)
    assert patch_on_photo(Patch(1), (320, 320), (32, 32)) == (0, 0)
    assert patch_on_photo(Patch(32), (480, 640), (32, 32)) == (480, 640)


@pytest.mark.parametrize("how", [Resizing(fit, name) for fit in FITS for name in HALVES])
def test_what_is_covered_on_the_photo_is_covered_on_the_image(how: Resizing) -> None:
    for photo in ((48, 61), (30, 20), (8, 90)):
        for side in range(1, 9):
            height, width = patch_on_photo(side, photo, (8, 8), how)
            if height and width:
                back = patch_from_photo((height, width), photo, (8, 8), how)
                assert (back.height, back.width) <= (side, side)
                if height < photo[0]:
                    assert patch_from_photo((height + 1, width), photo, (8, 8), how).height > side


def test_a_share_is_the_smallest_square_of_at_least_that_area() -> None:
    assert as_patch("2%", (224, 224)) == Patch(32)
    assert as_patch(" 0.5 %", (32, 32)) == Patch(3)
    for percent in (1, 2, 3, 7, 33):
        for size in ((32, 32), (480, 640), (7, 11), (225, 224)):
            side, area = as_patch(f"{percent}%", size).height, size[0] * size[1]
            assert side**2 * 100 >= percent * area > (side - 1) ** 2 * 100
    for wrong in ("0%", "0.0 %", "100%", "200%"):
        with pytest.raises(PatchError, match=rf"over 0% and under 100% of it, got {wrong}$"):
            as_patch(wrong, (32, 32))
    for wrong in ("-2%", "%", "2%%", "1e1%"):
        with pytest.raises(PatchError, match=rf"cannot read '{wrong}' as a patch"):
            as_patch(wrong, (32, 32))


def test_patches_are_read_in_pixels_of_the_photo_and_of_the_network() -> None:
    photos = Photos(frozenset({(480, 640), (100, 100)}))
    assert read_patches(["5", "3x7", "2%"], (32, 32), None) == [Patch(5), Patch(3, 7), Patch(5)]
    assert read_patches(["5", "20x40px", "2%"], (32, 32), photos) == [Patch(5), Patch(9, 15), Patch(8, 7)]
    assert photos.covered(Patch(7), (32, 32)) == (16, 16)
    with pytest.raises(PatchError, match="20x40px is in pixels of a photo, and no photos are known"):
        read_patches(["20x40px"], (32, 32), None)
    assert read_patches(["200px"], (32, 32), photos) == [Patch(32)], "all of the smaller photo"
    with pytest.raises(DataError, match=r"squash, crop, pad .*got 'stretch'"):
        Resizing("stretch")  # type: ignore[arg-type]


def test_the_photo_that_makes_a_share_large_is_named() -> None:
    """The patch covers what the tiny or narrow photo needs, and whoever asked for it learns which photo that is."""
    usual = {(100 + k, 100) for k in range(5)}
    for odd, name in (((3, 3), "tiny.png"), ((12, 400), "narrow.png")):
        photos = Photos(frozenset({*usual, odd}), files={odd: name})
        most, own = photos.patch("2%", (24, 24)), patch_from_photo("2%", odd, (24, 24))
        assert (most.height, most.width) == (own.height, max(own.width, 6)), "it is the one that needs most"
        assert f"because of {name} of {odd[0]}x{odd[1]} pixels" in blamed("2%", (24, 24), photos)
        assert "a photo of 3x3" in blamed("2%", (24, 24), Photos(frozenset({*usual, (3, 3)})))
        assert f"{patch_from_photo('2%', (102, 100), (24, 24))}, as for half" in blamed("2%", (24, 24), photos)
    assert blamed("2%", (24, 24), Photos(frozenset(usual))) == "" == blamed("5", (24, 24), photos)


@pytest.mark.parametrize(("fit", "used", "made"), [("squash", 40, 8), ("crop", 20, 8), ("pad", 40, 4)])
def test_photos_are_squashed_cropped_or_padded(fit: Fit, used: int, made: int, tmp_path: Path) -> None:
    """A photo twice as wide as high: its left and right quarters are black."""
    photo = np.full((20, 40, 3), 255, np.uint8)
    photo[:, :10] = photo[:, -10:] = 0
    Image.fromarray(photo).save(tmp_path / "wide.png")
    how = Resizing(fit)
    assert how.used((20, 40), (8, 8)) == (20, used)
    assert how.made((20, 40), (8, 8)) == (made, 8)
    image = read_image(tmp_path / "wide.png", (8, 8), resizing=how)[0]
    expected = {"squash": (0, 255), "crop": (255, 255), "pad": (128, 128)}[fit]
    assert (image[0, 0], image[0, 4]) == expected
    assert image[4, 4] == 255


def test_a_jpeg_is_decoded_in_full_and_only_then_resized(tmp_path: Path) -> None:
    """No draft at an eighth of the size, no gap that reduces first: either would spread a patch further."""
    pixels = np.random.default_rng(0).integers(0, 256, (160, 240, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.jpg", quality=60)
    with Image.open(tmp_path / "a.jpg") as file:
        decoded = np.asarray(file.convert("RGB"))
    Image.fromarray(decoded).save(tmp_path / "a.png")
    found, size = read_photo(tmp_path / "a.jpg", (8, 8))
    assert size == (160, 240)
    assert np.array_equal(found, read_image(tmp_path / "a.png", (8, 8)))


def claiming(ending: str, width: int, height: int) -> bytes:
    """The beginning of a file that claims so many pixels, and has none."""
    if ending == "bmp":
        return b"BM" + struct.pack("<IIIIiiHHIIiiII", 0, 0, 54, 40, width, height, 1, 24, 0, 0, 0, 0, 0, 0)
    if ending == "tif":
        tags = [(256, width), (257, height), (258, 8), (259, 1), (262, 1), (273, 8), (277, 1), (278, height), (279, 1)]
        return b"II*\0\x08\0\0\0\x09\0" + b"".join(struct.pack("<HHII", tag, 4, 1, n) for tag, n in tags) + bytes(4)
    return b"P%d %d %d 255\n" % (6 if ending == "ppm" else 5, width, height)


@pytest.mark.parametrize("ending", ["ppm", "pgm", "bmp", "tif"])
def test_a_header_that_claims_too_much_is_refused_before_it_is_decoded(ending: str, tmp_path: Path) -> None:
    (tmp_path / f"bomb.{ending}").write_bytes(claiming(ending, 30_000, 20_000))
    with pytest.raises(DataError, match=rf"bomb.{ending} claims 30000x20000 pixels, over the limit"):
        read_image(tmp_path / f"bomb.{ending}")


@pytest.mark.parametrize("ending", ["png", "jpg", "webp", "tif"])
@pytest.mark.parametrize("turn", [1, 3, 6, 8])
def test_a_glance_sees_a_turned_photo_upright(ending: str, turn: int, tmp_path: Path) -> None:
    path, exif = tmp_path / f"photo.{ending}", Image.Exif()
    exif[0x0112] = turn
    Image.new("RGB", (6, 4)).save(path, exif=exif)
    assert glance(path)[0] == read_photo(path)[1] == ((6, 4) if turn > 4 else (4, 6))


@pytest.mark.parametrize("packed", [{}, {"compression": "tiff_lzw"}])
@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "CMYK", "I;16"])
@pytest.mark.parametrize("turn", range(1, 9))
def test_a_turned_tiff_is_the_same_photo_however_its_pixels_are_stored(
    turn: int, mode: str, packed: dict[str, Any], tmp_path: Path
) -> None:
    """A patch on the upright photo is one rectangle of what is read; pixels in another order would scatter it."""
    n_bytes = {"L": 1, "RGB": 3, "I;16": 2}.get(mode, 4)
    plain = Image.frombytes(mode, (6, 4), np.random.default_rng(turn).bytes(24 * n_bytes))
    exif = Image.Exif()
    exif[0x0112] = turn
    plain.save(tmp_path / "a.tif")
    plain.save(tmp_path / "turned.tif", exif=exif, **packed)
    upright, found = read_image(tmp_path / "a.tif"), read_photo(tmp_path / "turned.tif")
    down, right = (turn in (3, 4, 6, 7), turn in (2, 3, 7, 8))
    upright = upright[:, :: -1 if down else 1, :: -1 if right else 1]
    upright = upright.transpose(0, 2, 1) if turn > 4 else upright
    assert np.array_equal(found[0], upright)
    assert found[1] == upright.shape[1:] == glance(tmp_path / "turned.tif")[0]


@pytest.mark.parametrize("ending", ["png", "jpg", "webp", "bmp", "tif", "ppm", "pgm"])
def test_every_kind_of_file_is_read(ending: str, tmp_path: Path) -> None:
    path, grey = tmp_path / f"photo.{ending}", ending == "pgm"
    image = Image.new("L" if grey else "RGB", (6, 4), 77 if grey else (200, 30, 40))
    image.save(path, **({"lossless": True} if ending == "webp" else {}))
    pixels, size = read_photo(path)
    assert pixels.shape == (1 if grey else 3, 4, 6)
    assert abs(pixels[:, 2, 3].astype(int) - ([77] if grey else [200, 30, 40])).max() <= (4 if ending == "jpg" else 0)
    assert glance(path) == (size, not grey)
    whole = path.read_bytes()
    for cut in range(1, len(whole), max(1, len(whole) // 40)):
        path.write_bytes(whole[:cut])
        with suppress(DataError):  # and nothing else
            read_image(path, (4, 4), 3)
