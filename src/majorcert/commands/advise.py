"""`majorcert advise`: evidence and true labels to which defence suits. Needs no torch."""

from majorcert.commands.options import Json, Patches, Stores, Truth
from majorcert.errors import DataError
from majorcert.files.truth import find_truth
from majorcert.reports.advise import HEADER, advice, choices
from majorcert.reports.asked import defenders_of, patches_of
from majorcert.reports.terminal import remark, say, say_json, say_table


def advise(evidence: Stores, patch: Patches, truth: Truth = None, json: Json = False) -> None:
    """Say which defence suits: each defender, their majority and their pool, under both promises, and what they cost.

    Example: majorcert advise runs/*/photos-val.zarr --patch 2%

    Choose by the split 'val': what was chosen by test images is not measured by them any more.
    """
    defenders = defenders_of(evidence)
    labels = find_truth(truth, evidence[0], defenders[0], remark)
    if labels is None:
        raise DataError("advice is by true labels, and there are none beside the evidence; give them with --truth")
    if defenders[0].provenance.get("split") == "test":
        remark("these are test images: what is chosen by them is not measured by them any more; use the split 'val'")
    found = []
    for size in patches_of(patch, evidence[0], defenders):
        ways = choices(defenders, size, labels)
        told = advice(ways, size)
        found.append({"patch": str(size), "choices": [vars(each) for each in ways], "advice": told})
        if not json:
            say_table(HEADER, [each.cells() for each in ways])
            say(told)
    if json:
        say_json(found)
