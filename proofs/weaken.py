"""Weaken the definitions one by one, and see that it is noticed: by a proof that fails, or in the comparison.

    python proofs/weaken.py

Each change is made in a copy. First the proofs are checked; where all of them still hold, the checker is built from the
changed files and compared with the core on random tables. Exit code 1 if a change is noticed by neither.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
CHANGES = {
    "the tie rule reversed": ("Plurality.v", "((u =? v) && (a <? b))", "((u =? v) && (b <? a))"),
    "ties go to nobody": ("Plurality.v", "(v <? u) || ((u =? v) && (a <? b))", "(v <? u)"),
    "the last column of placements left out": ("Geometry.v", "(snd image + 1 - snd patch)", "(snd image - snd patch)"),
    "regions do not wrap around": ("Geometry.v", "map (fun k => (start + k) mod n)", "map (fun k => start + k)"),
    "the patch touches only what holds its corner": (
        "Geometry.v",
        "existsb (holds region) patch",
        "existsb (holds region) (firstn 1 patch)",
    ),
    "one rival unchecked in the closed form": (
        "Ensemble.v",
        "(fun c => (c =? y) ||\n",
        "(fun c => (c =? y) || (c =? 1) ||\n",
    ),
    "one rival unchecked in reach": (
        "Votes.v",
        "(fun k => (k =? c) || beats c",
        "(fun k => (k =? c) || (k =? 1) || beats c",
    ),
    "ties not counted in the closed form": (
        "Ensemble.v",
        "count (fun reach => reach c) reaches + (if c <? y then 1 else 0) <=?",
        "count (fun reach => reach c) reaches <=?",
    ),
    "the margin only once": ("Votes.v", "(2 * most +", "(1 * most +"),
    "an attack leaves the touched ballots alone": (
        "Votes.v",
        "      mark = true \\/ fragile b = true -> worth any = worth b",
        "      fragile b = true -> worth any = worth b",
    ),
    "fragile ballots forgotten": ("Votes.v", "if mark || fragile b then worth b", "if mark then worth b"),
    "a row proves without hiding the patch": ("Masking.v", "marked_at marks i && (negb", "(negb"),
    "without the slack": (
        "Detection.v",
        "kept c marks ballots + doubtful marks ballots + slack))",
        "kept c marks ballots + doubtful marks ballots))",
    ),
    "the loudest window not masked": ("PatchGuard.v", "then all - loud else all", "then all else all"),
    "a share of T taken for none": ("PatchGuard.v", "points * snd share / (snd share - fst share)", "points"),
    "a rival that only ties let ahead": ("TopK.v", "(if y <? c then 1 else 0)", "0"),
    "ballots name one label more": (
        "TopK.v",
        "N.of_nat (length (says b)) <= most",
        "N.of_nat (length (says b)) <= most + 1",
    ),
    "votes that the patch touches trusted without another place": (
        "Joint.v",
        "(mark || fragile b) (says b)",
        "(fragile b) (says b)",
    ),
}


def noticed(file: str, old: str, new: str, folder: Path) -> str | None:
    """What notices this change."""
    text = (folder / file).read_text(encoding="utf-8")
    if text.count(old) < 1:
        raise SystemExit(f"{file} has no {old!r} any more")
    (folder / file).write_text(text.replace(old, new, 1), encoding="utf-8")
    built = subprocess.run(["make", "-C", folder], capture_output=True, text=True, check=False)
    if built.returncode:
        lines = built.stderr.splitlines()
        where = next((line.split('"')[1:3] for line in lines if line.startswith("File ")), None)
        if where is None:
            raise SystemExit(built.stderr)
        path, line = Path(where[0]).name, int(where[1].split()[2].strip(","))
        return f"{path}: the proof of `{statement(folder / path, line)}` fails"
    command = [sys.executable, HERE / "compare.py", folder / "build" / "checker", "--tables", "5000"]
    compared = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ))
    if compared.returncode == 0:
        return None
    return "the comparison: " + (compared.stdout or compared.stderr).splitlines()[-1]


def statement(path: Path, line: int) -> str:
    """The name of the lemma or theorem, or of the definition, that this line of a file belongs to."""
    words = [text.split() for text in path.read_text(encoding="utf-8").splitlines()[:line]]
    return next(text[1] for text in reversed(words) if text[:1] and text[0] in ("Lemma", "Theorem", "Definition"))


def main() -> int:
    missed = 0
    for what, change in CHANGES.items():
        with tempfile.TemporaryDirectory() as place:
            folder = Path(shutil.copytree(HERE, Path(place) / "proofs"))
            found = noticed(*change, folder)
        print(f"{what}: {found or 'NOT NOTICED'}", flush=True)
        missed += found is None
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
