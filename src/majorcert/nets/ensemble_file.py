"""The artifact of an ensemble: a folder with ensemble.json, which lists its members, and a sub-folder for each."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from majorcert.core.threat import Patch
from majorcert.defences.masking import Masks
from majorcert.errors import ModelError
from majorcert.files.untrusted import read_json, reason, typed
from majorcert.nets.blueprint import Blueprint
from majorcert.nets.folders import CHECKPOINT, DEFENDER, ENSEMBLE, check_format
from majorcert.nets.imagenet import is_pretrained
from majorcert.nets.on_disk import write_json

FORMAT = "majorcert-ensemble"
BOUNDED = "bounded"
"""The sub-folder of an ensemble with defenders that take its place where a bound on the patch is known."""
MAX_MEMBERS = 1000


@dataclass(frozen=True)
class _Members:
    members: list[str]
    pooled: bool = False


def write_members(folder: Path, names: Sequence[str], *, pooled: bool = False) -> None:
    """Write ensemble.json over the members' sub-folders."""
    rule = {"pooled": True} if pooled else {}
    write_json(folder / ENSEMBLE, {"format": FORMAT, "version": 1, "members": list(names), **rule})


def check_resumed(folder: Path, names: Sequence[str]) -> None:
    """Refuse to go on in a folder that holds other networks than sub-folders of these names do; "." is its own."""
    if (folder / ENSEMBLE).is_file():
        held = [each.name for each in member_folders(folder)]
    else:
        held = ["."] if any((folder / name).is_file() for name in (CHECKPOINT, DEFENDER)) else []
    if not set(held) <= set(names):
        what = "a run" if held == ["."] else f"an ensemble of {', '.join(held)}"
        raise ModelError(f"{folder} already holds {what}; go on with the same strategies, or use another folder")


def member_folders(folder: Path) -> list[Path]:
    """The folders of the members of an ensemble; a folder that holds one defender is an ensemble of one."""
    found = _members(folder)
    return [folder] if found is None else [folder / name for name in found.members]


def suited_to(folder: Path, bound: Patch) -> Path:
    """Where the defenders are that know this bound on the patch: in the sub-folder `bounded`, if its masks cover it."""
    if not (folder / BOUNDED).is_dir():
        return folder
    masks = [Blueprint.read(member).strategy for member in member_folders(folder / BOUNDED)]
    largest = [each.patch for each in masks if isinstance(each, Masks)]
    covered = all(each.height >= bound.height and each.width >= bound.width for each in largest)
    return folder / BOUNDED if covered and len(largest) == len(masks) else folder


def saved_pooled(folder: Path) -> bool:
    """Are the votes of the members to be added up?"""
    found = _members(folder)
    return found is not None and found.pooled


def _members(folder: Path) -> _Members | None:
    """What ensemble.json says; None of a folder that holds one defender."""
    if not (folder / ENSEMBLE).is_file() and (folder / DEFENDER).is_file():
        return None
    try:
        raw = read_json(folder / ENSEMBLE)
        check_format(raw, FORMAT)
        found = typed(raw, _Members)
        names = found.members
        if len(names) > MAX_MEMBERS:
            raise ValueError(f"it has {len(names)} members, and at most {MAX_MEMBERS} are expected")
        if not names or any(Path(name).name != name or name in ("", ".", "..") for name in names):
            raise ValueError(f"members are names of sub-folders, got {names}")
    except (FileNotFoundError, NotADirectoryError):
        raise ModelError(
            f"{folder} holds neither an ensemble ({ENSEMBLE}) nor a trained defender ({DEFENDER})"
        ) from None
    except (OSError, ValueError) as error:
        raise ModelError(f"cannot read {folder / ENSEMBLE} as an ensemble: {reason(error)}") from None
    return found


def resolved(name: str | Path) -> Path:
    """The folder of that path, or the ensemble of that name that comes with majorcert: "cifar10", "cifar10/bounded"."""
    if Path(name).is_dir():
        return Path(name)
    bundled = Path(str(resources.files("majorcert"))) / "bundled"
    folders = [path for pattern in ("*", f"*/{BOUNDED}") for path in bundled.glob(pattern) if path.is_dir()]
    names = sorted(path.relative_to(bundled).as_posix() for path in folders)
    if str(name) in names and not Path(Path(name).parts[0]).is_dir():  # an own folder of that name is not ours
        return bundled / name
    if is_pretrained(str(name)):
        raise ModelError(
            f"{name} is a classifier that is put behind masks for a patch: `predict` takes it by its name, and "
            f'mc.protect("{name}", "2%").save(folder) makes a folder of it for other verbs'
        )
    known = f"; bundled ensembles: {', '.join(names)}, and `predict` knows imagenet" if names else ""
    what = f"{name} is a file, not a folder" if Path(name).is_file() else f"there is no folder {str(name)!r}"
    raise ModelError(f"{what}{known}; `majorcert train` writes one")
