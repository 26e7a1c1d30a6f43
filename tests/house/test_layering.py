"""The shape of the package: who may import whom, and what `import majorcert` costs."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import majorcert

SOURCE = Path(majorcert.__file__).parent
PACKAGES = {
    "errors": {"errors"},
    "core": {"core", "errors"},
    "defences": {"core", "defences", "errors"},
    "files": {"core", "defences", "errors", "files"},
    "nets": {"core", "defences", "errors", "files", "nets"},
    "attacks": {"attacks", "core", "defences", "errors", "files", "nets"},
    "reports": {"core", "defences", "errors", "files", "reports"},
}
"""What the modules of each package may import from; beside it, `save` and `load` import `files` when called."""
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


def lazily_from_files(path: Path) -> set[str]:
    """What `save`, `load` and `from_scores` of a file import from `files`, first, to hand over to it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef) and node.name in ("save", "load", "from_scores"):
            assert len(node.body) == 3, f"{path}: {node.name} is a docstring, an import and a call"
            first = node.body[1]
            assert isinstance(first, ast.ImportFrom), path
            found |= {first.module or ""} | {f"{first.module}.{alias.name}" for alias in first.names}
    assert all(name.startswith("majorcert.files") for name in found), path
    return found


def files(folder: str) -> list[Path]:
    return sorted((SOURCE / folder).rglob("*.py"))


def reaches_into(path: Path, *packages: str) -> set[str]:
    return {name for name in imports(path) if any(name == p or name.startswith(f"{p}.") for p in packages)}


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_import_only_from_those_below(package: str) -> None:
    for path in files(package):
        lazy = lazily_from_files(path) if package in ("core", "defences") else set()
        ours = {name.split(".")[1] for name in imports(path) - lazy if name.startswith("majorcert.")}
        assert ours - {"__version__"} <= PACKAGES[package], path


def test_the_core_is_read_in_an_hour() -> None:
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files("core"))
    assert lines <= 900, "what is not needed to believe a certificate stands elsewhere"


def test_the_core_knows_numpy_and_no_files() -> None:
    machinery = {"json", "pathlib", "io", "zlib", "base64", "zarr", "msgspec", "shutil", "tempfile"}
    for path in files("errors") + files("core") + files("defences"):
        tops = {name.split(".")[0] for name in imports(path)}
        assert not tops & machinery, path
        assert tops - sys.stdlib_module_names <= {"majorcert", "numpy"}, path
    code = "import sys, majorcert.core.majority; print([m for m in sys.modules if m.startswith('majorcert.files')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_checker_shares_nothing_with_the_judge_but_the_file_readers() -> None:
    readers = {f"majorcert.{name}" for name in ("errors", "core.ballots", "core.reach", "core.verdict")}
    for path in files("audit"):
        ours = {node.module or "" for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)}
        shared = {name for name in ours if name.startswith("majorcert.") and not name.startswith("majorcert.audit.")}
        assert shared <= readers, path
        assert not reaches_into(path, *TORCH, "numpy", "majorcert.nets"), path


def test_torch_stays_in_nets_and_attacks() -> None:
    assert any(reaches_into(path, *TORCH) for path in files("nets"))
    for path in [path for package in ("core", "defences", "files", "audit", "reports") for path in files(package)]:
        assert not reaches_into(path, "torch", "safetensors", "sklearn", "timm", "majorcert.nets"), path


def test_nobody_imports_the_command_line() -> None:
    for path in SOURCE.rglob("*.py"):
        if path.name != "__main__.py" and path.parent.name != "commands":
            assert not reaches_into(path, "majorcert.commands"), path


def test_commands_are_thin_and_one_file_per_verb() -> None:
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files("commands"))
    assert lines <= 1200
    from majorcert.commands.app import app

    verbs = {command.callback.__name__ for command in app.registered_commands if command.callback is not None}
    beside = {"__init__", "app", "inputs", "options"}
    assert {path.stem for path in files("commands")} == verbs | beside


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
ALLOWED = {
    ("nets/models.py", "importlib.import_module"),  # of timm, by a constant name
    ("nets/own.py", "importlib.import_module"),  # a function that the user allows by its name
    ("nets/imagenet.py", "torch.load"),  # weights alone, of a file whose fingerprint is known
    ("audit/checker.py", "subprocess.run"),  # the checker from the proofs, which the user names
}


def calls(path: Path) -> set[str]:
    """Everything that a file calls by a plain or a dotted name."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}


def test_nothing_that_is_read_is_executed() -> None:
    """No pickles, no code from files; arrays go through files/untrusted.py, which also checks their sizes."""
    for path in SOURCE.rglob("*.py"):
        assert not {name.split(".")[0] for name in imports(path)} & EXECUTING, path
        found = {(path.relative_to(SOURCE).as_posix(), call) for call in calls(path) & CALLS}
        assert found <= ALLOWED
        text = path.read_text(encoding="utf-8")
        assert "allow_pickle" not in text, path
        assert "extractall" not in text, path


UNLIMITED = {"json.loads", "json.load", "reader.loads", "np.fromfile", "msgspec.json.decode", "msgspec.json.Decoder"}


def test_files_of_strangers_are_read_in_one_place() -> None:
    """json.loads and read_text know no limits; what reads without them says here why."""
    unlimited = {
        "files/untrusted.py": {"msgspec.json.decode"},  # the one place
        "files/seal.py": {"json.loads"},  # of what json.dumps has just made
    }
    for path in SOURCE.rglob("*.py"):
        name = path.relative_to(SOURCE).as_posix()
        found = {call for call in calls(path) if call in UNLIMITED}
        assert found == unlimited.get(name, set()), path
