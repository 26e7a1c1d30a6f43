"""`majorcert verify`: a verdict and its evidence to an audit. Needs torch only for images and weights."""

import hashlib
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from typer.core import TyperCommand

from majorcert.audit.verify import FLOAT32_EXCESS, Check, Difference, check_ballots, sampled
from majorcert.audit.verify import verify as verify_verdict
from majorcert.commands.options import DataDir, Device, Json, SkipBad, SplitSeed
from majorcert.commands.terminal import bar, complain, remark, say_json, say_table
from majorcert.core.ballots import Ballots
from majorcert.core.verdict import Verdict
from majorcert.errors import DataError, EvidenceError

SHOWN = 20
"""So many differences are written out; the table counts them all."""
SEVERAL = ("--evidence", "--weights")
RECENT = ("network_sha256",)
"""What older evidence does not say."""


class SeveralValues(TyperCommand):
    """Lets an option take all words up to the next option, so that `--evidence runs/*.zarr` means what it says."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        words: list[str] = []
        option = ""
        for word, before in zip(args, ["", *args], strict=False):
            if word.startswith("-"):
                option = word if word in SEVERAL else ""
            elif option and before != option:
                words.append(option)
            words.append(word)
        return super().parse_args(ctx, words)


def verify(
    verdict: Annotated[Path, typer.Argument(help="A verdict that `majorcert certify` wrote.")],
    evidence: Annotated[list[str], typer.Option(help="The stores that it was made from, in the same order.")],
    sample: Annotated[str, typer.Option(help="How many images to judge anew, by lot, or 'all'.")] = "20",
    seed: Annotated[
        int | None, typer.Option(help="Draws the same images again; by default other ones each time.")
    ] = None,
    images: Annotated[
        str | None, typer.Option(help="Hash these images: 'digits', 'cifar10', an image folder or an .npz file.")
    ] = None,
    weights: Annotated[
        list[str] | None, typer.Option(help="Run folders or ensembles: hash them and vote anew; needs --images.")
    ] = None,
    near: Annotated[
        float, typer.Option(min=0, help="Votes whose score is this near to the threshold may differ: rounding.")
    ] = 1e-3,
    excess: Annotated[
        float | None,
        typer.Option(min=0, help="How much too large a recorded distance may be; in float32 2e-5, else as --near."),
    ] = None,
    split: Annotated[str | None, typer.Option(help="Of the images; by default the one on record.")] = None,
    device: Device = "auto",
    precision: Annotated[str | None, typer.Option(help="'float32' or 'bfloat16'; by default as on record.")] = None,
    data_dir: DataDir = Path("data"),
    split_seed: SplitSeed = 0,
    skip_bad: SkipBad = False,
    json: Json = False,
) -> None:
    """Check a verdict with a second, simple implementation of the definitions; exit code 1 on any difference.

    Example: majorcert verify verdict.jsonl --evidence runs/*/digits-test.zarr --images digits --weights runs
    """
    n_wanted = _number(sample)
    if weights and images is None:
        raise DataError("weights are checked by voting on images anew; give the images too, with --images")
    judged = Verdict.load(verdict)
    stores = [Ballots.load(store) for store in evidence]
    lot = secrets.randbelow(2**31) if seed is None else seed  # nobody can know which rows will be looked at
    rows = sampled(len(judged), n_wanted, lot)
    with bar("judging anew") as shown:
        checks = verify_verdict(judged, stores, rows, lambda done: shown.show(done, len(rows), "images"))
    n_near, allowed = 0, list[float]()
    if images is not None:
        defenders = [] if not weights else _defenders(weights, stores, device, precision)
        kind = {"channels": defenders[0][1].channels if defenders else None, "skip_bad": skip_bad, "seed": split_seed}
        pictures, same_images = _pictures(images, stores, split, data_dir, kind)
        checks.append(same_images)
        for place, ((folder, defender), store) in enumerate(zip(defenders, stores, strict=False), start=1):
            checks.append(_network(place, folder, defender, store))
            if not same_images.differences and _fits(defender, store):
                allowed.append(_excess(defender, store, near) if excess is None else excess)
                some = [row for row in rows if row < len(store)]
                check, n_here = _votes(defender, store, pictures, some, near, allowed[-1])
                checks.append(check)
                n_near += n_here
    if len(rows) < len(judged):
        remark(
            f"judged anew: {len(rows)} of {len(judged)} images, by lot (--seed {lot}); --sample all judges every one"
        )
    if any(each.distance is not None for each in stores) and max(allowed, default=0.0) > FLOAT32_EXCESS:
        remark(
            f"a distance on record may be too large by {max(allowed):g} unnoticed; "
            "what is certified with a tolerance is checked for one that is smaller by as much"
        )
    sample_of = [int(judged.images[row]) for row in rows]
    _say(judged, checks, sample_of, n_near if weights else None, allowed, json)


def _number(sample: str) -> int | None:
    if sample == "all":
        return None
    if not sample.isdecimal() or int(sample) < 1:
        raise EvidenceError(f"--sample is a number of images from 1 on, or 'all'; got {sample!r}")
    return int(sample)


def _defenders(runs: list[str], stores: list[Ballots], device: str, precision: str | None) -> list[tuple[Path, Any]]:
    """The networks that are said to have voted, in the precision in which they did, and compiled if they were."""
    from majorcert.nets.defender import Defender
    from majorcert.nets.ensemble_file import member_folders, resolved

    folders = [folder for run in runs for folder in member_folders(resolved(run))]
    if len(folders) != len(stores):
        raise EvidenceError(f"got the weights of {len(folders)} defenders and the evidence of {len(stores)}")
    found = []
    for folder, store in zip(_paired(folders, stores), stores, strict=True):
        recorded: Any = store.provenance.get("precision")
        kind: Any = precision or (recorded if recorded in ("float32", "bfloat16") else None)
        compiled = store.provenance.get("compiled") is True
        found.append((folder, Defender.load(folder, device=device, precision=kind, compiled=compiled)))
    return found


def _paired(folders: list[Path], stores: list[Ballots]) -> list[Path]:
    """The folders in the order of the stores: by the fingerprint of the weights, then by strategy, then as given."""
    from majorcert.nets.card import Card

    rules: list[Callable[[Card, Ballots], bool]] = [
        lambda card, store: card.weights_sha256 == store.provenance.get("weights_sha256"),
        lambda card, store: str(card.strategy) == str(store.strategy),
        lambda card, store: True,
    ]
    left, found = [(folder, Card.read(folder)) for folder in folders], dict[int, Path]()
    for fits in rules:
        for place, store in enumerate(stores):
            fitting = [pair for pair in left if place not in found and fits(pair[1], store)]
            if fitting:
                found[place] = fitting[0][0]
                left.remove(fitting[0])
    return [found[place] for place in range(len(stores))]


def _pictures(
    spec: str, stores: list[Ballots], split: str | None, data_dir: Path, kind: dict[str, Any]
) -> tuple[Any, Check]:
    """The images of the data set, and whether they are those that were voted on."""
    import torch

    from majorcert.nets.data import load

    part: Any = split or stores[0].provenance.get("split", "test")
    whole = load(spec, part, data_dir, image_size=stores[0].image_size, **kind)
    voted = sorted({int(image) for store in stores for image in store.images})
    # Evidence of the first images of a split names these alone.
    n_first = voted[-1] + 1 if voted and 0 <= voted[-1] < len(whole) else len(whole)
    hashes = [part.sha256() for part in (whole.subset(torch.arange(n_first)), whole)]
    differences = [
        Difference(f"images_sha256 of evidence {place}", hashes[0], store.provenance.get("images_sha256"))
        for place, store in enumerate(stores, start=1)
        if store.provenance.get("images_sha256") not in hashes
    ]
    strange = [image for image in voted if not 0 <= image < len(whole)]
    if strange:
        what = f"image that was voted on (and {len(strange) - 1} more)"
        differences.append(Difference(what, f"one of {len(whole)}, from 0 on", strange[0]))
    if whole.image_size != stores[0].image_size:
        differences.append(Difference("size of the images", stores[0].image_size, whole.image_size))
    return whole.images, Check("hash of the images", len(stores), tuple(differences))


def _network(place: int, folder: Path, defender: Any, store: Ballots) -> Check:
    """Are the weights and the settings of the network those on record?"""
    try:
        fingerprint = hashlib.sha256((folder / "weights.safetensors").read_bytes()).hexdigest()
    except OSError as error:
        raise EvidenceError(f"{folder}: its weights cannot be read ({error.strerror})") from None
    facts = {
        "weights_sha256": fingerprint,
        "network_sha256": defender.card.network_sha256,
        "strategy": str(defender.strategy),
        "view": defender.view,
        "threshold": defender.threshold,
        "image_size": list(defender.image_size),
        "n_classes": len(defender.class_names),
        "class_names": list(defender.class_names),
    }
    differences = [
        Difference(f"{key} of evidence {place}, as of {folder}", fact, store.provenance.get(key))
        for key, fact in facts.items()
        if store.provenance.get(key, fact if key in RECENT else None) != fact
    ]
    return Check(f"weights of {store.strategy}", len(facts), tuple(differences))


def _fits(defender: Any, store: Ballots) -> bool:
    """Can the network's votes be laid beside the recorded ones?"""
    ours = str(defender.strategy), defender.image_size, len(defender.class_names)
    return ours == (str(store.strategy), store.image_size, store.n_classes)


def _excess(defender: Any, store: Ballots, near: float) -> float:
    """How much more than the new scores say a recorded distance may be: what rounding explains in this precision."""
    both = {defender.voter.precision, store.provenance.get("precision")}
    return min(near, FLOAT32_EXCESS) if both == {"float32"} else near


def _votes(
    defender: Any, store: Ballots, pictures: Any, rows: list[int], near: float, excess: float
) -> tuple[Check, int]:
    """Vote anew on the images in these rows and compare."""
    scores = defender.scores(pictures[store.images[rows]])
    # Scores are float32, and were compared with the threshold as float32.
    threshold = None if defender.threshold is None else float(np.float32(defender.threshold))
    return check_ballots(store, rows, scores, threshold, near, excess)


def _say(
    verdict: Verdict, checks: list[Check], sample: list[int], n_near: int | None, excess: list[float], json: bool
) -> None:
    differences = [difference for check in checks for difference in check.differences]
    if json:
        facts = {
            "method": verdict.method,
            "patch": str(verdict.patch),
            "fragile": [origin.get("fragile") for origin in verdict.defenders],
            "equal": not differences,
            "sample": sample,
            "checks": [{"what": each.what, "n": each.n, "n_differences": len(each.differences)} for each in checks],
            "n_changed_by_rounding": n_near,
            "excess": excess,
            "differences": [vars(difference) for difference in differences],
        }
        say_json(facts)
    else:
        lines = [[check.what, str(check.n), str(len(check.differences))] for check in checks]
        allowed = [] if n_near is None else [["ballots changed by rounding alone", str(n_near), "allowed"]]
        say_table(["what", "how many", "differences"], lines + allowed)
    for difference in differences[:SHOWN]:
        complain(str(difference))
    if len(differences) > SHOWN:
        complain(f"and {len(differences) - SHOWN} more differences")
    if differences:
        raise typer.Exit(1)
    tolerances = sorted({str(origin["fragile"]) for origin in verdict.defenders if "fragile" in origin})
    remark("no difference found" + (f", with fragile ballots at {', '.join(tolerances)}" if tolerances else ""))
