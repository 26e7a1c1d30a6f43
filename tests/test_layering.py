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
    "distance",
    "threshold",
    "store",
    "onechunk",
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


EXECUTING = {
    "pickle",
    "cPickle",
    "_pickle",
    "marshal",
    "shelve",
    "dill",
    "cloudpickle",
    "joblib",
    "yaml",
    "runpy",
    "code",
}
CALLS = {
    "eval", "exec", "compile", "__import__", "input", "np.load", "numpy.load", "torch.load", "torch.jit.load",
    "torch.hub.load", "os.system", "os.popen", "subprocess.run", "subprocess.Popen", "importlib.import_module",
}  # fmt: skip
ALLOWED = {("nets/models.py", "importlib.import_module")}
"""Of timm, by a constant name."""


def calls(path: Path) -> set[str]:
    """Everything that a file calls by a plain or a dotted name."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}


def test_nothing_that_is_read_is_executed() -> None:
    """No pickles, no code from files; arrays go through majorcert.intake, which also checks their sizes."""
    for path in SOURCE.rglob("*.py"):
        assert not {name.split(".")[0] for name in imports(path)} & EXECUTING, path
        found = {(path.relative_to(SOURCE).as_posix(), call) for call in calls(path) & CALLS}
        assert found <= ALLOWED
        text = path.read_text(encoding="utf-8")
        assert "allow_pickle" not in text, path
        assert "extractall" not in text, path


def test_files_of_strangers_are_read_in_one_place() -> None:
    """json.loads and read_text know no limits; what reads without them says here why."""
    unlimited = {
        "intake.py": {"json.loads"},  # the one place
        "chunks.py": {"json.loads"},  # of what json.dumps has just made
        "nets/checkpoint.py": {"json.loads"},  # the same
    }
    for path in SOURCE.rglob("*.py"):
        name = path.relative_to(SOURCE).as_posix()
        found = {call for call in calls(path) if call in ("json.loads", "json.load", "reader.loads", "np.fromfile")}
        assert found == unlimited.get(name, set()), path
