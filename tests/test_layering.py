"""The shape of the package: who may import whom, and what `import majorcert` costs."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import majorcert

SOURCE = Path(majorcert.__file__).parent
# A module imports only from those before it.
CORE = [
    "errors",
    "intake",
    "threat",
    "strategies",
    "plurality",
    "reach",
    "tally",
    "atomic",
    "chunks",
    "store",
    "ballots",
    "scores",
    "windows",
    "writer",
    "verdict",
]
TORCH = {"torch", "safetensors", "PIL", "sklearn", "timm"}


def imports(path: Path) -> set[str]:
    """Every module that a file imports, at the top or inside a function."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module or ""}
    return found


def files(folder: str) -> list[Path]:
    return sorted((SOURCE / folder).rglob("*.py"))


def reaches_into(path: Path, *packages: str) -> set[str]:
    return {name for name in imports(path) if any(name == p or name.startswith(f"{p}.") for p in packages)}


@pytest.mark.parametrize("module", CORE)
def test_the_core_imports_only_from_above(module: str) -> None:
    allowed = {f"majorcert.{name}" for name in CORE[: CORE.index(module)]}
    ours = {".".join(name.split(".")[:2]) for name in imports(SOURCE / f"{module}.py") if name.startswith("majorcert.")}
    assert ours <= allowed


def test_certificates_import_the_core_and_each_other_alone() -> None:
    allowed = {f"majorcert.{name}" for name in [*CORE, "certify"]}
    for path in files("certify"):
        ours = {".".join(name.split(".")[:2]) for name in imports(path) if name.startswith("majorcert.")}
        assert ours <= allowed, path


def test_the_checker_shares_nothing_with_the_judge_but_the_file_readers() -> None:
    allowed = {"opinion": {"errors"}, "verify": {"errors", "opinion", "ballots", "verdict"}}
    for module, names in allowed.items():
        path = SOURCE / f"{module}.py"
        ours = {".".join(name.split(".")[:2]) for name in imports(path) if name.startswith("majorcert")}
        assert ours == {f"majorcert.{name}" for name in names}
        assert not reaches_into(path, *TORCH, "numpy")


def test_torch_stays_in_nets() -> None:
    assert any(reaches_into(path, *TORCH) for path in files("nets"))
    for path in [*(SOURCE / f"{name}.py" for name in CORE), *files("certify"), *files("report")]:
        assert not reaches_into(path, "torch", "safetensors", "sklearn", "timm", "majorcert.nets"), path


def test_the_judged_cannot_see_the_judge() -> None:
    for path in files("nets"):
        if path.name != "defender.py":
            assert not reaches_into(path, "majorcert.certify", "majorcert.report"), path


def test_nobody_imports_the_command_line() -> None:
    for path in SOURCE.rglob("*.py"):
        if path.name not in ("cli.py", "__main__.py") and path.parent.name != "commands":
            assert not reaches_into(path, "majorcert.cli", "majorcert.commands"), path


def test_public_names_are_sorted_and_there() -> None:
    assert majorcert.__all__ == sorted(majorcert.__all__)
    for name in majorcert.__all__:
        assert hasattr(majorcert, name)


def test_import_needs_no_torch_and_no_zarr() -> None:
    code = (
        "import sys; sys.modules['torch'] = None; import majorcert; "
        "print([m for m in ('zarr', 'typer', 'rich', 'jinja2', 'PIL') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_nothing_unpickles() -> None:
    for path in SOURCE.rglob("*.py"):
        assert not {name.split(".")[0] for name in imports(path)} & {"pickle", "marshal", "shelve", "dill"}, path
        text = path.read_text(encoding="utf-8")
        assert "torch.load" not in text, path
        assert "allow_pickle=True" not in text, path
