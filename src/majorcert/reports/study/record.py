"""What a case study is about: the evidence of each recipe, and the main numbers that its results.json has."""

from pathlib import Path
from typing import Any

from majorcert.errors import StoreError
from majorcert.files.store import Store
from majorcert.files.untrusted import read_object, reason
from majorcert.reports.attack_record import CLASSIFIERS, attack_summary, share
from majorcert.reports.study import CaseStudy, Recipe
from majorcert.reports.study.results import committed

MAIN_METHOD = "majorcert-exact"
MAIN_METHODS_ALONE = ("drs-local", "double-masking", "bagcert", "cbn", "pg-bn", "ibp", "vip")
"""Of defenders that are alternatives to each other."""


def case_study(folder: Path) -> dict[str, Any]:
    """What a case study is about, the evidence of each recipe, and the main numbers of its results.json."""
    study = CaseStudy.read(folder)
    accuracies = _accuracies(folder) if (folder / "results.json").exists() else None
    stores = {store: Store.open(folder / store) for recipe in study.recipes for store in recipe.defenders}
    for name, store in stores.items():
        if store.n_images > len(study.truth):
            raise StoreError(f"{folder / name}: is of {store.n_images} images, truth.npy of {len(study.truth)}")
    shared = {
        key: sorted({str(store.attributes.get(key)) for store in stores.values()})
        for key in ("dataset", "split", "images_sha256")
    }
    facts: dict[str, Any] = {
        "is": "a case study",
        "images": (n := min(store.n_images for store in stores.values())),
        **({"part": f"{n} of the split's {len(study.truth)} images"} if n < len(study.truth) else {}),
        **{key: values[0] if len(values) == 1 else values for key, values in shared.items()},
        "accuracies": f"none yet; `majorcert table {folder} --write` makes them"
        if accuracies is None
        else f"as results.json has them, in percent, by {MAIN_METHOD} or, of alternatives, by each alone; "
        f"`majorcert table {folder} --check` checks them",
    }
    facts["recipes"] = {
        recipe.name: _recipe(recipe, stores, _accuracy(recipe, accuracies or {})) for recipe in study.recipes
    }
    if (folder / "attack.json").exists():
        told = attack_summary(read_object(folder / "attack.json"), folder / "attack.json")
        setting = {"images": told["images"], "patch": told["patch"]}
        facts["attack"] = {name: {**setting, **told[name]} for name in CLASSIFIERS if name in told}
    return facts


def _accuracy(recipe: Recipe, accuracies: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Of the ensemble, or of each of the alternatives."""
    if not recipe.alternatives:
        return accuracies.get(recipe.name, {})
    return {"alternatives": {store: accuracies[store] for store in recipe.defenders if store in accuracies}}


def _recipe(recipe: Recipe, stores: dict[str, Store], accuracy: dict[str, Any]) -> dict[str, Any]:
    cut = [stores[name].attributes for name in recipe.defenders]
    facts: dict[str, Any] = {"strategies": [str(each.get("strategy", each.get("masks"))) for each in cut]}
    missing = sum(images.stop - images.start for name in recipe.defenders for images in stores[name].missing())
    if missing:
        facts["state"] = f"{missing} votes on images are still to come"
    told = {"command": recipe.command, "epochs": recipe.epochs, "gpu_minutes": recipe.gpu_minutes, "note": recipe.note}
    return {**facts, **accuracy, **{key: value for key, value in told.items() if value not in (None, "")}}


def _accuracies(folder: Path) -> dict[str, dict[str, Any]]:
    """Of each recipe, and of each store alone, the clean accuracy, and the certified one at each patch.

    Where one store is judged in several ways alone, by the first.
    """
    found: dict[str, dict[str, Any]] = {}
    methods: dict[str, str] = {}
    try:
        for row in committed(folder)["rows"]:
            recipe, patch = str(row["recipe"]), str(row["patch"])
            clean, certified = share(row["clean"], 100), share(row["certified"], 100)
            if row.get("promise", "recovery") == "recovery" and row["method"] in (MAIN_METHOD, *MAIN_METHODS_ALONE):
                who = recipe if row["method"] == MAIN_METHOD else str(row["evidence"][0])
                if methods.setdefault(who, row["method"]) == row["method"]:
                    found.setdefault(who, {"clean": clean, "certified": {}})["certified"][patch] = certified
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise StoreError(
            f"{folder}: results.json is damaged ({reason(error)}); `majorcert table {folder} --write` makes it anew"
        ) from None
    return found
